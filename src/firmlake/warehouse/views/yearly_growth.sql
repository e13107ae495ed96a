-- function yearly_growth(latest, earlier, years)
-- Compound annual growth as a fraction (0.1 is 10 %), to six decimals. Null if a figure is missing or not above zero,
-- or if no time has passed.
CASE WHEN latest > 0 AND earlier > 0 AND years > 0 THEN round(pow(latest / earlier, 1 / years) - 1, 6) END
