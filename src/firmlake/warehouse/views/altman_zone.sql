-- function altman_zone(z)
-- The zone of an Altman score: safe (above 2.6), grey or distress (below 1.1). Null if there is no score.
CASE WHEN z > 2.6 THEN 'safe' WHEN z < 1.1 THEN 'distress' WHEN z IS NOT NULL THEN 'grey' END
