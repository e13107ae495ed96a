-- title: Change history
-- chapter: Changes
-- Changes that runs found, newest first.
SELECT found_at::DATE AS found, event, about, change, count(*) OVER () AS total
FROM described_changes WHERE country = getvariable('country') AND company_number = getvariable('number')
ORDER BY found_at DESC, position LIMIT 200
