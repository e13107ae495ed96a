-- function share_asked(threshold)
-- A threshold for stakes as a fraction, 0 to 1. A threshold above 1, such as 25 for 25 %, or below 0 is an error.
CASE
    WHEN threshold > 1 THEN error('The threshold ' || threshold || ' is above 1. Write a share: 0.25 for 25 per cent')
    WHEN threshold < 0 THEN error('The threshold ' || threshold || ' is below 0. Write a share: 0.25 for 25 per cent')
    ELSE threshold
END
