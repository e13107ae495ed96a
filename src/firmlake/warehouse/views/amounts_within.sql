-- macro amounts_within(spans)
-- example: amounts_within([{first_day: DATE '2024-07-01', last_day: DATE '2025-06-30'}])
-- One row per company and each span of a year that its accounts touch, so that companies that close in different
-- months can be compared. An amount that builds up over time is the sum, over the periods that overlap the span, of
-- amount x overlapping days / days of the period; an estimate, since seasons are not known. Amounts at a day, such as
-- total assets, are those of the last close in the span. Only periods in single_periods count.
--
-- first_day: First day of the span
-- last_day: Last day of the span
-- days_covered: Days that accounts cover, at most seven of them twice
-- closed_on: Last close, whose amounts at a day are shown. Null: no period ends in the time
-- revenue: Revenue of the time. Null: less than 360 days are covered, or a period does not state it
-- gross_margin: Gross margin of the time. Null: less than 360 days are covered, or a period does not state it
-- ebitda: EBITDA of the time. Null: less than 360 days are covered, or a period does not state it
-- net_profit: Net profit of the time. Null: less than 360 days are covered, or a period does not state it
-- cash_flow: Cash flow of the time. Null: less than 360 days are covered, or a period does not state it
-- total_assets: Total assets at the last close. Null: no period ends in the time, or it does not state them
-- equity: Equity at the last close. Null: no period ends in the time, or it does not state it
-- debt: Debt at the last close. Null: no period ends in the time, or it does not state it
-- employee_count: Employees according to the last close. Null: no period ends in the time, or it does not state them
SELECT
    country, company_number, first_day, last_day,
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
        p.*, first_day, last_day,
        end_date <= last_day AS is_closed,
        least(end_date, last_day) - greatest(start_date, first_day) + 1 AS day_count
    FROM (SELECT unnest(spans, max_depth := 2)) asked
    JOIN single_periods p ON start_date <= last_day AND end_date >= first_day
)
GROUP BY country, company_number, first_day, last_day
