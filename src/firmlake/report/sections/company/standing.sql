-- table: The figures of the company among those of its peers, in the order in which they are shown.
SELECT *, list_position([
        'revenue_annual', 'revenue_growth', 'employee_count', 'total_assets', 'equity', 'ebitda_margin', 'net_margin',
        'return_on_assets', 'return_on_equity', 'equity_fraction', 'current_ratio', 'debt_to_equity', 'z',
        'health_indicator'
    ], measure) AS place,
    CASE measure
        WHEN 'z' THEN 'Altman''s Z'''''
        WHEN 'revenue_annual' THEN 'annual revenue'
        WHEN 'equity_fraction' THEN 'equity ratio'
        ELSE replace(replace(measure, '_', ' '), 'ebitda', 'EBITDA')
    END AS label,
    measure || if(measure IN ('total_assets', 'revenue_annual', 'equity'), '_amount', '') AS shown_as
FROM benchmark(getvariable('country'), getvariable('number')) WHERE place IS NOT NULL
