-- function next_end(end_date)
-- Last day of the year that follows a period. The year after 28 February 2023 ends on 29 February 2024.
(end_date + 1 + INTERVAL 1 YEAR)::DATE - 1
