-- title: Figures
-- chapter: Figures
-- The figures at the top, of the newest accounts; without accounts they are empty.
SELECT name, place, country || ' ' || company_number AS number, status,
    (SELECT max(generation) FROM loads) AS generation,
    end_date, revenue_annual AS revenue_amount, revenue_growth, net_margin, employee_count,
    total_assets AS total_assets_amount, equity_fraction, health_indicator, z, zone, incomparable_because
FROM (SELECT country, company_number, name, place FROM companies)
JOIN (SELECT country, company_number, status FROM company_status) USING (country, company_number)
LEFT JOIN (SELECT * EXCLUDE (name, place) FROM portfolio) USING (country, company_number)
WHERE country = getvariable('country') AND company_number = getvariable('number')
