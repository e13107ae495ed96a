-- function committee(code)
-- The number of a joint committee without leading zeros, so that 100 and 0100 are the same.
CASE WHEN code <> '' THEN coalesce(nullif(ltrim(code, '0'), ''), '0') END
