-- function altman_z(x1, x2, x3, x4)
-- Altman's Z'' from its four parts, to four decimals. Null if a part is missing.
round(6.56 * x1 + 3.26 * x2 + 6.72 * x3 + 1.05 * x4, 4)
