-- title: Values that do not fit
-- chapter: Runs and cost
-- A value that does not fit is null in its column and kept in `extra_json`. A record is left out if the value that
-- identifies it does not fit. The table `rejects` lists both.
SELECT dataset, path, if(effect = 'record', 'record', 'value') AS lost, min(reason) AS reason,
    count(*) AS records, min(country || ' ' || company_number) AS for_example, count(*) OVER () AS total
FROM rejects JOIN last_run USING (run_id)
GROUP BY dataset, path, lost ORDER BY records DESC, dataset, path, lost LIMIT 10
