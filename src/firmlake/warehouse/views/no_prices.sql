-- view no_prices
-- An empty table of price indices: the default of real_growth, whose growth is then null.
--
-- country: Country of the index
-- on_date: Day or first day of the month of the index
-- price_index: Level of prices, such as 128.4
SELECT country, end_date AS on_date, 1::DOUBLE AS price_index FROM financials WHERE false
