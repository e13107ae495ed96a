-- table doubtful_periods, company
-- One row per financial period whose figures are not comparable with those of other periods: its amounts are
-- presumably in another unit, it ends before it begins, it covers less than 90 days, it ends after the last answer in
-- the warehouse, total assets, debts or employees are below zero, or several amounts leap by about a thousand. Growth,
-- medians, ranks and sums leave these periods out.
--
-- incomparable_because: Why the figures are not comparable; the first reason, if there are several
SELECT country, company_number, start_date, end_date, arg_min(reason, gravity) AS incomparable_because
FROM (
    SELECT
        country, company_number, start_date, end_date, 1 AS gravity,
        CASE
            WHEN presumed_unit = 1000 THEN 'presumably in thousands, see unit_errors'
            WHEN presumed_unit IS NOT NULL THEN 'presumably in another unit, see unit_errors'
            ELSE 'its amounts as a whole leap, see unit_errors'
        END AS reason
    FROM unit_errors
    UNION ALL
    SELECT
        country, company_number, start_date, end_date, 2,
        CASE
            WHEN end_date < start_date THEN 'it ends before it begins'
            WHEN end_date = start_date THEN 'it covers only 1 day'
            ELSE 'it covers only ' || (end_date - start_date + 1) || ' days'
        END
    FROM financials
    WHERE end_date - start_date < 89
    UNION ALL
    SELECT country, company_number, start_date, end_date, 3, 'it ends after the last answer'
    FROM financials
    WHERE end_date > last_answer_day()
    UNION ALL
    SELECT country, company_number, start_date, end_date, 4, 'a figure that cannot be negative is below zero'
    FROM (SELECT * EXCLUDE (recency) FROM accounts)
    WHERE least(total_assets, debt, long_term_debt, short_term_debt, employee_count) < 0
    UNION ALL
    SELECT country, company_number, start_date, end_date, 5, 'several amounts leap by about a thousand, see leaps'
    FROM leaps
    GROUP BY ALL
    HAVING count(*) > 1
)
GROUP BY country, company_number, start_date, end_date
