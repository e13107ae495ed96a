-- view calendar_years
-- One row for each company and calendar year that its accounts touch, so that companies that close in March and in December
-- are compared over the same months. An amount that builds up over time is the sum, over the periods that overlap the year,
-- of amount x overlapping days / days of the period; it is an estimate, because the seasons are not known. It is null if
-- accounts cover less than 360 days of the year, or if one of the periods does not state it. Amounts at a day, such as total
-- assets, are those of the last close in the year. Only periods in single_periods count.
--
-- year: Calendar year
-- days_covered: Days of the year that accounts cover, at most seven of them twice
-- closed_on: Last close in the year, whose amounts at a day are shown. Null: no period ends in the year
-- revenue: Revenue of the calendar year. Null: less than 360 days are covered, or a period does not state it
-- gross_margin: Gross margin of the year. Null: as in revenue
-- ebitda: EBITDA of the year. Null: as in revenue
-- net_profit: Net profit of the year. Null: as in revenue
-- cash_flow: Cash flow of the year. Null: as in revenue
-- total_assets: Total assets at the last close in the year. Null: no period ends in the year, or it does not state them
-- equity: Equity at the last close in the year. Null: as in total_assets
-- debt: Debt at the last close in the year. Null: as in total_assets
-- employee_count: Employees according to the accounts of the last close in the year. Null: as in total_assets
SELECT
    country, company_number, year,
    sum(day_count)::INTEGER AS days_covered,
    max(end_date) FILTER (is_closed) AS closed_on,
    share_of_year(sum(part_of_period(revenue, day_count, period_days)), days_covered, count(*) - count(revenue)) AS revenue,
    share_of_year(sum(part_of_period(gross_margin, day_count, period_days)), days_covered, count(*) - count(gross_margin)) AS gross_margin,
    share_of_year(sum(part_of_period(ebitda, day_count, period_days)), days_covered, count(*) - count(ebitda)) AS ebitda,
    share_of_year(sum(part_of_period(net_profit, day_count, period_days)), days_covered, count(*) - count(net_profit)) AS net_profit,
    share_of_year(sum(part_of_period(cash_flow, day_count, period_days)), days_covered, count(*) - count(cash_flow)) AS cash_flow,
    arg_max_null(total_assets, end_date) FILTER (is_closed) AS total_assets,
    arg_max_null(equity, end_date) FILTER (is_closed) AS equity,
    arg_max_null(debt, end_date) FILTER (is_closed) AS debt,
    arg_max_null(employee_count, end_date) FILTER (is_closed) AS employee_count
FROM (
    SELECT
        *,
        year(end_date) = year AS is_closed,
        least(end_date, make_date(year, 12, 31)) - greatest(start_date, make_date(year, 1, 1)) + 1 AS day_count
    FROM (SELECT *, unnest(range(year(start_date), year(end_date) + 1)) AS year FROM single_periods)
)
GROUP BY country, company_number, year
