-- check net_cash, note
-- Net working capital less its requirement differs from cash less short-term financial debt by more than a hundredth of
-- total assets, so the service counts something else in one of them; see working_capital.
SELECT w.country, w.company_number, w.start_date, w.end_date,
    {net_cash: net_cash, net_cash_stated: net_cash_stated, difference: identity_difference} AS evidence
FROM working_capital w
JOIN (SELECT country, company_number, start_date, end_date, total_assets FROM accounts)
    USING (country, company_number, start_date, end_date)
WHERE abs(identity_difference) > greatest(1, abs(total_assets) / 100)
