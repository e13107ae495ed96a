-- check long_term_parts, warning
-- The parts of the long-term debt add up to more than the long-term debt (by more than one unit).
SELECT country, company_number, start_date, end_date,
    {long_term_debt: long_term_debt, financial: long_term_debt_financial,
     accounts_payable: long_term_debt_accounts_payable} AS evidence
FROM accounts
WHERE long_term_debt_financial + long_term_debt_accounts_payable - long_term_debt > 1
