-- view fill_rates
-- One row per column of the accounts, country, year and company list: how many of the held periods have a value.
-- Rows without a list count all companies.
--
-- list_name: Name of the company list. Null: the row counts all companies
-- fiscal_year: Year in which the periods end
-- field: Name of the column in financials
-- filled_count: Number of held periods that have a value in this column
-- period_count: Number of held periods
-- filled_fraction: Share of the held periods that have a value, 0 to 1
-- country: Country of the companies: BE, NL or FR
SELECT list_name, country, fiscal_year, field, filled_count, period_count, ratio(filled_count, period_count) AS filled_fraction
FROM (
    UNPIVOT (
        SELECT list_name, country, fiscal_year, count(*) AS period_count,
            count(COLUMNS(* EXCLUDE (list_name, country, fiscal_year)))
        FROM (
            SELECT l.list_name, a.country, year(a.end_date) AS fiscal_year, a.* EXCLUDE (
                country, company_number, start_date, end_date, fetched_at, run_id, valid_from_run,
                period_days, filing_count, first_received, recency
            )
            FROM accounts a
            JOIN (
                SELECT DISTINCT list_name, country, company_number FROM list_members
                UNION ALL
                SELECT NULL, country, company_number FROM companies
            ) l USING (country, company_number)
        )
        GROUP BY list_name, country, fiscal_year
    )
    ON COLUMNS(* EXCLUDE (list_name, country, fiscal_year, period_count)) INTO NAME field VALUE filled_count
)
