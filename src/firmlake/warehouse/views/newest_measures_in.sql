-- macro newest_measures_in(of_group)
-- example: newest_measures_in('all')
-- One row per measure of each company in a peer group (see peer_levels), from the newest period of the company, as
-- in portfolio.
--
-- measure: Name of the measure: the name of its column in portfolio
-- value: Value of the measure in the unit of that column, as a float
UNPIVOT (
    SELECT
        p.country, p.company_number, start_date, end_date,
        total_assets::DOUBLE AS total_assets, revenue_annual::DOUBLE AS revenue_annual, equity::DOUBLE AS equity,
        employee_count::DOUBLE AS employee_count, revenue_growth::DOUBLE AS revenue_growth,
        total_assets_growth::DOUBLE AS total_assets_growth, employee_growth::DOUBLE AS employee_growth,
        gross_margin_fraction::DOUBLE AS gross_margin_fraction, ebitda_margin::DOUBLE AS ebitda_margin,
        net_margin::DOUBLE AS net_margin, return_on_assets::DOUBLE AS return_on_assets,
        return_on_equity::DOUBLE AS return_on_equity, current_ratio::DOUBLE AS current_ratio,
        quick_ratio::DOUBLE AS quick_ratio, equity_fraction::DOUBLE AS equity_fraction,
        debt_to_equity::DOUBLE AS debt_to_equity, net_debt_to_ebitda::DOUBLE AS net_debt_to_ebitda, z::DOUBLE AS z,
        health_indicator::DOUBLE AS health_indicator
    FROM (SELECT of_group AS asked_group) asked
    JOIN peer_levels l ON l.peer_group = asked_group
    JOIN portfolio p ON p.country = l.country AND p.company_number = l.company_number
    WHERE is_comparable
)
ON COLUMNS(* EXCLUDE (country, company_number, start_date, end_date))
INTO NAME measure VALUE value
