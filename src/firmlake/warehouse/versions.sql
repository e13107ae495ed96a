-- name: held
CREATE OR REPLACE TEMP TABLE held AS
SELECT t.rowid AS held_row, {nth} AS nth, {columns}
FROM {versions} t SEMI JOIN {answered} a USING ({scope}) WHERE valid_to IS NULL

-- name: offered
-- Keys without a held row need no comparison. Rows are numbered, because their row ids change with the next commit.
CREATE OR REPLACE TEMP TABLE offered AS
SELECT row_number() OVER () AS offered_row, {nth} AS nth, {columns}
FROM {staged} s SEMI JOIN held USING ({scope})

-- name: kept
CREATE OR REPLACE TEMP TABLE kept AS
SELECT held_row, offered_row
FROM held h JOIN offered o ON h.nth = o.nth AND {same}

-- name: closing
CREATE OR REPLACE TEMP TABLE closing AS
SELECT held_row FROM held h ANTI JOIN kept USING (held_row) WHERE NOT ({retained})

-- name: close
UPDATE {versions} SET valid_to = {number}
WHERE rowid IN (SELECT held_row FROM closing WHERE held_row BETWEEN {first} AND {last})

-- name: make_room
-- The position of unreadable rows in the answer is unknown, so retained rows move after all others.
UPDATE {versions} t SET position = t.position + o.height
FROM (SELECT {scope}, max(position) + 1 AS height FROM {staged} GROUP BY {scope}) o
WHERE {same} AND t.valid_to IS NULL AND t.rowid IN (SELECT held_row FROM held ANTI JOIN kept USING (held_row))

-- name: insert_all
-- A first load writes its rows straight into the table.
INSERT INTO {versions} BY NAME SELECT {columns}, {number} AS valid_from FROM {staged} s {among}

-- name: unheld
-- Two inserts and a separate table for the keys, so that each join fits into memory together with the rows it writes.
CREATE OR REPLACE TEMP TABLE unheld AS
SELECT {scope} FROM {answered} a ANTI JOIN held USING ({scope})

-- name: insert_unheld
INSERT INTO {versions} BY NAME
SELECT {columns}, {number} AS valid_from FROM {staged} s SEMI JOIN unheld USING ({scope})

-- name: insert_offered
INSERT INTO {versions} BY NAME
SELECT {columns}, {number} AS valid_from FROM offered o ANTI JOIN kept USING (offered_row)

-- name: close_merged
UPDATE {table}_versions SET valid_to = {number}
WHERE rowid IN (SELECT held_row FROM merged_{table} WHERE NOT is_same)

-- name: insert_merged
INSERT INTO {table}_versions BY NAME
SELECT {columns}, if(is_same, held_since, {number}) AS valid_from FROM merged_{table}

-- name: known
-- Each load, and the time from which its content was known: the last answer of this load and all loads before it, so
-- that a run that was loaded late is not dated back. Other loads, such as an overview, have the time in their name.
SELECT run_id, generation, row_number() OVER (ORDER BY generation) AS number,
       max(ended_at) OVER (ORDER BY generation) AS known_at
FROM (SELECT run_id, generation, coalesce(finished_at, try_strptime(run_id[:16], '%Y%m%dT%H%M%SZ')) AS ended_at
      FROM loads LEFT JOIN runs USING (run_id))

-- name: runs_as_of
SELECT run_id FROM (SELECT generation_at(moment) AS newest) asked
JOIN (SELECT run_id, min(generation) AS first_generation FROM loads GROUP BY run_id) ON first_generation <= newest

-- name: as_of
SELECT {columns}, {run} AS valid_from_run
FROM (SELECT count(*) AS newest FROM (SELECT generation_at(moment) AS last) JOIN loads ON generation <= last) asked
JOIN {table}_versions ON valid_from <= newest AND coalesce(valid_to > newest, true)

-- name: known_on
-- Versions of a period compete. So do overlapping periods that were never in the same answer, because correcting the
-- dates closes one period and adds another. The version received last wins. Of versions received on the same day, the
-- one held on the requested day wins, or else the one first seen after it. Only closed rows can have such a successor.
WITH asked AS (SELECT day::DATE AS last_day),
best AS MATERIALIZED (
    SELECT f.*, greatest(b.known_at, last_day + INTERVAL 1 DAY) AS seen_at
    FROM financials_versions f
    JOIN ({known}) b ON b.number = f.valid_from
    LEFT JOIN ({known}) e ON e.number = f.valid_to
    JOIN asked ON date_received <= last_day
    WHERE e.known_at IS NULL OR e.known_at >= last_day + INTERVAL 1 DAY
    QUALIFY row_number() OVER (
        PARTITION BY country, company_number, start_date, end_date
        ORDER BY date_received DESC, seen_at, dup_no DESC, valid_from) = 1
),
vanished AS (
    SELECT country, company_number
    FROM company_state_versions s
    JOIN ({known}) b ON b.number = s.valid_from
    LEFT JOIN ({known}) e ON e.number = s.valid_to
    JOIN asked ON b.known_at < last_day + INTERVAL 1 DAY
    WHERE dataset = 'financials' AND payload_hash = ''
        AND (e.known_at IS NULL OR e.known_at >= last_day + INTERVAL 1 DAY)
),
beaten AS (
    SELECT unnest(CASE WHEN n.date_received > o.date_received THEN o.period ELSE n.period END)
    FROM (SELECT *, {period} AS period FROM best WHERE valid_to IS NOT NULL) o
    JOIN (SELECT *, {period} AS period FROM best) n
        ON n.country = o.country AND n.company_number = o.company_number AND n.valid_from >= o.valid_to
    WHERE 2 * (least(o.end_date, n.end_date) - greatest(o.start_date, n.start_date) + 1)
          > least(o.end_date - o.start_date, n.end_date - n.start_date) + 1
)
SELECT {columns}, {run} AS valid_from_run
FROM best f
ANTI JOIN beaten USING (country, company_number, start_date, end_date)
ANTI JOIN vanished USING (country, company_number)
