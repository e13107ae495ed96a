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
