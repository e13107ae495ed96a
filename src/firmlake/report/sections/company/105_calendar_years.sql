-- title: Calendar years
-- chapter: Accounts
-- Put together from the periods that overlap each year, so that companies that close in different months can be
-- compared. Left out: amounts of years of which accounts cover less than 360 days.
SELECT year::VARCHAR AS year, days_covered AS days, revenue AS revenue_amount, ebitda AS ebitda_amount,
    net_profit AS net_profit_amount, cash_flow AS cash_flow_amount, closed_on AS last_close,
    total_assets AS total_assets_amount
FROM calendar_years WHERE country = getvariable('country') AND company_number = getvariable('number')
ORDER BY year DESC LIMIT 5
