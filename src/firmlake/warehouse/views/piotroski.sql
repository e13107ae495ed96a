-- view piotroski
-- One row per financial period of a company that has a previous one (see period_order): Piotroski's nine signals (2000,
-- Journal of Accounting Research 38), adapted. Proxies: total assets at the end of the period stand in for those at its
-- beginning and for their mean, cash_flow as the service states it for the operating cash flow, and the capital for the
-- number of shares. Amounts that build up over a period are converted to a year. A signal is null if an input is
-- missing, or if the figures of a period that it looks at are not comparable; is_profitable, has_cash_flow and
-- has_cash_backing look at one period only.
--
-- is_profitable: Net profit above zero. Null: it is missing or not comparable
-- has_cash_flow: Cash flow above zero. Null: as above
-- has_higher_return: Net profit divided by total assets rose. Null: an input is missing or not comparable
-- has_cash_backing: Cash flow above net profit. Null: as above
-- has_lower_leverage: Long-term debt divided by total assets fell. Null: as above
-- has_higher_liquidity: Current ratio rose. Null: as above
-- has_no_new_capital: Capital did not rise. Null: as above
-- has_higher_margin: Gross margin divided by revenue rose. Null: as above
-- has_higher_turnover: Revenue divided by total assets rose. Null: as above
-- signal_count: Number of the nine signals that are known
-- f_score: Number of signals that are true, 0 to 9. Null: a signal is not known
SELECT
    country, company_number, start_date, end_date,
    n.net_profit > 0 AS is_profitable,
    n.cash_flow > 0 AS has_cash_flow,
    ratio(annualised(n.net_profit, n.period_days), n.total_assets)
        > ratio(annualised(b.net_profit, b.period_days), b.total_assets) AS has_higher_return,
    n.cash_flow > n.net_profit AS has_cash_backing,
    ratio(n.long_term_debt, n.total_assets) < ratio(b.long_term_debt, b.total_assets) AS has_lower_leverage,
    n.current_ratio > b.current_ratio AS has_higher_liquidity,
    n.capital <= b.capital AS has_no_new_capital,
    ratio(n.gross_margin, n.revenue) > ratio(b.gross_margin, b.revenue) AS has_higher_margin,
    ratio(annualised(n.revenue, n.period_days), n.total_assets)
        > ratio(annualised(b.revenue, b.period_days), b.total_assets) AS has_higher_turnover,
    list_count([
        is_profitable, has_cash_flow, has_higher_return, has_cash_backing, has_lower_leverage, has_higher_liquidity,
        has_no_new_capital, has_higher_margin, has_higher_turnover
    ])::INTEGER AS signal_count,
    (is_profitable::INTEGER + has_cash_flow::INTEGER + has_higher_return::INTEGER + has_cash_backing::INTEGER
        + has_lower_leverage::INTEGER + has_higher_liquidity::INTEGER + has_no_new_capital::INTEGER
        + has_higher_margin::INTEGER + has_higher_turnover::INTEGER) AS f_score
FROM period_order o
LEFT JOIN (
    SELECT * EXCLUDE (recency) FROM accounts
    ANTI JOIN doubtful_periods USING (country, company_number, start_date, end_date)
) n USING (country, company_number, start_date, end_date)
LEFT JOIN (
    SELECT * EXCLUDE (recency) FROM accounts
    ANTI JOIN doubtful_periods USING (country, company_number, start_date, end_date)
) b ON b.country = n.country AND b.company_number = n.company_number
    AND b.start_date = o.previous_start_date AND b.end_date = o.previous_end_date
WHERE o.previous_end_date IS NOT NULL
