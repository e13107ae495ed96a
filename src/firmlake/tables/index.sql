-- name: tables
CREATE TABLE run(number INTEGER PRIMARY KEY, name TEXT UNIQUE, mark TEXT, position INTEGER UNIQUE);
CREATE TABLE said(
    company INTEGER, dataset INTEGER, status TEXT, record_count INTEGER, reject_count INTEGER, at INTEGER,
    run INTEGER, is_left_out INTEGER, PRIMARY KEY (company, dataset)
) WITHOUT ROWID;
CREATE TABLE answered(run INTEGER, dataset INTEGER, company INTEGER, PRIMARY KEY (run, dataset, company)) WITHOUT ROWID;
CREATE TABLE purchase(company INTEGER, at INTEGER, run INTEGER, PRIMARY KEY (company, at)) WITHOUT ROWID;
CREATE TABLE charge(run INTEGER, at INTEGER, credits INTEGER);
CREATE INDEX charge_at ON charge(at);
CREATE INDEX purchase_run ON purchase(run);

-- name: leave_out_inside
DELETE FROM temp.paid WHERE EXISTS (
    SELECT 1 FROM purchase p WHERE p.company = paid.company AND p.at <= paid.at AND paid.at < p.at + :window
) AND :run

-- name: drop_later
DELETE FROM purchase WHERE EXISTS (
    SELECT 1 FROM temp.paid WHERE paid.company = purchase.company
    AND paid.at < purchase.at AND purchase.at < paid.at + :window
) AND :run

-- name: buy
INSERT INTO purchase SELECT company, at, :run FROM temp.paid WHERE :window

-- name: say
-- 1 company, 2 dataset, 3 status, 4 records, 5 rejects, 6 time, 7 whether it was left out, 8 run; 9 the latest time that
-- is no wrong clock, 10 when the run started.
-- - A run that was killed before its publish may resume after another run has fetched newer answers.
-- - If an attempt failed or was not made, the row still describes the held answer; only status and run are new.
-- - An answer dated in the future is replaced by any other answer, because a wrong clock dated it.
INSERT INTO said(company, dataset, status, record_count, reject_count, at, is_left_out, run)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
ON CONFLICT (company, dataset) DO UPDATE SET
    status = ?3, run = ?8, is_left_out = ?7,
    record_count = iif(?3 IN ('reported', 'empty', 'not_found'), ?4, record_count),
    reject_count = iif(?3 IN ('reported', 'empty', 'not_found'), ?5, reject_count),
    at = iif(?3 IN ('reported', 'empty', 'not_found'), ?6, at)
WHERE NOT coalesce(said.at <= ?9 AND (?6 < said.at OR ?6 > ?9 OR ?3 = 'waiting' AND said.at >= ?10), 0)

-- name: answered_by
SELECT company, dataset FROM answered WHERE run = (SELECT number FROM run WHERE name = :run)
