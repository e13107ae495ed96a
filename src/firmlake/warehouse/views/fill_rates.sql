-- view fill_rates
-- One row for each field of the accounts, country, year and company list: how many of the periods held state it. Rows
-- without a list count all companies.
--
-- list_name: Company list. Null: all companies
-- fiscal_year: Year in which the periods end
-- field: Column of financials
-- filled_count: Periods that state it
-- period_count: Periods held
-- filled_fraction: Share of the periods that state it
-- country: Country of the companies: BE, NL or FR
SELECT list_name, country, fiscal_year, field, filled_count, period_count, ratio(filled_count, period_count) AS filled_fraction
FROM (
    SELECT
        list_name, country, fiscal_year, count(*) AS period_count,
        unnest([
            {'field': 'date_received', 'filled_count': count(date_received)},
            {'field': 'health_indicator', 'filled_count': count(health_indicator)},
            {'field': 'revenue', 'filled_count': count(revenue)},
            {'field': 'gross_margin', 'filled_count': count(gross_margin)},
            {'field': 'ebitda', 'filled_count': count(ebitda)},
            {'field': 'ebit', 'filled_count': count(ebit)},
            {'field': 'net_profit', 'filled_count': count(net_profit)},
            {'field': 'cash', 'filled_count': count(cash)},
            {'field': 'cash_flow', 'filled_count': count(cash_flow)},
            {'field': 'net_working_capital', 'filled_count': count(net_working_capital)},
            {'field': 'net_working_capital_requirement', 'filled_count': count(net_working_capital_requirement)},
            {'field': 'current_ratio', 'filled_count': count(current_ratio)},
            {'field': 'quick_ratio', 'filled_count': count(quick_ratio)},
            {'field': 'total_assets', 'filled_count': count(total_assets)},
            {'field': 'equity', 'filled_count': count(equity)},
            {'field': 'capital', 'filled_count': count(capital)},
            {'field': 'retained_earnings', 'filled_count': count(retained_earnings)},
            {'field': 'debt', 'filled_count': count(debt)},
            {'field': 'long_term_debt', 'filled_count': count(long_term_debt)},
            {'field': 'long_term_debt_financial', 'filled_count': count(long_term_debt_financial)},
            {'field': 'long_term_debt_accounts_payable', 'filled_count': count(long_term_debt_accounts_payable)},
            {'field': 'short_term_debt', 'filled_count': count(short_term_debt)},
            {'field': 'short_term_debt_financial', 'filled_count': count(short_term_debt_financial)},
            {'field': 'short_term_debt_accounts_payable', 'filled_count': count(short_term_debt_accounts_payable)},
            {'field': 'employee_count', 'filled_count': count(employee_count)},
            {'field': 'new_hire_count', 'filled_count': count(new_hire_count)},
            {'field': 'employee_male_fraction', 'filled_count': count(employee_male_fraction)},
            {'field': 'employee_female_fraction', 'filled_count': count(employee_female_fraction)}
        ], recursive := true)
    FROM (
        SELECT NULL::VARCHAR AS list_name, a.*, year(end_date) AS fiscal_year FROM accounts a
        UNION ALL
        SELECT l.list_name, a.*, year(end_date) AS fiscal_year
        FROM accounts a
        JOIN (SELECT DISTINCT list_name, country, company_number FROM list_members) l USING (country, company_number)
    )
    GROUP BY list_name, country, fiscal_year
)
