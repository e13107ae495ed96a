-- view ratios
-- One row per financial period of a company: margins, returns, liquidity and leverage. Each comes from the figures
-- of that period, and is null if a figure is missing or the divisor is not above zero. Returns divide the annualised
-- profit by assets or equity at the end of the period.
--
-- gross_margin_fraction: Gross margin divided by revenue. Null: one is missing, or revenue is not above zero
-- ebitda_margin: EBITDA divided by revenue. Null: one is missing, or revenue is not above zero
-- ebit_margin: EBIT divided by revenue. Null: one is missing, or revenue is not above zero
-- net_margin: Net profit divided by revenue. Null: one is missing, or revenue is not above zero
-- return_on_assets: Annualised net profit divided by total assets. Null: one is missing, or total assets are
-- not above zero
-- return_on_equity: Annualised net profit divided by equity. Null: one is missing, or equity is not above
-- zero
-- cash_ratio: Cash divided by short-term debt. Null: one is missing, or the debt is not above zero
-- equity_fraction: Equity divided by total assets. Null: one is missing, or total assets are not above zero
-- debt_fraction: Debt divided by total assets. Null: one is missing, or total assets are not above zero
-- debt_to_equity: Debt divided by equity. Null: one is missing, or equity is not above zero
-- financial_debt: Long-term financial debt plus short-term financial debt. Null: one is missing
-- net_debt: Financial debt minus cash; net cash is negative. Null: one is missing
-- net_debt_to_ebitda: Net debt divided by annualised EBITDA. Null: one is missing, or EBITDA is not above
-- zero
-- is_equity_negative: Whether equity is below zero, so that debts exceed assets. Null: equity is missing
SELECT
    country, company_number, start_date, end_date, date_received, period_days,
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
