-- function ratio(part, whole)
-- One figure divided by another, to six decimals. Null if one is missing or the divisor is not above zero, because a
-- loss divided by negative revenue would look like a profit.
CASE WHEN whole > 0 THEN round(part / whole, 6) END
