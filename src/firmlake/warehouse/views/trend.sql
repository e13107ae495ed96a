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
    lag(end_date) OVER periods AS previous_end_date,
    start_date - lag(end_date) OVER periods - 1 AS gap_days,
    revenue, revenue_annual, growth(revenue_annual, lag(revenue_annual) OVER periods) AS revenue_growth,
    gross_margin, gross_margin_annual,
    growth(gross_margin_annual, lag(gross_margin_annual) OVER periods) AS gross_margin_growth,
    ebitda, ebitda_annual, growth(ebitda_annual, lag(ebitda_annual) OVER periods) AS ebitda_growth,
    net_profit, net_profit_annual, growth(net_profit_annual, lag(net_profit_annual) OVER periods) AS net_profit_growth,
    total_assets, growth(total_assets, lag(total_assets) OVER periods) AS total_assets_growth,
    equity, growth(equity, lag(equity) OVER periods) AS equity_growth,
    employee_count, growth(employee_count, lag(employee_count) OVER periods) AS employee_growth
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
