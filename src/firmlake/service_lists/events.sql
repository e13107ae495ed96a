-- The events that an overview found: each list that changed in a version ($number), before and after. A list seen for
-- the first time raises an event only for new results. A value that an overview leaves out raises no event, and none
-- when it comes back.
INSERT INTO list_changes BY NAME
WITH before AS (FROM service_lists_versions WHERE valid_to = $number),
after AS (FROM service_lists_versions WHERE valid_from = $number),
pairs AS (
    SELECT list_id, b.list_id IS NOT NULL AS was, a.list_id IS NOT NULL AS is_there, a.type,
           b.name AS old_name, a.name AS new_name, b.is_shared AS old_shared, a.is_shared AS new_shared,
           b.company_count AS old_count, a.company_count AS new_count,
           b.new_result_count AS old_results, a.new_result_count AS new_results
    FROM before AS b FULL JOIN after AS a USING (list_id)
),
events AS (
    SELECT list_id, 'list_gone' AS kind, old_name::VARCHAR AS old_value, NULL::VARCHAR AS new_value
    FROM pairs WHERE NOT is_there
    UNION ALL
    SELECT list_id, 'list_renamed', old_name, new_name FROM pairs WHERE was AND is_there AND old_name <> new_name
    UNION ALL
    SELECT list_id, 'list_shared', NULL, NULL FROM pairs WHERE was AND is_there AND new_shared AND NOT old_shared
    UNION ALL
    SELECT list_id, 'list_unshared', NULL, NULL FROM pairs WHERE was AND is_there AND NOT new_shared AND old_shared
    UNION ALL
    SELECT list_id, 'list_grew', old_count::VARCHAR, new_count::VARCHAR
    FROM pairs WHERE was AND is_there AND type = 'STATIC' AND new_count > old_count
    UNION ALL
    SELECT list_id, 'list_shrank', old_count::VARCHAR, new_count::VARCHAR
    FROM pairs WHERE was AND is_there AND type = 'STATIC' AND new_count < old_count
    UNION ALL
    SELECT list_id, 'list_new_results', old_results::VARCHAR, new_results::VARCHAR
    FROM pairs
    WHERE is_there AND type = 'SMART' AND new_results > 0 AND (NOT was OR new_results <> old_results)
)
SELECT *, row_number() OVER (PARTITION BY list_id ORDER BY kind) - 1 AS position, $run AS run_id FROM events
