-- name: lines
-- The lines of a list; only the stored list has the kinds of its cells.
CREATE TEMP TABLE back_lines AS
SELECT * FROM list_lines LEFT JOIN (SELECT line, kinds FROM {kinds}) USING (line) WHERE list_name = {name}
-- name: found
SELECT coalesce(bool_or(kinds <> ''), false), coalesce(bool_or(kinds = '' AND given IS NOT NULL), false),
       count(*) FILTER (status = 'refused')
FROM back_lines
-- name: has_values
-- Whether all filled cells of a column have one of our values.
SELECT coalesce(bool_and(regexp_full_match(cell, $1)), false)
FROM (SELECT json_extract_string(columns, $2) AS cell FROM back_lines) WHERE cell <> ''
-- name: owners
-- Replaces the view, which each portion would otherwise compute for all companies.
CREATE TEMP TABLE ultimate_owners AS FROM ultimate_owners
-- name: ranges
SELECT portion, country, min(company_number), max(company_number)
FROM (
    SELECT *, (row_number() OVER (ORDER BY country, company_number) - 1) // ? AS portion
    FROM (SELECT DISTINCT country, company_number FROM back_lines WHERE company_number IS NOT NULL)
)
GROUP BY portion, country ORDER BY portion, country
-- name: refused
SELECT line, given, reason FROM back_lines WHERE status = 'refused' ORDER BY line
-- name: guesses
-- Amounts in a form that spreadsheets write. Without any comma, `1.234` has a decimal point. Values without a digit, such
-- as `n/a`, may be among amounts; one value such as `007` or `A10` makes all of them codes. It is enough if most values of
-- a column are dates.
CREATE TEMP MACRO has_point(cell) AS
    regexp_full_match(cell, '-?(0|[1-9][0-9]{0,10})([.][0-9]{1,15}(E-[0-9]{1,3})?)?');
CREATE TEMP MACRO has_comma(cell) AS
    regexp_full_match(cell, '-?([0-9]{1,3}([.][0-9]{3}){0,3}|[0-9]{1,11})(,[0-9]{1,15})?');
CREATE TEMP MACRO has_date(cell) AS
    regexp_full_match(cell, '([0-9]{4}-[0-9]{2}-[0-9]{2})?[ T]?([0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]+)?)?)?');
CREATE TEMP MACRO is_exact(cell) AS length(ltrim(regexp_replace(cell, 'E.*|[^0-9]', '', 'g'), '0')) <= 15;
CREATE TEMP MACRO guess(cell) AS CASE
    WHEN bool_and(has_point(cell) OR NOT regexp_matches(cell, '[0-9]')) AND bool_or(regexp_matches(cell, '[0-9]'))
        THEN 'point'
    WHEN bool_and(has_comma(cell) OR NOT regexp_matches(cell, '[0-9]')) AND bool_or(regexp_matches(cell, '[0-9],[0-9]'))
        THEN 'comma'
    WHEN avg(has_date(cell)::INT) > 0.5 THEN 'date'
    ELSE '' END;
