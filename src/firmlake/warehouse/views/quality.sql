-- view quality
-- One row for each period of a company: whether its figures compare with those of its other periods, and if not, why.
-- Growth in trend, cagr, portfolio and the report is null if one of its two periods does not compare.
--
-- is_comparable: Whether the figures compare
-- incomparable_because: Why they do not. Null: they do
-- presumed_unit: What one unit of the amounts stands for, as in unit_errors. Null: the unit is not in doubt
SELECT
    a.country, a.company_number, a.start_date, a.end_date, a.recency,
    incomparable_because(u.presumed_unit, a.period_days) IS NULL AS is_comparable,
    incomparable_because(u.presumed_unit, a.period_days) AS incomparable_because,
    u.presumed_unit
FROM accounts a
LEFT JOIN unit_errors u USING (country, company_number, start_date, end_date)
