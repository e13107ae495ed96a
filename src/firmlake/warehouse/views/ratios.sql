-- view ratios
-- One row for each period of a company: margins, returns, liquidity and leverage, each from the figures of that period
-- and null if a figure is missing or the divisor is not above zero. Returns use annualised flows over the stock at the
-- period's end.
--
-- gross_margin_fraction: Gross margin by revenue. Null: one is missing, or revenue is not above zero
-- ebitda_margin: EBITDA by revenue. Null: one is missing, or revenue is not above zero
-- ebit_margin: EBIT by revenue. Null: one is missing, or revenue is not above zero
-- net_margin: Net profit by revenue. Null: one is missing, or revenue is not above zero
-- return_on_assets: Annualised net profit by total assets. Null: one is missing, or total assets are not above zero
-- return_on_equity: Annualised net profit by equity. Null: one is missing, or equity is not above zero
-- cash_ratio: Cash by short-term debt. Null: one is missing, or the debt is not above zero
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
    ratio(annualised(net_profit, period_days), total_assets) AS return_on_assets,
    ratio(annualised(net_profit, period_days), equity) AS return_on_equity,
    current_ratio,
    quick_ratio,
    ratio(cash, short_term_debt) AS cash_ratio,
    ratio(equity, total_assets) AS equity_fraction,
    ratio(debt, total_assets) AS debt_fraction,
    ratio(debt, equity) AS debt_to_equity,
    (long_term_debt_financial::DECIMAL(19, 2) + short_term_debt_financial)::DECIMAL(20, 2) AS financial_debt,
    (financial_debt - cash)::DECIMAL(20, 2) AS net_debt,
    ratio(net_debt, annualised(ebitda, period_days)) AS net_debt_to_ebitda,
    equity < 0 AS is_equity_negative
FROM accounts
