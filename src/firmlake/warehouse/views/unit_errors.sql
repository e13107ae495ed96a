-- table unit_errors
-- One row for each period whose figures are presumably in another unit than those of its neighbours, such as accounts
-- filed in thousands. Neighbours are up to six periods before and six after. A period is compared with them across ten
-- amounts, after the company's usual growth is removed. Two periods differ by a unit if the median of the ratios is a
-- thousand or a million (within a factor of eight) and more than half of the amounts leap together. A period is listed
-- if more than half of its neighbours differ from it by the same unit. If both sides of a leap qualify, only the side
-- with fewer periods is listed, or with equal numbers the side with the smaller amounts; if there are only two periods,
-- only if total assets or revenue reach 1,000,000. A single amount that leaps is not a unit error, see leaps. Nothing
-- is corrected: the amounts stay as the service states them, and the columns that end in presumed have them in the unit
-- of the neighbours. A table made at load, because growth and queries about one company need it.
--
-- presumed_unit: Presumed unit of the amounts: 1000 for accounts filed in thousands, 0.001 if the amounts are a
-- thousand times too large
-- agreeing_count: Number of neighbours that differ from the period by this unit
-- compared_count: Number of neighbours that the period was compared with
-- total_assets_presumed: Total assets in the unit of the neighbours
-- equity_presumed: Equity in the unit of the neighbours
-- debt_presumed: Debt in the unit of the neighbours
-- revenue_presumed: Revenue in the unit of the neighbours
-- net_profit_presumed: Net profit in the unit of the neighbours
WITH doubtful AS (
    -- Few companies have amounts that far apart; comparing the periods of all would take long.
    SELECT country, company_number, max(total_assets) AS greatest_assets, max(revenue) AS greatest_revenue
    FROM financials
    GROUP BY country, company_number
    HAVING (coalesce(max(abs(total_assets))::DOUBLE / min(abs(nullif(total_assets, 0))) > 150, false)::INTEGER
        + coalesce(max(abs(equity))::DOUBLE / min(abs(nullif(equity, 0))) > 150, false)::INTEGER
        + coalesce(max(abs(debt))::DOUBLE / min(abs(nullif(debt, 0))) > 150, false)::INTEGER
        + coalesce(max(abs(revenue))::DOUBLE / min(abs(nullif(revenue, 0))) > 150, false)::INTEGER
        + coalesce(max(abs(gross_margin))::DOUBLE / min(abs(nullif(gross_margin, 0))) > 150, false)::INTEGER
        + coalesce(max(abs(cash))::DOUBLE / min(abs(nullif(cash, 0))) > 150, false)::INTEGER
        + coalesce(max(abs(capital))::DOUBLE / min(abs(nullif(capital, 0))) > 150, false)::INTEGER
        + coalesce(max(abs(short_term_debt))::DOUBLE / min(abs(nullif(short_term_debt, 0))) > 150, false)::INTEGER
        + coalesce(max(abs(long_term_debt))::DOUBLE / min(abs(nullif(long_term_debt, 0))) > 150, false)::INTEGER
        + coalesce(max(abs(retained_earnings))::DOUBLE / min(abs(nullif(retained_earnings, 0))) > 150, false)::INTEGER) >= 2
),
-- The periods of accounts, which would number those of every company.
periods AS MATERIALIZED (
    SELECT *, row_number() OVER (
        PARTITION BY country, company_number ORDER BY end_date DESC, date_received DESC NULLS LAST, start_date
    ) AS recency
    FROM (
        SELECT * FROM financials SEMI JOIN doubtful USING (country, company_number)
        QUALIFY row_number() OVER (
            PARTITION BY country, company_number, start_date, end_date ORDER BY date_received DESC NULLS LAST, dup_no DESC
        ) = 1
    )
),
levels AS MATERIALIZED (
    SELECT country, company_number, recency, list_transform([
        total_assets, equity, debt, revenue, gross_margin, cash, capital, short_term_debt, long_term_debt, retained_earnings
    ], lambda amount: log10(abs(nullif(amount, 0))::DOUBLE)) AS levels
    FROM periods
),
shifts AS MATERIALIZED (
    SELECT
        country, company_number, recency, distance,
        list_count(steps) AS field_count,
        len(list_filter(steps, lambda step: step > 1.5)) AS rising_count,
        len(list_filter(steps, lambda step: step < -1.5)) AS falling_count,
        2 * greatest(rising_count, falling_count) > field_count AS is_leap,
        CASE WHEN is_leap OR distance = 1 THEN list_median(steps) END AS shift
    FROM (
        SELECT
            p.country, p.company_number, p.recency, p.recency - n.recency AS distance,
            list_transform(p.levels, lambda level, place: n.levels[place] - level) AS steps
        FROM levels p
        JOIN levels n USING (country, company_number)
        WHERE n.recency <> p.recency AND abs(n.recency - p.recency) <= 6
    )
    WHERE field_count >= 2
),
-- The usual growth from one period to the next, in powers of ten: leaps by a unit are taken out first.
usual AS (
    SELECT country, company_number, median(shift - 3 * round(shift / 3)) AS growth
    FROM shifts WHERE distance = 1
    GROUP BY country, company_number
),
-- How a neighbour differs from a period, in powers of a thousand. Null: by no unit.
powers AS (
    SELECT
        country, company_number, recency,
        CASE
            WHEN is_leap AND abs(shift - distance * growth - 3 * round((shift - distance * growth) / 3)) <= 0.9
                THEN nullif(round((shift - distance * growth) / 3)::INTEGER, 0)
        END AS power
    FROM (
        SELECT s.*, coalesce(u.growth, 0) AS growth FROM shifts s LEFT JOIN usual u USING (country, company_number)
    )
),
suspects AS MATERIALIZED (
    SELECT
        country, company_number, recency,
        count(*) AS compared_count,
        greatest(
            count(*) FILTER (power = 1), count(*) FILTER (power = 2),
            count(*) FILTER (power = -1), count(*) FILTER (power = -2)
        ) AS agreeing_count,
        mode(power) AS power
    FROM powers
    GROUP BY country, company_number, recency
    HAVING 2 * agreeing_count > compared_count
),
sides AS (
    SELECT country, company_number,
        count(*) FILTER (power > 0) AS small_count,
        count(*) FILTER (power < 0) AS large_count
    FROM suspects
    GROUP BY ALL
)
SELECT
    p.country, p.company_number, p.start_date, p.end_date,
    CASE s.power WHEN 1 THEN 1000 WHEN 2 THEN 1000000 WHEN -1 THEN 0.001 WHEN -2 THEN 0.000001 END::DECIMAL(13, 6)
        AS presumed_unit,
    s.agreeing_count, s.compared_count,
    p.total_assets, (p.total_assets::DECIMAL(25, 2) * presumed_unit)::DECIMAL(28, 2) AS total_assets_presumed,
    p.equity, (p.equity::DECIMAL(25, 2) * presumed_unit)::DECIMAL(28, 2) AS equity_presumed,
    p.debt, (p.debt::DECIMAL(25, 2) * presumed_unit)::DECIMAL(28, 2) AS debt_presumed,
    p.revenue, (p.revenue::DECIMAL(25, 2) * presumed_unit)::DECIMAL(28, 2) AS revenue_presumed,
    p.net_profit, (p.net_profit::DECIMAL(25, 2) * presumed_unit)::DECIMAL(28, 2) AS net_profit_presumed
FROM suspects s
JOIN sides USING (country, company_number)
JOIN doubtful USING (country, company_number)
JOIN periods p USING (country, company_number, recency)
WHERE CASE
        WHEN s.power > 0 THEN small_count <= large_count OR large_count = 0
        ELSE large_count < small_count OR small_count = 0
    END
    AND (s.compared_count > 1 OR greatest(greatest_assets, greatest_revenue) >= 1000000)
