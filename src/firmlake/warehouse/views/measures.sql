-- view measures
-- One row per period of a company and each measure that it has, for comparing companies: size, margins, returns,
-- liquidity, leverage, growth and scores. Periods whose figures are not comparable with the company's others are left
-- out.
--
-- fiscal_year: Year in which the period ends
-- measure: Name of the measure: the name of its column in trend, ratios, altman or accounts
-- value: Value of the measure in the unit of that column, as a float
SELECT * FROM (
    SELECT
        country, company_number, start_date, end_date, recency,
        year(end_date) AS fiscal_year,
        m.measure,
        CASE m.measure
            WHEN 'total_assets' THEN t.total_assets::DOUBLE
            WHEN 'revenue_annual' THEN t.revenue_annual::DOUBLE
            WHEN 'equity' THEN t.equity::DOUBLE
            WHEN 'employee_count' THEN t.employee_count::DOUBLE
            WHEN 'revenue_growth' THEN t.revenue_growth::DOUBLE
            WHEN 'total_assets_growth' THEN t.total_assets_growth::DOUBLE
            WHEN 'employee_growth' THEN t.employee_growth::DOUBLE
            WHEN 'gross_margin_fraction' THEN r.gross_margin_fraction::DOUBLE
            WHEN 'ebitda_margin' THEN r.ebitda_margin::DOUBLE
            WHEN 'net_margin' THEN r.net_margin::DOUBLE
            WHEN 'return_on_assets' THEN r.return_on_assets::DOUBLE
            WHEN 'return_on_equity' THEN r.return_on_equity::DOUBLE
            WHEN 'current_ratio' THEN r.current_ratio::DOUBLE
            WHEN 'quick_ratio' THEN r.quick_ratio::DOUBLE
            WHEN 'equity_fraction' THEN r.equity_fraction::DOUBLE
            WHEN 'debt_to_equity' THEN r.debt_to_equity::DOUBLE
            WHEN 'net_debt_to_ebitda' THEN r.net_debt_to_ebitda::DOUBLE
            WHEN 'z' THEN z.z::DOUBLE
            WHEN 'health_indicator' THEN z.health_indicator::DOUBLE
        END AS value
    FROM trend t
    JOIN ratios r USING (country, company_number, start_date, end_date)
    JOIN (
        SELECT s.country, s.company_number, s.start_date, s.end_date, s.z, a.health_indicator
        FROM altman s
        JOIN accounts a USING (country, company_number, start_date, end_date)
    ) z USING (country, company_number, start_date, end_date)
    CROSS JOIN (VALUES
        ('total_assets'), ('revenue_annual'), ('equity'), ('employee_count'), ('revenue_growth'),
        ('total_assets_growth'), ('employee_growth'), ('gross_margin_fraction'), ('ebitda_margin'),
        ('net_margin'), ('return_on_assets'), ('return_on_equity'), ('current_ratio'),
        ('quick_ratio'), ('equity_fraction'), ('debt_to_equity'), ('net_debt_to_ebitda'), ('z'),
        ('health_indicator')
    ) AS m(measure)
    WHERE t.is_comparable
)
WHERE value IS NOT NULL
