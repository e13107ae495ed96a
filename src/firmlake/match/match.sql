-- Statements of firmlake.match.match.

-- name: rows
CREATE TABLE list_rows (
    line BIGINT, cells VARCHAR[], defect VARCHAR, country VARCHAR, own_country VARCHAR, own_number VARCHAR, name VARCHAR,
    place VARCHAR, postcode VARCHAR, vat VARCHAR
);

-- name: results
-- Finds candidates for each line of a list in a register, and decides which of them is the company. The result is the view
-- results, one row for each line of the list.
CREATE TABLE wanted AS
SELECT
    line, country, own_country, own_number, coalesce(normal_name(name), '') AS normal, replace(normal, ' ', '') AS tight,
    replace(plain(name), ' ', '') AS whole, nullif(normal_place(place), '') AS place, postcode_of(postcode) AS postcode,
    vat_key(vat) AS vat
FROM list_rows;

CREATE TABLE found (
    line BIGINT, country VARCHAR, number VARCHAR, name VARCHAR, how VARCHAR, score DOUBLE,
    form INTEGER  -- of a same name: 2 with the same legal form, 1 without one, 0 with another one; else 1
);

INSERT INTO found
SELECT line, own_country, own_number, NULL, 'its own number', 1, 1 FROM wanted WHERE own_number IS NOT NULL;

INSERT INTO found
SELECT DISTINCT line, vats.country, number, NULL, 'VAT number', 1, 1 FROM wanted JOIN vats USING (vat)
WHERE line NOT IN (SELECT line FROM found);

INSERT INTO found
SELECT
    line, names.country, number, min(name), 'same name', 1,
    max(CASE names.whole WHEN wanted.whole THEN 2 WHEN tight THEN 1 ELSE 0 END)
FROM wanted JOIN names USING (tight)
WHERE (wanted.country IS NULL OR wanted.country = names.country) AND line NOT IN (SELECT line FROM found)
GROUP BY ALL;

-- A word finds the names with the same word, also if one letter is missing from either word. A word that more than
-- 2,000 names of the register share is too common to find candidates by.
CREATE TABLE open_lines AS SELECT * FROM wanted WHERE tight <> '' AND line NOT IN (SELECT line FROM found);
CREATE MACRO spellings(word) AS CASE WHEN length(word) < 5 THEN [word] ELSE
    list_concat([word], list_transform(range(1, length(word) + 1), lambda i: left(word, i - 1) || substr(word, i + 1)))
END;
CREATE TABLE keys AS
SELECT DISTINCT line, unnest(spellings(word)) AS key
FROM (SELECT line, unnest(string_split(normal, ' ')) AS word FROM open_lines) WHERE length(word) >= 3;
CREATE TABLE vocabulary AS
SELECT word FROM (SELECT unnest(list_distinct(string_split(normal, ' '))) AS word FROM names)
WHERE length(word) >= 3 GROUP BY word HAVING count(*) <= 2000;
CREATE TABLE words AS
SELECT DISTINCT line, word FROM keys JOIN (SELECT word, unnest(spellings(word)) AS key FROM vocabulary) USING (key);

-- 0.85 is the lowest Jaro-Winkler similarity of similar names.
INSERT INTO found
WITH by_word AS (
    SELECT line, names.country, number, name, names.normal FROM (
        SELECT country, number, name, normal, unnest(list_distinct(string_split(normal, ' '))) AS word FROM names
    ) names JOIN words USING (word)
), by_start AS (
    SELECT line, names.country, number, name, names.normal
    FROM open_lines JOIN names ON left(open_lines.tight, 6) = left(names.tight, 6)
    WHERE length(open_lines.tight) >= 6
), near AS (
    SELECT line, pairs.country, number, name, jaro_winkler_similarity(open_lines.normal, pairs.normal) AS similarity
    FROM (FROM by_word UNION FROM by_start) pairs JOIN open_lines USING (line)
    WHERE open_lines.country IS NULL OR open_lines.country = pairs.country
)
SELECT line, country, number, arg_max(name, similarity), 'similar name', max(similarity), 1
FROM near WHERE similarity >= 0.85 GROUP BY ALL;

