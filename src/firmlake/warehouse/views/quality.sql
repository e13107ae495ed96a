-- view quality
-- One row per financial period of a company: whether its figures are comparable with those of its other periods,
-- and if not, why. Growth in trend, cagr, portfolio and the report is null if one of its two periods is not comparable.
--
-- is_comparable: Whether there is no reason against comparing the figures of the period with those of others, see
-- doubtful_periods
-- incomparable_because: Why the figures are not comparable. Null: they are comparable
-- presumed_unit: Presumed unit of the amounts, as in unit_errors. Null: there is no sign of another unit
SELECT
    a.country, a.company_number, a.start_date, a.end_date, a.recency,
    d.incomparable_because IS NULL AS is_comparable,
    d.incomparable_because,
    u.presumed_unit
FROM accounts a
LEFT JOIN doubtful_periods d USING (country, company_number, start_date, end_date)
LEFT JOIN unit_errors u USING (country, company_number, start_date, end_date)
