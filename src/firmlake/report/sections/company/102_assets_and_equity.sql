-- title: Total assets and equity
-- chapter: Accounts
-- chart: lines
-- At the end of the accounts.
SELECT strftime(end_date, '%Y-%m') AS period, series, value FROM (
    SELECT end_date, unnest(['total assets', 'equity']) AS series,
        unnest([total_assets, equity])::DOUBLE AS value, unnest([1, 2]) AS place
    FROM trend WHERE country = getvariable('country') AND company_number = getvariable('number') AND recency <= 10
)
QUALIFY count(value) OVER () > 0 ORDER BY end_date, place
