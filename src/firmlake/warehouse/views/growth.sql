-- function growth(latest, earlier)
-- Growth as a fraction of the earlier figure (0.1 is 10 %), to six decimals. Null if a figure is missing or the earlier
-- figure is not above zero, because growth from a loss or from zero has no meaning.
CASE WHEN earlier > 0 THEN round(latest / earlier - 1, 6) END
