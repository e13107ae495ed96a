-- title: Events of the last run
-- chapter: Changes
-- `firmlake changes` lists them all, also since a given day, and as CSV or JSON.
SELECT replace(kind, '_', ' ') AS event, count(*) AS events,
    count(DISTINCT country || company_number) AS companies
FROM changes JOIN last_fetch USING (run_id) GROUP BY kind ORDER BY events DESC, kind
