-- function ratio(part, whole)
-- One figure divided by another, to six decimals; null where either is missing or the second is not above zero: a loss
-- divided by negative revenue would pass for a profit.
CASE WHEN whole > 0 THEN round(part / whole, 6) END
