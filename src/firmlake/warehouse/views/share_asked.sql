-- function share_asked(threshold)
-- A threshold of stakes as a share of 1; a greater one, such as 25 for per cent, or one below 0 is an error.
CASE
    WHEN threshold > 1 THEN error('The threshold ' || threshold || ' is above 1. Write a share: 0.25 for 25 per cent')
    WHEN threshold < 0 THEN error('The threshold ' || threshold || ' is below 0. Write a share: 0.25 for 25 per cent')
    ELSE threshold
END
