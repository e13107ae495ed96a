-- view company_figures
-- One row per company that a run planned to fetch: its name, its newest accounts with growth and ratios, and its
-- ultimate parent. These are the columns that can be added to a company list.
--
-- accounts_from: First day of the newest accounts. Null: no accounts are held
-- accounts_to: Last day of the newest accounts. Null: no accounts are held
-- doubt: Why the newest figures are not comparable with those of other periods, such as accounts that are presumably in
-- thousands, as incomparable_because in portfolio. Null: there is no doubt
-- gap_days: Days that belong to no accounts between the previous and the newest; growth then spans more than a
-- year. Null: there are no previous accounts
-- overdue_days: Days by which the next accounts are overdue at the time of the query (UTC). Null: they are not overdue
-- altman_z: Altman's Z'' of the newest accounts, see altman. Null: a part is missing
-- altman_zone: safe (Z'' above 2.6), grey or distress (below 1.1). Null: there is no score
-- loss_period_count: Number of periods in a row with a loss, back from the newest; 0 if the newest is not a
-- loss. Null: no accounts are held
-- parent_count: Number of parents that the service names. Null: no answer about relationships is held
-- child_count: Number of children that the service names. Null: no answer about relationships is held
-- ultimate_parent: Name of the ultimate owner, which holds the company through stakes of at least a half and has no
-- such owner itself; several names are separated by semicolons. Null: none is known
-- ultimate_parent_company: Country and company number of the ultimate owner. Null: it has no company number, or no
-- owner is known
SELECT
    c.country, c.company_number, c.name, c.place,
    p.start_date AS accounts_from,
    p.end_date AS accounts_to,
    p.incomparable_because AS doubt,
    overdue_days(p.end_date, p.usual_days_to_file, (now() AT TIME ZONE 'UTC')::DATE) AS overdue_days,
    p.revenue, p.revenue_growth, p.gap_days, p.net_profit, p.net_margin,
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
