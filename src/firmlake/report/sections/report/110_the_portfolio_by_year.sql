-- title: The portfolio by year
-- chapter: The portfolio
-- Sums and medians over the last accounts of each company that end in the year, without doubtful figures. Accounts of
-- the newest years may still be filed.
SELECT year, companies, revenue AS revenue_amount, net_profit AS net_profit_amount,
    total_assets AS total_assets_amount, employees, growth[2] AS median_growth, losses AS loss_making_share
FROM years WHERE companies > 0 ORDER BY year DESC
