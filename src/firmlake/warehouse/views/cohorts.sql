-- view cohorts
-- One row for each country, cohort and year. A cohort is all companies whose first held accounts end in the same year.
-- Of several periods that end in one year, the last one counts; periods that do not compare are left out.
--
-- first_year: Year in which the first held accounts of the companies in the cohort end
-- fiscal_year: Year in which the accounts of this row end
-- company_count: Companies of the cohort with accounts in this year
-- cohort_company_count: Companies of the cohort
-- loss_fraction: Share of companies with a loss among those that state net profit. Null: no company states it
-- revenue_median: Median of annual revenue. Null: no company states it
-- total_assets_median: Median of total assets. Null: no company states them
-- equity_fraction_median: Median of equity by total assets. Null: no company has it
-- health_median: Median of the health indicator. Null: no company has one
SELECT
    country, first_year, fiscal_year,
    count(*) AS company_count,
    max(cohort_company_count) AS cohort_company_count,
    avg((net_profit < 0)::INTEGER) AS loss_fraction,
    median(revenue_annual::DOUBLE) AS revenue_median,
    median(total_assets::DOUBLE) AS total_assets_median,
    median(equity_fraction::DOUBLE) AS equity_fraction_median,
    median(health_indicator::DOUBLE) AS health_median
FROM (
    SELECT
        t.country, t.company_number, year(t.end_date) AS fiscal_year,
        t.net_profit, t.revenue_annual, t.total_assets, r.equity_fraction, a.health_indicator,
        f.first_year, f.cohort_company_count
    FROM trend t
    JOIN ratios r USING (country, company_number, start_date, end_date)
    JOIN accounts a USING (country, company_number, start_date, end_date)
    JOIN (
        SELECT *, count(*) OVER (PARTITION BY country, first_year) AS cohort_company_count
        FROM (SELECT country, company_number, min(year(end_date)) AS first_year FROM accounts GROUP BY ALL)
    ) f USING (country, company_number)
    WHERE t.is_comparable
    QUALIFY row_number() OVER (PARTITION BY t.country, t.company_number, year(t.end_date) ORDER BY t.recency) = 1
)
GROUP BY ALL
