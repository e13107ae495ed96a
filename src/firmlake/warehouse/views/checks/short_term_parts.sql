-- check short_term_parts, warning
-- The parts of the short-term debt add up to more than the short-term debt (by more than one unit).
SELECT country, company_number, start_date, end_date,
    {short_term_debt: short_term_debt, financial: short_term_debt_financial,
     accounts_payable: short_term_debt_accounts_payable} AS evidence
FROM accounts
WHERE short_term_debt_financial + short_term_debt_accounts_payable - short_term_debt > 1
