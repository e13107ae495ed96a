-- function incomparable_because(presumed_unit, period_days)
-- Why the figures of a period are not comparable with those of other periods. Null if they are comparable.
CASE
    WHEN presumed_unit = 1000 THEN 'presumably in thousands, see unit_errors'
    WHEN presumed_unit IS NOT NULL THEN 'presumably in another unit, see unit_errors'
    WHEN period_days < 1 THEN 'it ends before it begins'
END
