-- Export EXPORT, for databricks. Made by firmlake; run it with your own rights.

CREATE TABLE IF NOT EXISTS amounts (
  `country` STRING NOT NULL COMMENT 'Country. Never null.',
  `company_number` STRING NOT NULL COMMENT 'Number, as the service\'s files spell it. Never null.',
  `revenue` DECIMAL(18,2) COMMENT 'Revenue. In the currency of the accounts, which is not stated. Null: not stated.',
  `employee_count` BIGINT COMMENT 'Employees. Null: not stated.',
  `score` DOUBLE COMMENT 'Score. Null: not stated.',
  `is_open` BOOLEAN COMMENT 'Whether it is open. Null: not stated.',
  `received_on` DATE COMMENT 'Day. Null: not stated.',
  `fetched_at` TIMESTAMP NOT NULL COMMENT 'Time. Never null.',
  `extra_json` STRING COMMENT 'Other values. Null: none.'
) COMMENT 'A company\'s amounts. Key: country, company_number.';

INSERT OVERWRITE TABLE amounts BY NAME
SELECT `country`, `company_number`, `revenue`, `employee_count`, `score`, `is_open`, `received_on`, `fetched_at`, `extra_json` FROM read_files('s3://b/p/exports/EXPORT/amounts/', format => 'parquet', schemaHints => 'country STRING');

CREATE TABLE IF NOT EXISTS runs (
  `run_id` STRING NOT NULL COMMENT 'Run. Never null.'
) COMMENT 'Runs. Key: run_id.';

INSERT OVERWRITE TABLE runs BY NAME
SELECT `run_id` FROM read_files('s3://b/p/exports/EXPORT/runs/', format => 'parquet');

CREATE TABLE IF NOT EXISTS nothing (
  `run_id` STRING NOT NULL COMMENT 'Run. Never null.'
) COMMENT 'No rows. Key: run_id.';
