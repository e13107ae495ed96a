-- Export EXPORT, for redshift. Made by firmlake; run it with your own rights.

CREATE TABLE IF NOT EXISTS amounts (
  "country" VARCHAR(MAX) NOT NULL,
  "company_number" VARCHAR(MAX) NOT NULL,
  "revenue" DECIMAL(18,2),
  "employee_count" BIGINT,
  "score" DOUBLE PRECISION,
  "is_open" BOOLEAN,
  "received_on" DATE,
  "fetched_at" TIMESTAMP NOT NULL,
  "extra_json" VARCHAR(MAX)
);

COMMENT ON TABLE amounts IS 'A company\'s amounts. Key: country, company_number.';

COMMENT ON COLUMN amounts."country" IS 'Country. Never null.';

COMMENT ON COLUMN amounts."company_number" IS 'Number, as the service\'s files spell it. Never null.';

COMMENT ON COLUMN amounts."revenue" IS 'Revenue. In the currency of the accounts, which is not stated. Null: not stated.';

COMMENT ON COLUMN amounts."employee_count" IS 'Employees. Null: not stated.';

COMMENT ON COLUMN amounts."score" IS 'Score. Null: not stated.';

COMMENT ON COLUMN amounts."is_open" IS 'Whether it is open. Null: not stated.';

COMMENT ON COLUMN amounts."received_on" IS 'Day. Null: not stated.';

COMMENT ON COLUMN amounts."fetched_at" IS 'Time. Never null.';

COMMENT ON COLUMN amounts."extra_json" IS 'Other values. Null: none.';

CREATE TEMP TABLE load_amounts (
  "company_number" VARCHAR(MAX),
  "revenue" DECIMAL(18,2),
  "employee_count" BIGINT,
  "score" DOUBLE PRECISION,
  "is_open" BOOLEAN,
  "received_on" DATE,
  "fetched_at" TIMESTAMP,
  "extra_json" VARCHAR(MAX)
);

BEGIN;

DELETE FROM amounts;

COPY load_amounts
FROM 's3://b/p/exports/EXPORT/amounts/country=BE/'
IAM_ROLE DEFAULT
FORMAT AS PARQUET;

INSERT INTO amounts ("country", "company_number", "revenue", "employee_count", "score", "is_open", "received_on", "fetched_at", "extra_json")
SELECT 'BE', "company_number", "revenue", "employee_count", "score", "is_open", "received_on", "fetched_at", "extra_json" FROM load_amounts;

DELETE FROM load_amounts;

COPY load_amounts
FROM 's3://b/p/exports/EXPORT/amounts/country=FR/'
IAM_ROLE DEFAULT
FORMAT AS PARQUET;

INSERT INTO amounts ("country", "company_number", "revenue", "employee_count", "score", "is_open", "received_on", "fetched_at", "extra_json")
SELECT 'FR', "company_number", "revenue", "employee_count", "score", "is_open", "received_on", "fetched_at", "extra_json" FROM load_amounts;

DELETE FROM load_amounts;

COMMIT;

DROP TABLE load_amounts;

CREATE TABLE IF NOT EXISTS runs (
  "run_id" VARCHAR(MAX) NOT NULL
);

COMMENT ON TABLE runs IS 'Runs. Key: run_id.';

COMMENT ON COLUMN runs."run_id" IS 'Run. Never null.';

CREATE TEMP TABLE load_runs (
  "run_id" VARCHAR(MAX)
);

BEGIN;

DELETE FROM runs;

COPY load_runs
FROM 's3://b/p/exports/EXPORT/runs/'
IAM_ROLE DEFAULT
FORMAT AS PARQUET;

INSERT INTO runs ("run_id")
SELECT "run_id" FROM load_runs;

DELETE FROM load_runs;

COMMIT;

DROP TABLE load_runs;

CREATE TABLE IF NOT EXISTS nothing (
  "run_id" VARCHAR(MAX) NOT NULL
);

COMMENT ON TABLE nothing IS 'No rows. Key: run_id.';

COMMENT ON COLUMN nothing."run_id" IS 'Run. Never null.';
