-- title: Owners
-- chapter: Owners and group
-- Direct owners and those behind them. The effective stake is the product of the stakes along each path.
SELECT name AS owner, country || ' ' || company_number AS number, replace(kind, '_', ' ') AS kind,
    direct_fraction, effective_fraction, step_count AS steps, count(*) OVER () AS total
FROM owners_of(getvariable('country'), getvariable('number')) ORDER BY steps, effective_fraction DESC, id LIMIT 15
