-- function ratio(part, whole)
-- One figure divided by another, to six decimals; null where either is missing or the second is zero.
round(part / nullif(whole, 0), 6)
