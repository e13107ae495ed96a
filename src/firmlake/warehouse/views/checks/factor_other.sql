-- check factor_other, warning
-- The amounts of a period as a whole are many times those of the company's other periods, or a fraction of them, and the
-- factor is no unit, such as 100 or 40.34 (Belgian francs); unit_errors describes the rule.
SELECT country, company_number, start_date, end_date,
    {presumed_factor: round(presumed_factor, 6), total_assets: total_assets, revenue: revenue} AS evidence
FROM unit_errors
WHERE presumed_unit IS NULL