-- is_there: whether company and line name the same place; null if either is unknown.
CREATE TABLE placed AS
WITH seats AS (
    SELECT found.*, seat.place, wanted.place IS NULL AND wanted.postcode IS NULL OR seat.number IS NULL AS is_unknown,
           coalesce(seat.normal = wanted.place, false) OR coalesce(seat.postcode = wanted.postcode, false) AS is_same
    FROM found JOIN (SELECT line, place, postcode FROM wanted) AS wanted USING (line)
    LEFT JOIN places AS seat USING (country, number)
)
SELECT line, country, number, name, how, score, form,
       CASE WHEN bool_and(is_unknown) THEN NULL ELSE bool_or(is_same) END AS is_there,
       arg_max(place, is_same) AS place
FROM seats
GROUP BY ALL;

-- Whether a company that a number named has other names than the line.
CREATE TABLE misnamed AS
SELECT line FROM (SELECT line, country, number FROM found WHERE how NOT LIKE '%name')
JOIN (SELECT line, normal AS own_name FROM wanted WHERE normal <> '') USING (line) JOIN names USING (country, number)
GROUP BY line HAVING max(jaro_winkler_similarity(normal, own_name)) < 0.85;

-- The best candidates of each line. The score of a company that is known to be in another place is multiplied by 0.9.
-- If the best has the line's legal form, companies of the same name with another form are no rivals.
CREATE TABLE ranked AS
WITH scored AS (
    SELECT line, country, number, coalesce(name, (SELECT min(n.name) FROM names n WHERE n.number = placed.number
           AND n.country = placed.country)) AS name, how, place, is_there, form,
           round(score * CASE WHEN how LIKE '%name' AND is_there = false THEN 0.9 ELSE 1 END, 3) AS score
    FROM placed
), sorted AS (
    SELECT *, row_number() OVER best_first AS rank, first_value(form) OVER best_first AS best_form
    FROM scored
    WINDOW best_first AS (PARTITION BY line ORDER BY coalesce(is_there, false) AND how = 'same name' DESC, score DESC,
                          coalesce(is_there, false) DESC, form DESC, country, number)
)
SELECT *, count_if(best_form < 2 OR form > 0) OVER (PARTITION BY line) AS rival_count,
       count_if(is_there AND (best_form < 2 OR form > 0)) OVER (PARTITION BY line) AS there_count
FROM sorted;

-- A match is certain if a number matches, or if only one company has the name and the line's place, if any.
CREATE TABLE matched AS
WITH judged AS (
    SELECT
        ranked.*,
        CASE
            WHEN (how = 'its own number' OR how = 'VAT number' AND rival_count = 1) AND line IN (FROM misnamed)
                THEN how || ', but the company has another name'
            WHEN how = 'its own number' OR how = 'VAT number' AND rival_count = 1 THEN how
            WHEN how = 'same name' AND is_there AND there_count = 1 THEN 'name and place'
            WHEN how = 'same name' AND rival_count = 1 AND is_there IS NULL THEN 'name'
            WHEN how = 'similar name' AND score >= getvariable('accept') THEN 'similar name, accepted'
            WHEN how = 'same name' AND rival_count = 1 THEN 'to check: name in another place'
            WHEN how = 'similar name' THEN 'to check: similar name'
            ELSE 'to check: several companies'
        END AS match
    FROM ranked WHERE rank = 1
)
SELECT
    line,
    CASE WHEN match NOT LIKE 'to check%' THEN country END AS country,
    CASE WHEN match NOT LIKE 'to check%' THEN number END AS company_number,
    match,
    score,
    candidates
FROM judged JOIN (
    SELECT line, list({
        'company': country || ' ' || number, 'name': concat_ws(', ', name, place), 'score': score
    } ORDER BY rank) AS candidates
    FROM ranked WHERE rank <= 3 GROUP BY line
) USING (line);

CREATE VIEW results AS
SELECT
    line, cells, matched.country, company_number, score, candidates,
    CASE
        WHEN match IS NOT NULL THEN match
        WHEN defect = 'blank' THEN 'blank line'
        WHEN trim(vat) <> '' AND vat_key(vat) IS NULL THEN 'not found: correct the VAT number (a Dutch one is NL, 9 digits, B, 2 digits)'
        ELSE 'not found'
    END AS match
FROM list_rows LEFT JOIN matched USING (line);
