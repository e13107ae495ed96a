-- function part_of_period(amount, day_count, period_days)
-- The part of an amount that falls on some days of its period, to cents; the amount itself if these are all days.
CASE
    WHEN day_count = period_days THEN amount::DECIMAL(28, 2)
    ELSE round(amount::DECIMAL(28, 2) * day_count / period_days, 2)::DECIMAL(28, 2)
END
