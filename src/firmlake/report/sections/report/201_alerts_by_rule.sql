-- title: Alerts by rule
-- chapter: Alerts
-- Alerts that are open, and alerts that were opened or closed on the day of the last run, by runs of any list.
SELECT r.says AS alert, r.severity, coalesce(r.list_name, 'all') AS list,
    count(a.rule) FILTER (a.closed_run IS NULL) AS open,
    count(a.rule) FILTER (a.opened_at::DATE = last_day) AS opened_on_last_day,
    count(a.rule) FILTER (a.closed_at::DATE = last_day) AS closed_on_last_day
FROM alert_rules r CROSS JOIN (SELECT last_answer_day() AS last_day) LEFT JOIN alerts a USING (rule)
GROUP BY r.position, r.says, r.severity, r.list_name ORDER BY r.position
