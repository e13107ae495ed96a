-- function incomparable_because(presumed_unit, period_days)
-- Why the figures of a period do not compare with those of other periods; null if they do.
CASE
    WHEN presumed_unit = 1000 THEN 'presumably in thousands, see unit_errors'
    WHEN presumed_unit IS NOT NULL THEN 'presumably in another unit, see unit_errors'
    WHEN period_days < 1 THEN 'it ends before it begins'
END
