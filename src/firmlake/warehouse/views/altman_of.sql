-- function altman_of(total_assets, net_working_capital, retained_earnings, ebit, equity, debt, period_days)
-- Altman's Z'' from the amounts of a period, as in altman; null if a part is missing.
altman_z(
    CASE WHEN total_assets > 0 THEN ratio(net_working_capital, total_assets) END,
    CASE WHEN total_assets > 0 THEN ratio(retained_earnings, total_assets) END,
    CASE WHEN total_assets > 0 THEN ratio(annualised(ebit, period_days), total_assets) END,
    CASE
        WHEN coalesce(total_assets::DECIMAL(19, 2) - equity, debt)::DECIMAL(20, 2) > 0
            THEN ratio(equity, coalesce(total_assets::DECIMAL(19, 2) - equity, debt)::DECIMAL(20, 2))
    END
)
