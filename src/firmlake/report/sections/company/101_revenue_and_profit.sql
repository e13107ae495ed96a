-- title: Revenue and net profit
-- chapter: Accounts
-- chart: lines
-- Per year, by the month in which the accounts end.
SELECT strftime(end_date, '%Y-%m') AS period, series, value FROM (
    SELECT end_date, unnest(['revenue', 'net profit']) AS series,
        unnest([revenue_annual, net_profit_annual])::DOUBLE AS value, unnest([1, 2]) AS place
    FROM trend WHERE country = getvariable('country') AND company_number = getvariable('number') AND recency <= 10
)
QUALIFY count(value) OVER () > 0 ORDER BY end_date, place
