-- name: tables
CREATE TABLE run(number INTEGER PRIMARY KEY, name TEXT UNIQUE, mark TEXT, position INTEGER UNIQUE);
CREATE TABLE said(
    company INTEGER, dataset INTEGER, status TEXT, record_count INTEGER, reject_count INTEGER, fetched_at INTEGER,
    run INTEGER, is_left_out INTEGER, PRIMARY KEY (company, dataset)
) WITHOUT ROWID;
CREATE TABLE answered(run INTEGER, dataset INTEGER, company INTEGER, PRIMARY KEY (run, dataset, company)) WITHOUT ROWID;
CREATE TABLE purchase(company INTEGER, at INTEGER, run INTEGER, PRIMARY KEY (company, at)) WITHOUT ROWID;
CREATE TABLE charge(run INTEGER, at INTEGER, credits INTEGER);
CREATE INDEX charge_at ON charge(at);
CREATE INDEX purchase_run ON purchase(run, at);

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

-- name: is_answer
-- Whether a verdict describes an answer. If an attempt failed or was not made, only status and run are new.
{new}.status IN ('reported', 'empty', 'not_found')

-- name: is_outdated
-- Whether a verdict changes nothing, because the held answer is newer: a run that was killed before its publish may resume
-- after another run has fetched newer answers. One dated after `latest` has its date from a wrong clock: any other answer
-- replaces it. `started` is when the run of the new verdict began.
coalesce({held}.fetched_at <= {latest} AND (
    {new}.fetched_at < {held}.fetched_at OR {new}.fetched_at > {latest}
    OR {new}.status = 'waiting' AND {held}.fetched_at >= {started}
), false)

-- name: say
INSERT INTO said(company, dataset, status, record_count, reject_count, fetched_at, is_left_out, run)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
ON CONFLICT (company, dataset) DO UPDATE SET
    status = excluded.status, run = excluded.run, is_left_out = excluded.is_left_out,
    record_count = iif({is_answer}, excluded.record_count, record_count),
    reject_count = iif({is_answer}, excluded.reject_count, reject_count),
    fetched_at = iif({is_answer}, excluded.fetched_at, fetched_at)
WHERE NOT {is_outdated}

-- name: answered_by
SELECT company, dataset, EXISTS (SELECT 1 FROM purchase p WHERE p.company = a.company) AS is_bought
FROM answered a WHERE run = (SELECT number FROM run WHERE name = :run)
