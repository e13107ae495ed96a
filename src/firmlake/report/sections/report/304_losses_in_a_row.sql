-- title: Losses in a row
-- chapter: Movers
-- Companies that made a loss in at least their two newest periods; doubtful figures are left out.
SELECT name AS company, country || ' ' || company_number AS number, count(*) OVER () AS total,
    loss_period_count AS losses, net_profit AS last_result_amount,
    equity AS equity_amount, end_date AS accounts_to
FROM portfolio WHERE loss_period_count > 1 AND is_comparable
ORDER BY losses DESC, net_profit, country, company_number LIMIT 8
