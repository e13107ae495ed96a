-- view: The changes of companies and service lists, as they are stored and in words: what each is about, and what it was
-- before and after. A load is a run, an overview (its row_counts has list_changes) or an applied plan, which finds none.
-- `is_last`: the last run or the last overview found it; for one list, its last run or a later one of others.
WITH known AS (
    SELECT run_id, generation,
           coalesce(finished_at, try_strptime(run_id[:16], '%Y%m%dT%H%M%SZ')) AS found_at,
           generation >= max(generation) FILTER (r.run_id IS NULL OR o.run_id IS NOT NULL)
               OVER (PARTITION BY r.run_id IS NULL) AS is_last
    FROM (SELECT run_id, min(generation) AS generation,
                 bool_or(json_exists(row_counts, '$.list_changes')) AS is_overview
          FROM loads GROUP BY run_id)
    LEFT JOIN runs r USING (run_id) LEFT JOIN (SELECT run_id FROM own_runs) o USING (run_id)
    WHERE r.run_id IS NOT NULL OR is_overview
), list_names AS (
    SELECT list_id, arg_max(name, valid_from_run) AS name
    FROM (SELECT list_id, name, valid_from_run FROM service_lists
          UNION ALL SELECT list_id, name, valid_from_run FROM service_lists_history)
    GROUP BY list_id
), events AS (
    SELECT c.* EXCLUDE (related_name), NULL::BIGINT AS list_id, m.name,
           coalesce(related_name, o.name) AS related_name
    FROM company_changes c
    LEFT JOIN companies m ON m.country = c.country AND m.company_number = c.company_number
    LEFT JOIN companies o ON o.country = related_country AND o.company_number = related_company_number
    UNION ALL BY NAME
    SELECT * FROM list_changes LEFT JOIN list_names USING (list_id)
)
SELECT e.* EXCLUDE (fields), found_at, generation, is_last,
    coalesce(fields::STRUCT(field VARCHAR, "old" VARCHAR, "new" VARCHAR)[], []) AS fields,
    coalesce(country || ' ' || company_number, 'list ' || list_id) AS subject,
    replace(kind, '_', ' ') AS event,
    concat_ws(' ', start_date || ' to ' || end_date, if(dup_no > 0, 'filing ' || dup_no + 1, NULL), direction,
        related_name, related_country || ' ' || related_company_number) AS about,
    coalesce(
        nullif(array_to_string([
            format('{} {} → {}', replace(field->>'field', '_', ' '), coalesce(field->>'old', '-'),
                coalesce(field->>'new', '-'))
            FOR field IN json_extract(e.fields, '$[*]')
        ], '; '), ''),
        if(coalesce(old_value, new_value) IS NULL, '',
            format('{} → {}', coalesce(old_value, '-'), coalesce(new_value, '-')))
    ) AS change
FROM events e JOIN known USING (run_id)
