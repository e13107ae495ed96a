-- macro credit_limits(months := 1, equity_share := 0.1, working_capital_share := 0.1)
-- example: credit_limits()
-- One row per company with accounts: an opinion on a credit limit, by a rule of thumb of credit insurers: the mean
-- of some months of cash flow, a share of equity and a share of net working capital, at least 0; and 0 in Altman's zone
-- of distress. An opinion from the newest accounts, not a rating.
--
-- cash_flow_part: The months of cash flow, from the annualised cash flow. Null: it is missing
-- equity_part: The share of equity. Null: equity is missing
-- working_capital_part: The share of net working capital. Null: it is missing
-- credit_limit: The opinion, in whole units. Null: a part is missing, or the figures are not comparable, see
-- incomparable_because
SELECT
    country, company_number, name, end_date, incomparable_because, zone,
    cash_flow_part, equity_part, working_capital_part,
    CASE
        WHEN incomparable_because IS NOT NULL THEN NULL
        WHEN zone = 'distress' THEN 0
        WHEN cash_flow_part + equity_part + working_capital_part IS NULL THEN NULL
        ELSE greatest(round((cash_flow_part + equity_part + working_capital_part) / 3), 0)
    END::DECIMAL(28, 0) AS credit_limit
FROM (
    SELECT
        country, company_number, p.name, end_date, p.incomparable_because, p.zone,
        round(asked.month_count * annualised(l.cash_flow, p.period_days)::DOUBLE / 12, 2) AS cash_flow_part,
        round(asked.of_equity * p.equity::DOUBLE, 2) AS equity_part,
        round(asked.of_working_capital * l.net_working_capital::DOUBLE, 2) AS working_capital_part
    FROM (
        SELECT months AS month_count, share_asked(equity_share) AS of_equity, share_asked(working_capital_share) AS of_working_capital
    ) asked
    CROSS JOIN portfolio p
    JOIN (SELECT country, company_number, start_date, end_date, cash_flow, net_working_capital FROM accounts) l
        USING (country, company_number, start_date, end_date)
)
