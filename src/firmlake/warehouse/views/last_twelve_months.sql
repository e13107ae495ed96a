-- macro last_twelve_months(on_date)
-- example: last_twelve_months(DATE '2025-06-30')
-- One row for each company with accounts in the twelve months up to a day: their amounts, put together from periods as in
-- calendar_years. A company whose newest accounts ended more than five days earlier has no amounts that build up over time.
--
-- days_covered: Days of the twelve months that accounts cover, at most seven of them twice
-- closed_on: Last close in the twelve months. Null: no period ends in them
-- revenue: Revenue of the twelve months. Null: less than 360 days are covered, or a period does not state it
-- gross_margin: Gross margin of the twelve months. Null: as in revenue
-- ebitda: EBITDA of the twelve months. Null: as in revenue
-- net_profit: Net profit of the twelve months. Null: as in revenue
-- cash_flow: Cash flow of the twelve months. Null: as in revenue
-- total_assets: Total assets at the last close. Null: no period ends in the twelve months, or it does not state them
-- equity: Equity at the last close. Null: as in total_assets
SELECT
    country, company_number,
    sum(day_count)::INTEGER AS days_covered,
    max(end_date) FILTER (is_closed) AS closed_on,
    share_of_year(sum(part_of_period(revenue, day_count, period_days)), days_covered, count(*) - count(revenue)) AS revenue,
    share_of_year(sum(part_of_period(gross_margin, day_count, period_days)), days_covered, count(*) - count(gross_margin)) AS gross_margin,
    share_of_year(sum(part_of_period(ebitda, day_count, period_days)), days_covered, count(*) - count(ebitda)) AS ebitda,
    share_of_year(sum(part_of_period(net_profit, day_count, period_days)), days_covered, count(*) - count(net_profit)) AS net_profit,
    share_of_year(sum(part_of_period(cash_flow, day_count, period_days)), days_covered, count(*) - count(cash_flow)) AS cash_flow,
    arg_max_null(total_assets, end_date) FILTER (is_closed) AS total_assets,
    arg_max_null(equity, end_date) FILTER (is_closed) AS equity
FROM (
    SELECT
        p.*,
        end_date <= last_day AS is_closed,
        least(end_date, last_day) - greatest(start_date, first_day) + 1 AS day_count
    FROM (
        SELECT on_date::DATE AS last_day, (on_date::DATE + 1 - INTERVAL 1 YEAR)::DATE AS first_day
    ) asked
    JOIN single_periods p ON start_date <= last_day AND end_date >= first_day
)
GROUP BY country, company_number
