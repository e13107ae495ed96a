-- name: lines
-- The lines of a list; only the stored list has the kinds of its cells.
CREATE TEMP TABLE back_lines AS
SELECT * FROM list_lines LEFT JOIN (SELECT line, kinds FROM {kinds}) USING (line) WHERE list_name = {name}
-- name: found
SELECT coalesce(bool_or(kinds = '' AND given IS NOT NULL), false), count(*) FILTER (status = 'refused') FROM back_lines
-- name: has_values
-- A row if a column has filled cells, and all of them have one of our values.
SELECT true FROM (SELECT json_extract_string(columns, $2) AS cell FROM back_lines) WHERE cell <> ''
HAVING bool_and(regexp_full_match(cell, $1))
-- name: owners
-- Replaces the view, which each portion would otherwise compute for all companies.
CREATE TEMP TABLE ultimate_owners AS FROM ultimate_owners
-- name: portions
-- Conditions that divide the companies of a list.
SELECT string_agg(format($$country = '{}' AND company_number BETWEEN '{}' AND '{}'$$, country, first, last), ' OR ')
FROM (
    SELECT portion, country, min(company_number) AS first, max(company_number) AS last
    FROM (
        SELECT *, (row_number() OVER (ORDER BY country, company_number) - 1) // ? AS portion
        FROM (SELECT DISTINCT country, company_number FROM back_lines WHERE company_number IS NOT NULL)
    )
    GROUP BY portion, country
)
GROUP BY portion ORDER BY portion
-- name: refused
SELECT line, given, reason FROM back_lines WHERE status = 'refused' ORDER BY line
