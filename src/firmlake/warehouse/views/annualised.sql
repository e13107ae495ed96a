-- function annualised(amount, period_days)
-- An amount that builds up over a period, such as revenue, converted to a year of 365 days. Amounts of periods of 360
-- to 371 days stay as they are, so that leap years and years of 52 or 53 weeks are exact. Other results are estimates,
-- because the seasons of the business are not known; of a period below 90 days there is none (null).
CASE
    WHEN period_days BETWEEN 360 AND 371 THEN amount
    -- The result has a wider type than the amount, because it is multiplied.
    WHEN period_days >= 90 THEN round(amount::DECIMAL(28, 2) * 365 / period_days, 2)::DECIMAL(21, 2)
END
