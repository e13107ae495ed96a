-- Export EXPORT, for snowflake. Made by firmlake; run it with your own rights.

CREATE TABLE IF NOT EXISTS amounts (
  country VARCHAR NOT NULL,
  company_number VARCHAR NOT NULL,
  revenue NUMBER(18,2),
  employee_count NUMBER(38,0),
  score FLOAT,
  is_open BOOLEAN,
  received_on DATE,
  fetched_at TIMESTAMP_TZ NOT NULL,
  extra_json VARCHAR
);

COMMENT ON TABLE amounts IS 'A company\'s amounts. Key: country, company_number.';

COMMENT ON COLUMN amounts.country IS 'Country. Never null.';

COMMENT ON COLUMN amounts.company_number IS 'Number, as the service\'s files spell it. Never null.';

COMMENT ON COLUMN amounts.revenue IS 'Revenue. In the currency of the accounts, which is not stated. Null: not stated.';

COMMENT ON COLUMN amounts.employee_count IS 'Employees. Null: not stated.';

COMMENT ON COLUMN amounts.score IS 'Score. Null: not stated.';

COMMENT ON COLUMN amounts.is_open IS 'Whether it is open. Null: not stated.';

COMMENT ON COLUMN amounts.received_on IS 'Day. Null: not stated.';

COMMENT ON COLUMN amounts.fetched_at IS 'Time. Never null.';

COMMENT ON COLUMN amounts.extra_json IS 'Other values. Null: none.';

-- Add STORAGE_INTEGRATION = <yours>, or credentials.
CREATE OR REPLACE STAGE amounts_stage URL = 's3://b/p/exports/EXPORT/amounts/' FILE_FORMAT = (TYPE = PARQUET USE_LOGICAL_TYPE = TRUE);

BEGIN;

DELETE FROM amounts;

COPY INTO amounts (company_number, revenue, employee_count, score, is_open, received_on, fetched_at, extra_json, country)
FROM (SELECT $1:company_number::VARCHAR, $1:revenue::NUMBER(18,2), $1:employee_count::NUMBER(38,0), $1:score::FLOAT, $1:is_open::BOOLEAN, $1:received_on::DATE, $1:fetched_at::TIMESTAMP_TZ, $1:extra_json::VARCHAR, REGEXP_SUBSTR(METADATA$FILENAME, 'country=([A-Z]+)', 1, 1, 'e') FROM @amounts_stage)
FORCE = TRUE;

COMMIT;

CREATE TABLE IF NOT EXISTS runs (
  run_id VARCHAR NOT NULL
);

COMMENT ON TABLE runs IS 'Runs. Key: run_id.';

COMMENT ON COLUMN runs.run_id IS 'Run. Never null.';

-- Add STORAGE_INTEGRATION = <yours>, or credentials.
CREATE OR REPLACE STAGE runs_stage URL = 's3://b/p/exports/EXPORT/runs/' FILE_FORMAT = (TYPE = PARQUET USE_LOGICAL_TYPE = TRUE);

BEGIN;

DELETE FROM runs;

COPY INTO runs (run_id)
FROM (SELECT $1:run_id::VARCHAR FROM @runs_stage)
FORCE = TRUE;

COMMIT;

CREATE TABLE IF NOT EXISTS nothing (
  run_id VARCHAR NOT NULL
);

COMMENT ON TABLE nothing IS 'No rows. Key: run_id.';

COMMENT ON COLUMN nothing.run_id IS 'Run. Never null.';
