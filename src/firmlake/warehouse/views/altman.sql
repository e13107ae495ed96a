-- view altman
-- One row per financial period of a company: Altman's Z'', a bankruptcy score for private companies outside
-- manufacturing. z = 6.56 x1 + 3.26 x2 + 6.72 x3 + 1.05 x4. Two parts are approximations: x3 uses annualised EBIT; x4
-- uses book equity and, for all liabilities, total assets minus equity or, if one of these is not stated, the column
-- debt. A company without any debt has no score. The limits 2.6 and 1.1 are Altman's own. The score is a rough
-- indication, not a rating.
--
-- x1: Net working capital divided by total assets. Null: an amount is missing, or total assets are not above zero
-- x2: Retained earnings divided by total assets. Null: an amount is missing, or total assets are not above zero
-- x3: Annualised EBIT divided by total assets. Null: an amount is missing, or total assets are not above zero
-- liabilities: Divisor of x4: total assets minus equity, or debt. Null: neither can be computed
-- liabilities_from: Origin of liabilities: assets minus equity, or debt. Null: neither can be computed
-- x4: Equity divided by liabilities. Null: equity is missing, or liabilities are not above zero
-- z: Altman's Z'', to four decimals. Null: a part is missing
-- zone: safe (above 2.6), grey or distress (below 1.1). Null: there is no score
SELECT
    *,
    altman_z(x1, x2, x3, x4) AS z,
    altman_zone(z) AS zone
FROM (
    SELECT
        country, company_number, start_date, end_date, date_received, period_days,
        ratio(net_working_capital, total_assets) AS x1,
        ratio(retained_earnings, total_assets) AS x2,
        ratio(annualised(ebit, period_days), total_assets) AS x3,
        liabilities, liabilities_from,
        ratio(equity, liabilities) AS x4
    FROM (
        SELECT
            *,
            coalesce(total_assets::DECIMAL(19, 2) - equity, debt)::DECIMAL(20, 2) AS liabilities,
            CASE
                WHEN total_assets IS NOT NULL AND equity IS NOT NULL THEN 'assets minus equity'
                WHEN debt IS NOT NULL THEN 'debt'
            END AS liabilities_from
        FROM accounts
    )
)
