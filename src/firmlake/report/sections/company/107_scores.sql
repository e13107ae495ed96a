-- title: Scores, capital and working capital
-- chapter: Accounts
-- Newest accounts first. The capital procedure holds if the company has the legal form named. Scores and the credit limit
-- are rough indications, not ratings.
SELECT s.end_date AS accounts_to, s.zmijewski, s.altman_private, s.cash_flow_to_debt, f.f_score,
    w.net_working_capital AS fr_amount, w.net_working_capital_requirement AS bfr_amount,
    w.net_cash AS net_cash_amount, w.accounts_payable AS accounts_payable_amount,
    l.credit_limit AS credit_limit_amount,
    k.procedure AS capital_procedure
FROM (FROM distress_scores WHERE country = getvariable('country') AND company_number = getvariable('number')) s
JOIN (
    FROM working_capital WHERE country = getvariable('country') AND company_number = getvariable('number')
) w USING (country, company_number, start_date, end_date)
LEFT JOIN (
    FROM piotroski WHERE country = getvariable('country') AND company_number = getvariable('number')
) f USING (country, company_number, start_date, end_date)
LEFT JOIN (
    FROM credit_limits() WHERE country = getvariable('country') AND company_number = getvariable('number')
) l USING (country, company_number, end_date)
LEFT JOIN (
    FROM capital_procedure WHERE country = getvariable('country') AND company_number = getvariable('number')
) k USING (country, company_number, end_date)
ORDER BY s.end_date DESC LIMIT 5
