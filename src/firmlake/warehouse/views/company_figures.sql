-- view company_figures
-- One row for each company ever accepted from a list: its name, its newest accounts with growth and ratios, and its place
-- in its group. These are the columns that can be added to a company list.
--
-- accounts_from: First day of the newest accounts. Null: no accounts are held
-- accounts_to: Last day of the newest accounts. Null: no accounts are held
-- overdue_days: Days since the next accounts were expected, at the time of the query (UTC). Null: they are not overdue
-- altman_z: Altman's Z'' of these accounts, see altman. Null: a part is missing
-- altman_zone: safe (Z'' above 2.6), grey or distress (below 1.1). Null: there is no score
-- loss_period_count: Periods in a row with a loss, back from the newest. Null: no accounts are held
-- parent_count: Parents that the service names. Null: it never answered
-- child_count: Children that the service names. Null: it never answered
-- ultimate_parent: Name of the owner that holds it through stakes of at least a half and has no such owner itself; several
-- are separated by semicolons. Null: none is known
-- ultimate_parent_company: Country and company number of that owner. Null: it has no number, or no owner is known
SELECT
    c.country, c.company_number, c.name, c.place,
    p.start_date AS accounts_from,
    p.end_date AS accounts_to,
    overdue_days(p.end_date, p.usual_days_to_file, (now() AT TIME ZONE 'UTC')::DATE) AS overdue_days,
    p.revenue, p.revenue_growth, p.net_profit, p.net_margin,
    p.total_assets, p.equity, p.equity_fraction, p.debt, p.current_ratio,
    p.employee_count, p.employee_growth,
    p.health_indicator,
    p.z AS altman_z,
    p.zone AS altman_zone,
    p.loss_period_count,
    CASE WHEN s.country IS NOT NULL THEN coalesce(r.parent_count, 0) END AS parent_count,
    CASE WHEN s.country IS NOT NULL THEN coalesce(r.child_count, 0) END AS child_count,
    u.ultimate_parent,
    u.ultimate_parent_company
FROM companies c
LEFT JOIN portfolio p USING (country, company_number)
LEFT JOIN (
    SELECT country, company_number FROM company_state
    WHERE dataset = 'relationships' AND payload_hash <> ''
) s USING (country, company_number)
LEFT JOIN (
    SELECT
        country, company_number,
        count(*) FILTER (direction = 'parent') AS parent_count,
        count(*) FILTER (direction = 'child') AS child_count
    FROM relationships
    GROUP BY country, company_number
) r USING (country, company_number)
LEFT JOIN ultimate_owners u ON u.id = c.country || c.company_number
