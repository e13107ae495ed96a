-- view ratios
-- One row for each period of a company: margins, returns, liquidity and leverage, each from the figures of that period
-- and null if a figure is missing or the divisor is zero. Figures divided by total assets or equity are null if these are
-- not above zero. Returns use annualised flows over the stock at the period's end.
--
-- gross_margin_fraction: Gross margin by revenue. Null: one is missing, or revenue is zero
-- ebitda_margin: EBITDA by revenue. Null: one is missing, or revenue is zero
-- ebit_margin: EBIT by revenue. Null: one is missing, or revenue is zero
-- net_margin: Net profit by revenue. Null: one is missing, or revenue is zero
-- return_on_assets: Annualised net profit by total assets. Null: one is missing, or total assets are not above zero
-- return_on_equity: Annualised net profit by equity. Null: one is missing, or equity is not above zero
-- cash_ratio: Cash by short-term debt. Null: one is missing, or the debt is zero
-- equity_fraction: Equity by total assets. Null: one is missing, or total assets are not above zero
-- debt_fraction: Debt by total assets. Null: one is missing, or total assets are not above zero
-- debt_to_equity: Debt by equity. Null: one is missing, or equity is not above zero
-- financial_debt: Long-term and short-term financial debt. Null: one is missing
-- net_debt: Financial debt less cash; negative is net cash. Null: one is missing
-- net_debt_to_ebitda: Net debt by annualised EBITDA. Null: also where EBITDA is not above zero
-- is_equity_negative: Whether debts exceed what the company owns. Null: equity is missing
SELECT
    country, company_number, start_date, end_date, period_days,
    ratio(gross_margin, revenue) AS gross_margin_fraction,
    ratio(ebitda, revenue) AS ebitda_margin,
    ratio(ebit, revenue) AS ebit_margin,
    ratio(net_profit, revenue) AS net_margin,
    CASE WHEN total_assets > 0 THEN ratio(annualised(net_profit, period_days), total_assets) END AS return_on_assets,
    CASE WHEN equity > 0 THEN ratio(annualised(net_profit, period_days), equity) END AS return_on_equity,
    current_ratio,
    quick_ratio,
    ratio(cash, short_term_debt) AS cash_ratio,
    CASE WHEN total_assets > 0 THEN ratio(equity, total_assets) END AS equity_fraction,
    CASE WHEN total_assets > 0 THEN ratio(debt, total_assets) END AS debt_fraction,
    CASE WHEN equity > 0 THEN ratio(debt, equity) END AS debt_to_equity,
    (long_term_debt_financial::DECIMAL(19, 2) + short_term_debt_financial)::DECIMAL(20, 2) AS financial_debt,
    (financial_debt - cash)::DECIMAL(20, 2) AS net_debt,
    CASE WHEN ebitda > 0 THEN ratio(net_debt, annualised(ebitda, period_days)) END AS net_debt_to_ebitda,
    equity < 0 AS is_equity_negative
FROM accounts
