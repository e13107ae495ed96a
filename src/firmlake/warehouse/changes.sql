-- name: states
-- An empty hash means that the company was not found; null means that there was never an answer.
CREATE OR REPLACE TEMP VIEW states AS
SELECT country, company_number, dataset, true AS is_before, payload_hash <> '' AS is_found
FROM (FROM company_state_versions WHERE valid_from < {number} AND coalesce(valid_to >= {number}, true))
SEMI JOIN changed USING (country, company_number)
UNION ALL
SELECT country, company_number, dataset, false, payload_hash <> ''
FROM company_state SEMI JOIN changed USING (country, company_number)

-- name: presence
CREATE OR REPLACE TEMP TABLE presence AS
SELECT country, company_number,
       bool_or(is_before) AS was_known,
       coalesce(bool_or(is_found) FILTER (is_before), false) AS was_found,
       coalesce(bool_or(is_found) FILTER (NOT is_before), false) AS is_found
FROM states GROUP BY country, company_number

-- name: watched
-- For a company that returned, `gone_in` is the run that found it gone and closed its last rows.
CREATE OR REPLACE TEMP TABLE gone AS
SELECT country, company_number, dataset, max(valid_to) AS gone_in
FROM company_state_versions
SEMI JOIN (FROM states WHERE is_before AND NOT is_found) USING (country, company_number, dataset)
WHERE payload_hash <> '' AND valid_to < {number}
GROUP BY ALL;
CREATE OR REPLACE TEMP TABLE watched AS
SELECT country, company_number, dataset, CASE WHEN NOT was_found THEN gone_in END AS gone_in
FROM changed
JOIN presence USING (country, company_number)
JOIN (SELECT country, company_number, dataset, NULL AS gone_in FROM states WHERE is_before AND is_found
      UNION ALL FROM gone) USING (country, company_number, dataset)
WHERE presence.is_found

-- name: rows_before
-- What has rows to compare: datasets, and companies. A first load has none.
SELECT DISTINCT dataset FROM watched
UNION ALL
SELECT 'companies' WHERE EXISTS (FROM companies_versions WHERE valid_to = {number})

-- name: after
CREATE OR REPLACE TEMP TABLE after_{table} AS
SELECT t.* FROM {table}_versions t SEMI JOIN (FROM watched WHERE dataset = '{dataset}') w
    USING (country, company_number)
WHERE valid_to IS NULL

-- name: before
CREATE OR REPLACE TEMP VIEW before_{table} AS
SELECT * FROM after_{table} WHERE valid_from < {number}
UNION ALL
SELECT t.*
FROM {table}_versions t SEMI JOIN (FROM watched WHERE dataset = '{dataset}') w USING (country, company_number)
WHERE valid_to = {number}
UNION ALL
SELECT t.*
FROM {table}_versions t
SEMI JOIN (FROM watched WHERE dataset = '{dataset}') w
    ON w.country = t.country AND w.company_number = t.company_number AND w.gone_in = t.valid_to

-- name: pairs_of_companies
-- A name in another language does not count as changed.
CREATE OR REPLACE TEMP VIEW names_before AS
FROM (SELECT *, {run} AS opened_by FROM companies_versions WHERE valid_to = {number})
SEMI JOIN (FROM runs WHERE language = '{language}') r ON r.run_id = opened_by
WHERE fetched_at IS NOT NULL

-- name: rows_of_financials
-- The periods that have a health indicator, in the order of recency in the view `accounts`; and the joint committees.
CREATE OR REPLACE TEMP TABLE {when}_health AS
SELECT country, company_number, start_date, end_date, health_indicator,
       row_number() OVER (
           PARTITION BY country, company_number ORDER BY end_date DESC, date_received DESC NULLS LAST, start_date
       ) AS recency
FROM (FROM {when}_financials
      QUALIFY row_number() OVER (
          PARTITION BY country, company_number, start_date, end_date
          ORDER BY date_received DESC NULLS LAST, dup_no DESC) = 1)
WHERE health_indicator IS NOT NULL;
CREATE OR REPLACE TEMP TABLE {when}_codes AS
SELECT country, company_number, start_date, end_date, dup_no,
       array_to_string(list_sort(list(DISTINCT coalesce(nullif(ltrim(code, '0'), ''), '0'))), ', ') AS codes
FROM {when}_financial_joint_committees GROUP BY ALL

