-- view distress_scores
-- One row per financial period of a company: second opinions beside Altman's Z''. Zmijewski (1984, Journal of Accounting
-- Research 22): -4.336 - 4.513 x net profit / total assets + 5.679 x liabilities / total assets + 0.004 x current ratio; a
-- score above 0 means distress. Altman's Z' (2000, Predicting financial distress of companies) for private manufacturers:
-- 0.717 x1 + 0.847 x2 + 3.107 x3 + 0.420 x4 + 0.998 x revenue / total assets, with the parts of altman. Both were estimated
-- on American companies. Profit, EBIT, revenue and cash flow are converted to a year. Rough indications, not ratings.
--
-- zmijewski: Zmijewski's score, to four decimals; above 0 is distress. Null: a part is missing
-- is_zmijewski_distress: Whether that score is above 0. Null: there is no score
-- altman_private: Altman's Z', to four decimals. Null: a part is missing
-- altman_private_zone: safe (above 2.9), grey or distress (below 1.23). Null: there is no score
-- cash_flow_to_debt: Cash flow divided by debt (Beaver 1966); below zero the company does not earn its debts. Null: one is
-- missing, or the debt is not above zero
SELECT
    country, company_number, start_date, end_date, a.period_days,
    round(
        -4.336 - 4.513 * ratio(annualised(a.net_profit, a.period_days), a.total_assets)
            + 5.679 * ratio(z.liabilities, a.total_assets) + 0.004 * a.current_ratio::DOUBLE,
        4
    ) AS zmijewski,
    zmijewski > 0 AS is_zmijewski_distress,
    round(
        0.717 * z.x1 + 0.847 * z.x2 + 3.107 * z.x3 + 0.420 * z.x4
            + 0.998 * ratio(annualised(a.revenue, a.period_days), a.total_assets),
        4
    ) AS altman_private,
    CASE
        WHEN altman_private > 2.9 THEN 'safe'
        WHEN altman_private < 1.23 THEN 'distress'
        WHEN altman_private IS NOT NULL THEN 'grey'
    END AS altman_private_zone,
    ratio(annualised(a.cash_flow, a.period_days), a.debt) AS cash_flow_to_debt
FROM (SELECT * EXCLUDE (recency) FROM accounts) a
JOIN (
    SELECT country, company_number, start_date, end_date, liabilities, x1, x2, x3, x4 FROM altman
) z USING (country, company_number, start_date, end_date)
