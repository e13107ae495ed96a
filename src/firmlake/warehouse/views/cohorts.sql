-- view cohorts
-- One row per country, cohort and year. A cohort is all companies whose first held accounts end in the same year.
-- Of several periods that end in one year, the last one counts. Periods whose figures are not comparable are left out,
-- see quality.
--
-- first_year: Year in which the first held accounts of the companies in the cohort end
-- fiscal_year: Year in which the accounts of this row end
-- company_count: Companies of the cohort that have accounts in this year
-- cohort_company_count: Companies in the whole cohort
-- loss_fraction: Share of companies with a loss, 0 to 1, among those that have net profit. Null: no company has it
-- revenue_median: Median of revenue, annualised. Null: no company has it
-- total_assets_median: Median of total assets. Null: no company has them
-- equity_fraction_median: Median of equity divided by total assets. Null: no company has it
-- health_median: Median of the health indicator. Null: no company has one
SELECT
    country, first_year, fiscal_year,
    count(*) AS company_count,
    max(cohort_company_count) AS cohort_company_count,
    avg((net_profit < 0)::INTEGER) AS loss_fraction,
    median(annualised(revenue, period_days)::DOUBLE) AS revenue_median,
    median(total_assets::DOUBLE) AS total_assets_median,
    median(ratio(equity, total_assets)) AS equity_fraction_median,
    median(health_indicator::DOUBLE) AS health_median
FROM (
    SELECT a.*, year(a.end_date) AS fiscal_year, f.first_year, f.cohort_company_count
    FROM (SELECT * EXCLUDE (recency) FROM accounts) a
    JOIN (
        SELECT *, count(*) OVER (PARTITION BY country, first_year) AS cohort_company_count
        FROM (SELECT country, company_number, min(year(end_date)) AS first_year FROM accounts GROUP BY ALL)
    ) f USING (country, company_number)
    ANTI JOIN doubtful_periods USING (country, company_number, start_date, end_date)
    QUALIFY row_number() OVER (
        PARTITION BY a.country, a.company_number, year(a.end_date)
        ORDER BY a.end_date DESC, a.date_received DESC NULLS LAST, a.start_date
    ) = 1
)
GROUP BY ALL
