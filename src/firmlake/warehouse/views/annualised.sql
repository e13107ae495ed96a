-- function annualised(amount, period_days)
-- A flow of a period converted to a year of 365 days. Periods of 360 to 371 days count as a year and stay as they are,
-- so that leap years and years of 52 or 53 weeks are exact. An estimate, since seasons are not known. The type is wider
-- than that of the amount, because the amount of one day is multiplied by 365.
CASE
    WHEN period_days BETWEEN 360 AND 371 THEN amount
    WHEN period_days > 0 THEN round(amount::DECIMAL(28, 2) * 365 / period_days, 2)::DECIMAL(21, 2)
END
