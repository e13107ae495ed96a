-- title: Findings
-- chapter: Data quality
-- Problems that checks of the data found. Nothing is corrected.
SELECT check_name AS check, severity, start_date AS accounts_from, end_date AS accounts_to,
    array_to_string(
        [replace(key, '_', ' ') || ' ' || (evidence->>key) FOR key IN json_keys(evidence)], '; '
    ) AS evidence,
    count(*) OVER () AS total
FROM findings WHERE country = getvariable('country') AND company_number = getvariable('number')
ORDER BY list_position(['error', 'warning', 'note'], severity), end_date DESC NULLS LAST, check_name LIMIT 30
