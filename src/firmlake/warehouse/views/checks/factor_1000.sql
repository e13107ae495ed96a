-- check factor_1000, error
-- The amounts of a period are presumably in another unit than those of the company's other periods, such
-- as accounts filed in thousands; unit_errors describes the rule.
SELECT country, company_number, start_date, end_date,
    {presumed_unit: presumed_unit, total_assets: total_assets, total_assets_presumed: total_assets_presumed,
     revenue: revenue, revenue_presumed: revenue_presumed, fitting_periods: fitting_count,
     compared_periods: compared_count} AS evidence
FROM unit_errors
WHERE presumed_unit IS NOT NULL
