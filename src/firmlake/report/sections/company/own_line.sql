-- table: The company and all on the way from it to the top of its groups.
WITH RECURSIVE line(no) AS (
    SELECT no FROM parties WHERE id = getvariable('country') || getvariable('number')
    UNION
    SELECT s.parent_no FROM line JOIN shareholdings s ON s.child_no = line.no WHERE s.stake >= 0.5
)
FROM line
