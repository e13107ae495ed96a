-- macro cagr(years := 3)
-- example: cagr(3)
-- Compound annual growth rates of each company over a number of years, up to its newest period. The first period is the
-- one that ended nearest to that many years earlier, at most 183 days off, and that ended before the newest began
-- (seven days may overlap); periods whose figures are not comparable are passed over, see quality. A company without
-- such a period, or whose newest figures are not comparable, has no row. Amounts that build up over a period are
-- annualised.
--
-- base_end_date: Last day of the first period
-- base_period_days: Length of the first period in days
-- span_years: Years between the last days of the two periods, to two decimals, as used for the rates
-- revenue_cagr: Compound annual growth of revenue, 0.1 is 10 %. Null: a figure is missing or not above zero
-- gross_margin_cagr: Compound annual growth of the gross margin, 0.1 is 10 %. Null: a figure is missing or not above
-- zero
-- ebitda_cagr: Compound annual growth of EBITDA, 0.1 is 10 %. Null: a figure is missing or not above zero
-- total_assets_cagr: Compound annual growth of total assets, 0.1 is 10 %. Null: a figure is missing or not above zero
-- employee_cagr: Compound annual growth of the number of employees, 0.1 is 10 %. Null: a figure is missing or not above
-- zero
WITH asked AS (
    SELECT CASE
        WHEN years <= 0 THEN error('No number of years: ' || years || '. Give one above 0')
        ELSE years * 365.25
    END AS day_count
)
SELECT
    n.country, n.company_number, n.name,
    base.end_date AS base_end_date,
    base.period_days AS base_period_days,
    n.end_date,
    n.period_days,
    round((n.end_date - base.end_date) / 365.25, 2) AS span_years,
    yearly_growth(n.revenue_annual, annualised(base.revenue, base.period_days), span_years) AS revenue_cagr,
    yearly_growth(
        annualised(last.gross_margin, n.period_days), annualised(base.gross_margin, base.period_days), span_years
    ) AS gross_margin_cagr,
    yearly_growth(annualised(last.ebitda, n.period_days), annualised(base.ebitda, base.period_days), span_years)
        AS ebitda_cagr,
    yearly_growth(n.total_assets, base.total_assets, span_years) AS total_assets_cagr,
    yearly_growth(n.employee_count, base.employee_count, span_years) AS employee_cagr
FROM portfolio n
JOIN (SELECT country, company_number, start_date, end_date, gross_margin, ebitda FROM accounts) last
    USING (country, company_number, start_date, end_date)
JOIN (
    -- Few periods of a company are near enough, so only these are sorted.
    SELECT a.*
    FROM asked
    CROSS JOIN (SELECT country, company_number, start_date AS newest_start, end_date AS newest_date FROM portfolio)
    JOIN (SELECT * EXCLUDE (recency) FROM accounts) a USING (country, company_number)
    ANTI JOIN doubtful_periods USING (country, company_number, start_date, end_date)
    WHERE abs(a.end_date - newest_date + day_count) <= 183
        AND a.end_date < newest_start + 7
    QUALIFY row_number() OVER (
        PARTITION BY country, company_number
        ORDER BY abs(a.end_date - newest_date + day_count), a.end_date DESC, a.date_received DESC NULLS LAST, a.start_date
    ) = 1
) base ON base.country = n.country AND base.company_number = n.company_number
WHERE n.is_comparable
