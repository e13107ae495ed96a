-- check current_ratio, note
-- The current ratio differs from (net working capital + short-term debt) / short-term debt by more than a hundredth
-- plus one per cent.
SELECT country, company_number, start_date, end_date,
    {current_ratio: current_ratio, recomputed: recomputed, net_working_capital: net_working_capital,
     short_term_debt: short_term_debt} AS evidence
FROM (
    SELECT *, ratio(net_working_capital + short_term_debt, short_term_debt) AS recomputed FROM accounts
)
WHERE short_term_debt > 0 AND abs(current_ratio - recomputed) > 0.01 + abs(recomputed) / 100
