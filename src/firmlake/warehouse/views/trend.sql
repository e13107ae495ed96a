-- view trend
-- One row for each period of a company: flows as stated and per year, stocks, and growth since the period before. Growth
-- of flows compares annual figures; period_days and gap_days say how far the two periods compare.
--
-- previous_end_date: Last day of the period before. Null: this is the first
-- gap_days: Days between the two periods; 0 where they follow each other, negative where they overlap. Null: first period
-- revenue_annual: Revenue, annualised
-- gross_margin_annual: Gross margin, annualised
-- ebitda_annual: EBITDA, annualised
-- net_profit_annual: Net profit, annualised
-- revenue_growth: Growth of annual revenue, 0.1 is 10 %. Null: a figure is missing or the earlier one not above zero
-- gross_margin_growth: Likewise of the gross margin
-- ebitda_growth: Likewise of EBITDA
-- net_profit_growth: Likewise of net profit
-- total_assets_growth: Likewise of total assets
-- equity_growth: Likewise of equity
-- employee_growth: Likewise of employees
SELECT
    country, company_number, start_date, end_date, period_days, recency,
    previous_end_date,
    start_date - previous_end_date - 1 AS gap_days,
    revenue, revenue_annual, growth(revenue_annual, previous_revenue) AS revenue_growth,
    gross_margin, gross_margin_annual, growth(gross_margin_annual, previous_gross_margin) AS gross_margin_growth,
    ebitda, ebitda_annual, growth(ebitda_annual, previous_ebitda) AS ebitda_growth,
    net_profit, net_profit_annual, growth(net_profit_annual, previous_net_profit) AS net_profit_growth,
    total_assets, growth(total_assets, previous_total_assets) AS total_assets_growth,
    equity, growth(equity, previous_equity) AS equity_growth,
    employee_count, growth(employee_count, previous_employee_count) AS employee_growth
FROM (
    -- Each lag stands alone: a client of DuckDB 1.4 cannot read one inside an expression.
    SELECT
        *,
        lag(end_date) OVER periods AS previous_end_date,
        lag(revenue_annual) OVER periods AS previous_revenue,
        lag(gross_margin_annual) OVER periods AS previous_gross_margin,
        lag(ebitda_annual) OVER periods AS previous_ebitda,
        lag(net_profit_annual) OVER periods AS previous_net_profit,
        lag(total_assets) OVER periods AS previous_total_assets,
        lag(equity) OVER periods AS previous_equity,
        lag(employee_count) OVER periods AS previous_employee_count
    FROM (
        SELECT
            *,
            annualised(revenue, period_days) AS revenue_annual,
            annualised(gross_margin, period_days) AS gross_margin_annual,
            annualised(ebitda, period_days) AS ebitda_annual,
            annualised(net_profit, period_days) AS net_profit_annual
        FROM accounts
    )
    WINDOW periods AS (PARTITION BY country, company_number ORDER BY recency DESC)
)
