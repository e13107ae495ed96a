-- title: Size by the EU's definition
-- chapter: Owners and group
-- By Recommendation 2003/361/EC, with linked enterprises and, in proportion, partners as far as stakes of companies
-- show them. Above 0 missing companies, the status may be too small. Amounts are taken to be in euro.
SELECT status, own_status, employee_count AS employees, revenue_annual AS revenue_amount,
    total_assets AS total_assets_amount, linked_count AS linked, partner_count AS partners,
    missing_count AS missing
FROM sme_status(getvariable('country') || getvariable('number')) WHERE status IS NOT NULL
