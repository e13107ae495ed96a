-- function growth(latest, earlier)
-- Growth as a fraction of the earlier figure (0.1 is 10 %), to six decimals; null if a figure is missing or the earlier
-- one is not above zero, since growth from a loss or from zero has no meaning.
CASE WHEN earlier > 0 THEN round(latest / earlier - 1, 6) END
