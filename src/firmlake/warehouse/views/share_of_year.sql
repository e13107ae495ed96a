-- function share_of_year(amount, day_count, missing_count)
-- An amount that was put together for a year. Null if less than 360 days are covered or a part is missing.
CASE WHEN day_count >= 360 AND missing_count = 0 THEN amount::DECIMAL(38, 2) END
