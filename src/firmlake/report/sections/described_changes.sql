-- view: The changes of companies, in words: what each is about, and what it was before and after.
SELECT c.found_at, c.run_id, c.country, c.company_number, c.position, c.name, c.kind,
    replace(c.kind, '_', ' ') AS event,
    concat_ws(' ', c.start_date || ' to ' || c.end_date, if(c.dup_no > 0, 'filing ' || c.dup_no + 1, NULL), c.direction,
        coalesce(c.related_name, o.name), c.related_country || ' ' || c.related_company_number) AS about,
    coalesce(
        nullif(array_to_string([
            format('{} {} → {}', replace(field->>'field', '_', ' '), coalesce(field->>'old', '-'),
                coalesce(field->>'new', '-'))
            FOR field IN json_extract(c.fields, '$[*]')
        ], '; '), ''),
        if(coalesce(c.old_value, c.new_value) IS NULL, '',
            format('{} → {}', coalesce(c.old_value, '-'), coalesce(c.new_value, '-')))
    ) AS change
FROM changes c
LEFT JOIN companies o ON o.country = c.related_country AND o.company_number = c.related_company_number
