-- check debt_parts, warning
-- Long-term and short-term debt do not add up to debt (by more than one unit).
SELECT country, company_number, start_date, end_date,
    {debt: debt, long_term_debt: long_term_debt, short_term_debt: short_term_debt,
     difference: debt - long_term_debt - short_term_debt} AS evidence
FROM accounts
WHERE abs(debt - long_term_debt - short_term_debt) > 1
