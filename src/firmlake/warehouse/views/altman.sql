-- view altman
-- One row for each period of a company: Altman's Z'' for private companies outside manufacturing,
-- 6.56 x1 + 3.26 x2 + 6.72 x3 + 1.05 x4. Approximations: x3 takes EBIT annualised; x4 takes book equity and, for all
-- liabilities, the field debt. Null where a part is missing or a divisor is not above zero; above 2.6 and below 1.1 are
-- Altman's own limits. A rough sign, no rating.
--
-- x1: Net working capital by total assets
-- x2: Retained earnings by total assets
-- x3: Annualised EBIT by total assets
-- x4: Equity by debt
-- z: The score, to four decimals. Null: a part is missing
-- zone: safe (above 2.6), grey or distress (below 1.1). Null: there is no score
SELECT
    *,
    round(6.56 * x1 + 3.26 * x2 + 6.72 * x3 + 1.05 * x4, 4) AS z,
    CASE WHEN z > 2.6 THEN 'safe' WHEN z < 1.1 THEN 'distress' WHEN z IS NOT NULL THEN 'grey' END AS zone
FROM (
    SELECT
        country, company_number, start_date, end_date, period_days,
        CASE WHEN total_assets > 0 THEN ratio(net_working_capital, total_assets) END AS x1,
        CASE WHEN total_assets > 0 THEN ratio(retained_earnings, total_assets) END AS x2,
        CASE WHEN total_assets > 0 THEN ratio(annualised(ebit, period_days), total_assets) END AS x3,
        CASE WHEN debt > 0 THEN ratio(equity, debt) END AS x4
    FROM accounts
)
