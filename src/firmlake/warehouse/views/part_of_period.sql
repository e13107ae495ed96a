-- function part_of_period(amount, day_count, period_days)
-- The part of an amount that falls on some days of its period, to whole cents: exact, half a cent away from zero. The amount
-- itself if these are all days.
CASE
    WHEN day_count = period_days THEN amount::DECIMAL(28, 2)
    -- In twice the cents, because DuckDB divides decimals as floats; in 64 bits where they suffice, which is far faster.
    WHEN abs(amount) < 100_000_000_000 AND period_days < 10_000 THEN (
        ((2 * day_count * (amount * 100)::BIGINT + sign(amount)::INTEGER * period_days) // (2 * period_days))::DECIMAL(18, 0)
        * 0.01
    )::DECIMAL(28, 2)
    ELSE (
        (
            (2 * day_count * (amount::DECIMAL(28, 2) * 100)::HUGEINT + sign(amount)::INTEGER * period_days)
            // (2 * period_days)
        )::DECIMAL(36, 0) * 0.01
    )::DECIMAL(28, 2)
END
