-- macro watched_figures(on_date)
-- example: watched_figures(DATE '2026-01-01')
-- One row per company that a run planned to fetch, as of a day: its newest accounts beside the previous ones, how
-- late the next ones are, and what changed among its owners. Alert rules compare these columns.
--
-- accounts_from: First day of the newest accounts. Null: no accounts are held
-- accounts_to: Last day of the newest accounts. Null: no accounts are held
-- accounts_to_before: Last day of the previous accounts. Null: there are none, or the figures of one of the two are not
-- comparable
-- gap_days: Days between the previous accounts and the newest; 0 if they follow each other. Null: there are no previous
-- accounts
-- incomparable_because: Why the newest figures are not comparable with those of other periods. Null: they are
-- comparable
-- revenue_before: Revenue in the previous accounts. Null: it is missing, or there are no comparable previous accounts
-- ebitda_before: EBITDA in the previous accounts. Null: as in revenue_before
-- net_profit_before: Net profit in the previous accounts. Null: as in revenue_before
-- equity_before: Equity in the previous accounts. Null: as in revenue_before
-- equity_fraction: Equity divided by total assets. Null: one is missing, or total assets are not above zero
-- health_indicator_before: Health indicator in the previous accounts. Null: as in revenue_before
-- z: Altman's Z'', see altman. Null: a part is missing
-- z_before: Altman's Z'' of the previous accounts. Null: a part is missing, or there are no comparable previous
-- accounts
-- zone_before: Zone of the previous accounts: safe, grey or distress. Null: there is no z_before
-- overdue_days: Days by which the next accounts are overdue on the day, as in overdue. Null: they are not overdue
-- owner_change_stake: Largest stake, before or after the change, among the owners (SHAREHOLDER) that came, went or
-- changed their stake, as found by runs in the 30 days up to the day. Null: no owner changed, or no stake is stated
-- owner_change_on: Day of the last of these changes of owners. Null: no owner changed
WITH asked AS (
    SELECT on_date::DATE AS due_by
)
SELECT
    c.country, c.company_number, c.name,
    n.start_date AS accounts_from,
    n.end_date AS accounts_to,
    b.end_date AS accounts_to_before,
    n.gap_days,
    n.incomparable_because,
    n.revenue,
    b.revenue AS revenue_before,
    n.revenue_growth,
    l.ebitda,
    b.ebitda AS ebitda_before,
    n.net_profit,
    b.net_profit AS net_profit_before,
    n.total_assets,
    n.total_assets_growth,
    n.equity,
    b.equity AS equity_before,
    n.equity_fraction,
    n.debt, n.current_ratio, n.employee_count,
    n.employee_growth,
    n.health_indicator,
    b.health_indicator AS health_indicator_before,
    n.z,
    b.z AS z_before,
    n.zone,
    altman_zone(b.z) AS zone_before,
    overdue_days(n.end_date, n.usual_days_to_file, due_by) AS overdue_days,
    o.owner_change_stake, o.owner_change_on
FROM asked
CROSS JOIN companies c
LEFT JOIN portfolio n USING (country, company_number)
LEFT JOIN (SELECT country, company_number, ebitda FROM latest_accounts) l USING (country, company_number)
LEFT JOIN (
    SELECT
        p.*,
        altman_of(p.total_assets, p.net_working_capital, p.retained_earnings, p.ebit, p.equity, p.debt, p.period_days) AS z
    FROM previous_accounts p
    ANTI JOIN doubtful_periods USING (country, company_number, start_date, end_date)
) b ON b.country = n.country AND b.company_number = n.company_number AND n.is_comparable
LEFT JOIN (
    SELECT
        e.country, e.company_number,
        max(greatest(
            try_cast(e.old_value AS DECIMAL(9, 6)), try_cast(e.new_value AS DECIMAL(9, 6))
        )) AS owner_change_stake,
        max(r.finished_at)::DATE AS owner_change_on
    FROM asked
    CROSS JOIN company_changes e
    JOIN runs r USING (run_id)
    WHERE e.kind IN ('parent_in', 'parent_out', 'stake_changed') AND e.direction = 'parent'
        AND list_contains(string_split(e."function", ', '), 'SHAREHOLDER')
        AND r.finished_at >= due_by - 30 AND r.finished_at < due_by + 1
    GROUP BY e.country, e.company_number
) o USING (country, company_number)
