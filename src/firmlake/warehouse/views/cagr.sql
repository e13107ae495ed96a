-- macro cagr(years := 3)
-- example: cagr(3)
-- Compound annual growth of each company over a number of years, up to its newest period. The first period is the one
-- that ended nearest to that many years before, at most half a year off; a company without one has no row. The figures
-- of both periods must compare, see quality. Flows are annualised. A rate is null if a figure is missing or not above
-- zero at either end.
--
-- base_end_date: Last day of the first period
-- base_period_days: Days of that period
-- span_years: Years between the last days of the two periods
-- revenue_cagr: Growth of revenue in a year, 0.1 is 10 %
-- gross_margin_cagr: Growth of the gross margin in a year
-- ebitda_cagr: Growth of EBITDA in a year
-- total_assets_cagr: Growth of total assets in a year
-- employee_cagr: Growth of employees in a year
SELECT
    country, company_number, name,
    base.end_date AS base_end_date,
    base.period_days AS base_period_days,
    last.end_date,
    last.period_days,
    round((last.end_date - base.end_date) / 365.25, 2) AS span_years,
    yearly_growth(last.revenue_annual, base.revenue_annual, span_years) AS revenue_cagr,
    yearly_growth(last.gross_margin_annual, base.gross_margin_annual, span_years) AS gross_margin_cagr,
    yearly_growth(last.ebitda_annual, base.ebitda_annual, span_years) AS ebitda_cagr,
    yearly_growth(last.total_assets, base.total_assets, span_years) AS total_assets_cagr,
    yearly_growth(last.employee_count, base.employee_count, span_years) AS employee_cagr
FROM (SELECT years * 365.25 AS day_count) asked
CROSS JOIN (SELECT * FROM trend WHERE recency = 1 AND is_comparable) last
JOIN trend base USING (country, company_number)
JOIN companies USING (country, company_number)
WHERE base.is_comparable AND abs(base.end_date - last.end_date + day_count) <= 183
QUALIFY row_number() OVER (
    PARTITION BY country, company_number
    ORDER BY abs(base.end_date - last.end_date + day_count), base.recency
) = 1
