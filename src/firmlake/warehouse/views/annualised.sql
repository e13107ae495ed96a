-- function annualised(amount, period_days)
-- What a flow of a period would be in a year of 365 days. Periods of 360 to 371 days are a year as they are, which lets
-- leap years and years of 52 or 53 weeks stay exact. An estimate: seasons are not known. Wider than the amount: a day's may be 365 times as much
-- in a year.
CASE
    WHEN period_days BETWEEN 360 AND 371 THEN amount
    WHEN period_days > 0 THEN round(amount::DECIMAL(28, 2) * 365 / period_days, 2)::DECIMAL(21, 2)
END
