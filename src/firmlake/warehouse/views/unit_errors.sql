-- table unit_errors, company
-- One row per period whose amounts as a whole are presumably in another unit than those of the company's other
-- periods, such as accounts filed in thousands. Ten amounts of each period are compared with the period before, after
-- the company's usual growth is removed. A leap is a change of more than half of them in one direction, by a factor of
-- 25 or more, unless the capital stayed: capital changes seldom, so then the company changed and not the unit (if the
-- factor is within 2 of a thousand, it is the unit all the same). A leap is one of units if it is about a thousand or a
-- million (within a factor of eight), or if the amounts changed evenly, by the same factor within 1.4. Leaps split the
-- periods of a company into units. One of these is right: the one with the most periods, or with equal numbers the one
-- with the larger amounts; but of units with a third of the periods each, one in which total assets and revenue are
-- below 1,000 for each employee is wrong. The periods in the others are listed, if with the presumed unit they come
-- within a factor of four of their neighbours on average; of only two periods, if an amount reaches 1,000,000 or
-- employees decide. A company whose accounts are all in thousands is not found. For a single
-- amount see leaps. Nothing is corrected; columns ending in presumed have amounts in the unit of the other periods.
--
-- presumed_unit: Presumed unit of the amounts: 1000 for accounts filed in thousands, 0.001 if the amounts are a
-- thousand times too large. Null: the factor is none of a unit, such as 100 or 40.3399 (Belgian francs for one euro)
-- presumed_factor: Factor by which the amounts would fit those of the other periods, estimated from the leaps
-- fitting_count: Number of periods of the company in the unit that is presumed right
-- compared_count: Number of periods of the company that were compared
-- total_assets_presumed: Total assets in the unit of the other periods. Null: there is no presumed unit, or no amount
-- equity_presumed: Equity in the unit of the other periods. Null: as in total_assets_presumed
-- debt_presumed: Debt in the unit of the other periods. Null: as in total_assets_presumed
-- revenue_presumed: Revenue in the unit of the other periods. Null: as in total_assets_presumed
-- net_profit_presumed: Net profit in the unit of the other periods. Null: as in total_assets_presumed
WITH doubtful AS (
    -- Comparing the periods of all companies would take long. Few have amounts far apart in more than half of the fields that
    -- every period states, without which there is no leap.
    SELECT
        country, company_number, max(greatest_assets) AS greatest_assets, max(greatest_revenue) AS greatest_revenue,
        list_aggregate([
            max(total_assets) / min(total_assets) > 20,
            max(equity) / min(equity) > 20,
            max(debt) / min(debt) > 20,
            max(revenue) / min(revenue) > 20,
            max(gross_margin) / min(gross_margin) > 20,
            max(cash) / min(cash) > 20,
            max(capital) / min(capital) > 20,
            max(short_term_debt) / min(short_term_debt) > 20,
            max(long_term_debt) / min(long_term_debt) > 20,
            max(retained_earnings) / min(retained_earnings) > 20
        ]::INTEGER[], 'sum') AS far_count,
        list_aggregate([
            count(total_assets) = count(*),
            count(equity) = count(*),
            count(debt) = count(*),
            count(revenue) = count(*),
            count(gross_margin) = count(*),
            count(cash) = count(*),
            count(capital) = count(*),
            count(short_term_debt) = count(*),
            count(long_term_debt) = count(*),
            count(retained_earnings) = count(*)
        ]::INTEGER[], 'sum') AS full_count
    FROM (
        SELECT
            country, company_number, total_assets AS greatest_assets, revenue AS greatest_revenue,
            nullif(abs(total_assets), 0) AS total_assets,
            nullif(abs(equity), 0) AS equity,
            nullif(abs(debt), 0) AS debt,
            nullif(abs(revenue), 0) AS revenue,
            nullif(abs(gross_margin), 0) AS gross_margin,
            nullif(abs(cash), 0) AS cash,
            nullif(abs(capital), 0) AS capital,
            nullif(abs(short_term_debt), 0) AS short_term_debt,
            nullif(abs(long_term_debt), 0) AS long_term_debt,
            nullif(abs(retained_earnings), 0) AS retained_earnings
        FROM financials
    )
    GROUP BY country, company_number
    HAVING far_count >= 2 AND 2 * far_count > full_count
),
-- Periods without two amounts are passed over.
periods AS MATERIALIZED (
    SELECT *, row_number() OVER in_order AS place, lag(levels) OVER in_order AS before
    FROM (
        SELECT
            country, company_number, start_date, end_date, date_received, net_profit, employee_count,
            total_assets, equity, debt, revenue,
            list_transform([
                total_assets, equity, debt, revenue, gross_margin, cash, capital, short_term_debt, long_term_debt,
                retained_earnings
            ], lambda amount: log10(abs(nullif(amount, 0))::DOUBLE)) AS levels
        FROM (SELECT * EXCLUDE (recency) FROM accounts)
        SEMI JOIN doubtful USING (country, company_number)
    )
    WHERE list_count(levels) >= 2
    WINDOW in_order AS (
        PARTITION BY country, company_number ORDER BY end_date, date_received NULLS FIRST, start_date DESC
    )
),
-- How each period differs from the one before, in powers of ten.
steps AS MATERIALIZED (
    SELECT
        country, company_number, place,
        list_filter(steps, lambda step: step IS NOT NULL) AS steps,
        list_median(steps) AS shift,
        coalesce(abs(steps[7]) <= 0.5, false) AS is_capital_same
    FROM (
        SELECT country, company_number, place, list_transform(levels, lambda level, field: level - before[field]) AS steps
        FROM periods
    )
    WHERE list_count(steps) >= 2
),
-- The usual growth from one period to the next, without leaps.
leaps_of_all AS (
    SELECT
        s.*,
        shift - coalesce(growth, 0) AS leap,
        3 * round((shift - coalesce(growth, 0)) / 3) AS unit,
        2 * greatest(
            len(list_filter(steps, lambda step: step - coalesce(growth, 0) > 1.4)),
            len(list_filter(steps, lambda step: step - coalesce(growth, 0) < -1.4))
        ) > len(steps) AS is_joint,
        len(steps) >= 4 AND 2 * len(list_filter(steps, lambda step: abs(step - shift) <= 0.15)) > len(steps) AS is_even
    FROM steps s
    LEFT JOIN (
        SELECT country, company_number, median(shift) AS growth FROM steps WHERE abs(shift) < 1.4
        GROUP BY country, company_number
    ) USING (country, company_number)
),
breaks AS MATERIALIZED (
    SELECT
        country, company_number, place,
        CASE
            WHEN NOT is_joint THEN 0
            WHEN is_capital_same AND (unit = 0 OR abs(leap - unit) > 0.3) THEN 0
            WHEN is_even AND abs(leap - unit) > 0.5 THEN leap
            WHEN unit <> 0 AND abs(leap - unit) <= 0.9 THEN unit
            WHEN is_even THEN leap
            ELSE 0
        END AS leap,
        abs(leap - unit) AS misfit
    FROM leaps_of_all
),
-- The unit of each period against that of the first, and the stretch of equal units that it is in.
units AS MATERIALIZED (
    SELECT *, round(level)::INTEGER AS unit
    FROM (
        SELECT
            country, company_number, start_date, end_date, place, employee_count, total_assets, revenue,
            sum(coalesce(leap, 0)) OVER stretch AS level,
            count(nullif(leap, 0)) OVER stretch AS stretch_no
        FROM periods
        SEMI JOIN (FROM breaks WHERE leap <> 0) USING (country, company_number)
        LEFT JOIN breaks USING (country, company_number, place)
        WINDOW stretch AS (PARTITION BY country, company_number ORDER BY place)
    )
),
ends AS (
    SELECT country, company_number, stretch_no, avg(misfit) AS misfit
    FROM (
        SELECT country, company_number, unnest([stretch_no, stretch_no - 1]) AS stretch_no, misfit
        FROM units JOIN breaks USING (country, company_number, place)
        WHERE leap <> 0
    )
    GROUP BY ALL
),
sizes AS (
    SELECT
        *,
        sum(period_count) OVER companies AS compared_count,
        bool_or(is_too_small) OVER companies AS is_decided_by_employees
    FROM (
        SELECT
            country, company_number, unit, avg(level) AS level, count(*) AS period_count,
            coalesce(median(greatest(total_assets, revenue)::DOUBLE / nullif(employee_count, 0)) < 1000, false) AS is_too_small
        FROM units
        GROUP BY ALL
    )
    WINDOW companies AS (PARTITION BY country, company_number)
),
chosen AS (
    SELECT
        country, company_number, unit AS right_unit, level AS right_level, period_count AS fitting_count, compared_count,
        is_decided_by_employees
    FROM sizes
    QUALIFY row_number() OVER (
        PARTITION BY country, company_number
        ORDER BY 3 * period_count >= compared_count DESC, is_too_small, period_count DESC, unit DESC
    ) = 1
)
SELECT
    country, company_number, start_date, end_date,
    CASE right_unit - unit WHEN 3 THEN 1000 WHEN 6 THEN 1000000 WHEN -3 THEN 0.001 WHEN -6 THEN 0.000001 END::DECIMAL(13, 6)
        AS presumed_unit,
    pow(10, right_level - level) AS presumed_factor,
    fitting_count, compared_count,
    p.total_assets, (p.total_assets::DECIMAL(25, 2) * presumed_unit)::DECIMAL(28, 2) AS total_assets_presumed,
    p.equity, (p.equity::DECIMAL(25, 2) * presumed_unit)::DECIMAL(28, 2) AS equity_presumed,
    p.debt, (p.debt::DECIMAL(25, 2) * presumed_unit)::DECIMAL(28, 2) AS debt_presumed,
    p.revenue, (p.revenue::DECIMAL(25, 2) * presumed_unit)::DECIMAL(28, 2) AS revenue_presumed,
    p.net_profit, (p.net_profit::DECIMAL(25, 2) * presumed_unit)::DECIMAL(28, 2) AS net_profit_presumed
FROM (SELECT * EXCLUDE (employee_count, total_assets, revenue) FROM units) u
JOIN chosen USING (country, company_number)
JOIN doubtful USING (country, company_number)
LEFT JOIN ends USING (country, company_number, stretch_no)
JOIN periods p USING (country, company_number, start_date, end_date)
WHERE unit <> right_unit
    AND (presumed_unit IS NULL OR misfit <= log10(4))
    AND (compared_count > 2 OR is_decided_by_employees OR greatest(greatest_assets, greatest_revenue) >= 1000000)
