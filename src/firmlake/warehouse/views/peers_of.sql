-- macro peers_of(of_country, of_number)
-- example: peers_of('BE', '0403227515')
-- One row per peer of a company: the other companies of its peer group (see peer_groups), with main figures of
-- their newest accounts.
WITH asked(asked_id) AS (
    SELECT company_asked(of_country, of_number)
)
SELECT
    p.country, p.company_number, p.name, p.place, p.end_date, p.revenue_annual, p.total_assets, p.employee_count,
    p.equity_fraction, p.net_margin, p.health_indicator,
    own.level, own.peer_group, own.is_widened
FROM asked
JOIN peer_groups own ON own.country = asked_id[:2] AND own.company_number = asked_id[3:]
JOIN peer_levels others ON others.peer_group = own.peer_group
JOIN portfolio p ON p.country = others.country AND p.company_number = others.company_number
WHERE NOT (p.country = asked_id[:2] AND p.company_number = asked_id[3:])
