-- function altman_of(total_assets, net_working_capital, retained_earnings, ebit, equity, debt, period_days)
-- Altman's Z'' from the amounts of a period, as in the view altman. Null if a part is missing.
altman_z(
    ratio(net_working_capital, total_assets),
    ratio(retained_earnings, total_assets),
    ratio(annualised(ebit, period_days), total_assets),
    ratio(equity, coalesce(total_assets::DECIMAL(19, 2) - equity, debt)::DECIMAL(20, 2))
)
