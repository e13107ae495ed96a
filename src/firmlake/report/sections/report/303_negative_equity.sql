-- title: Negative equity
-- chapter: Movers
-- Debts exceed total assets. The lowest equity ratio first; doubtful figures are left out.
SELECT name AS company, country || ' ' || company_number AS number, count(*) OVER () AS total,
    equity_fraction, equity AS equity_amount,
    total_assets AS total_assets_amount, end_date AS accounts_to
FROM portfolio WHERE equity < 0 AND is_comparable ORDER BY equity_fraction, country, company_number LIMIT 8