-- name: pairs_of_financials
-- A filing is paired with the filing of the same period that was received on the same day. The others are paired in
-- order, because the service may change the date of a filing. A filing without a counterpart may have one in history.
CREATE OR REPLACE TEMP TABLE same_day AS
SELECT country, company_number, start_date, end_date, a.dup_no, b.dup_no AS old_no
FROM (SELECT *, row_number() OVER day AS nth FROM after_financials
      WINDOW day AS (PARTITION BY country, company_number, start_date, end_date, date_received ORDER BY dup_no)) a
JOIN (SELECT *, row_number() OVER day AS nth FROM before_financials
      WINDOW day AS (PARTITION BY country, company_number, start_date, end_date, date_received ORDER BY dup_no)) b
USING (country, company_number, start_date, end_date, nth)
WHERE a.date_received IS NOT DISTINCT FROM b.date_received;
CREATE OR REPLACE TEMP TABLE paired AS
FROM same_day
UNION ALL
SELECT country, company_number, start_date, end_date, a.dup_no, b.dup_no
FROM (SELECT *, row_number() OVER (PARTITION BY country, company_number, start_date, end_date ORDER BY dup_no) AS nth
      FROM after_financials ANTI JOIN same_day USING (country, company_number, start_date, end_date, dup_no)) a
JOIN (SELECT *, row_number() OVER (PARTITION BY country, company_number, start_date, end_date ORDER BY dup_no) AS nth
      FROM before_financials
      ANTI JOIN (SELECT country, company_number, start_date, end_date, old_no AS dup_no FROM same_day)
          USING (country, company_number, start_date, end_date, dup_no)) b
USING (country, company_number, start_date, end_date, nth);
CREATE OR REPLACE TEMP TABLE unpaired AS
SELECT country, company_number, start_date, end_date, date_received, dup_no
FROM after_financials ANTI JOIN paired USING (country, company_number, start_date, end_date, dup_no);
CREATE OR REPLACE TEMP TABLE filings AS
SELECT b.* REPLACE (p.dup_no AS dup_no), p.old_no
FROM before_financials b JOIN paired p
    ON (p.country, p.company_number, p.start_date, p.end_date, p.old_no)
     = (b.country, b.company_number, b.start_date, b.end_date, b.dup_no)
UNION ALL BY NAME
SELECT h.* REPLACE (u.dup_no AS dup_no), NULL AS old_no
FROM financials_versions h
JOIN unpaired u ON (u.country, u.company_number, u.start_date, u.end_date)
    = (h.country, h.company_number, h.start_date, h.end_date)
    AND u.date_received IS NOT DISTINCT FROM h.date_received
WHERE h.valid_to < {number}
QUALIFY row_number() OVER (
    PARTITION BY h.country, h.company_number, h.start_date, h.end_date, u.dup_no
    ORDER BY h.valid_to DESC, h.dup_no) = 1

-- name: rows_of_relationships
-- A party is identified by its number, or else by its name; all parties without both count as one. The view
-- `ownership` explains how several entries of a party are counted.
CREATE OR REPLACE TEMP TABLE {when}_holdings AS
SELECT country, company_number, direction, related_country, related_company_number, "function",
       coalesce(related_country || related_company_number, 'named ' || related_name, '') AS party,
       min(coalesce(related_identifier_name, related_name)) AS related_name,
       CASE WHEN party = '' THEN sum(stake_fraction) ELSE sum(DISTINCT stake_fraction) END AS stake
FROM {when}_relationships
GROUP BY country, company_number, direction, related_country, related_company_number, party, "function";
CREATE OR REPLACE TEMP TABLE {when}_parties AS
SELECT country, company_number, direction, party, related_country, related_company_number,
       min(related_name) AS related_name, string_agg("function", ', ' ORDER BY "function") AS "function",
       coalesce(max(stake) FILTER ("function" = 'SHAREHOLDER'), max(stake)) AS stake
FROM {when}_holdings
GROUP BY country, company_number, direction, party, related_country, related_company_number

-- name: rows_of_lookalikes
CREATE OR REPLACE TEMP TABLE {when}_ranks AS
SELECT country, company_number, lookalike_country AS related_country,
       lookalike_company_number AS related_company_number, min(rank) AS rank, min(rank) <= {watched} AS is_watched
FROM {when}_lookalikes GROUP BY ALL

-- name: none_yet
CREATE OR REPLACE TEMP TABLE events AS
SELECT * EXCLUDE (run_id, position), 0 AS kind_number FROM company_changes LIMIT 0

-- name: record
INSERT INTO company_changes BY NAME
SELECT * EXCLUDE (kind_number), ? AS run_id,
       row_number() OVER (
           PARTITION BY country, company_number
           ORDER BY kind_number, end_date DESC, start_date, dup_no, direction, related_country,
                    related_company_number, related_name, "function", old_value, new_value) - 1 AS position
FROM events
