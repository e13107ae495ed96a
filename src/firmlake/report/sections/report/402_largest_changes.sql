-- title: Largest changes
-- chapter: Changes
-- Up to three of each kind, without new companies and lookalikes.
SELECT
    coalesce(c.name, c.country || ' ' || c.company_number) AS company,
    c.country || ' ' || c.company_number AS number,
    replace(kind, '_', ' ') AS event,
    concat_ws(' ', end_date::VARCHAR, direction, related_name, related_country, related_company_number)
        AS about,
    coalesce(
        array_to_string([
            format('{} {} → {}', replace(field->>'field', '_', ' '), coalesce(field->>'old', '-'),
                coalesce(field->>'new', '-'))
            FOR field IN (fields->'$[*]')[:3]
        ], '; ') || if(json_array_length(fields) > 3, format('; {} more', json_array_length(fields) - 3), ''),
        regexp_replace(
            if(coalesce(old_value, new_value) IS NULL, NULL,
                format('{} → {}', coalesce(old_value, '-'), coalesce(new_value, '-'))),
            '([.][0-9]*[1-9])0+( |$)|[.]0+( |$)', '\1\2\3', 'g'
        )
    ) AS change
FROM changes c
JOIN last_fetch USING (run_id)
WHERE kind NOT IN ('company_appeared', 'lookalike_in', 'lookalike_out')
QUALIFY row_number() OVER (
    PARTITION BY kind
    ORDER BY abs(coalesce(try_cast(new_value AS DOUBLE), 0) - coalesce(try_cast(old_value AS DOUBLE), 0)) DESC,
        json_array_length(fields) DESC NULLS LAST, end_date DESC NULLS LAST, c.country, c.company_number,
        c.position
) <= 3
ORDER BY list_position([
    'company_gone', 'health_down', 'parent_out', 'parent_in', 'function_changed', 'stake_changed',
    'period_restated', 'child_out', 'child_in', 'period_removed', 'committees_changed', 'health_up',
    'new_accounts', 'period_returned', 'company_renamed', 'company_moved'
], kind), c.country, c.company_number, c.position
