-- title: The next four weeks
-- chapter: Runs and cost
-- chart: bars
-- Credits by the day on which they fall due, and companies refreshed for free in the last days of their paid window. If
-- no run is due that day, the next one pays. Due today: what an unfinished run still has to buy, and companies of a
-- list that a budget left out.
SELECT strftime(day, '%d %b') AS day, part, count FROM (
    SELECT day, 'credits' AS part, credits AS count FROM due
    UNION ALL SELECT day, 'free refreshes', free_refreshes FROM due
) AS each ORDER BY each.day, part
