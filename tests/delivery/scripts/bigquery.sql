-- Export EXPORT, for bigquery. Made by firmlake; run it with your own rights.

CREATE TABLE IF NOT EXISTS amounts (
  `country` STRING OPTIONS (description = 'Country. Never null.'),
  `company_number` STRING NOT NULL OPTIONS (description = 'Number, as the service\'s files spell it. Never null.'),
  `revenue` NUMERIC(18,2) OPTIONS (description = 'Revenue. In the currency of the accounts, which is not stated. Null: not stated.'),
  `employee_count` INT64 OPTIONS (description = 'Employees. Null: not stated.'),
  `score` FLOAT64 OPTIONS (description = 'Score. Null: not stated.'),
  `is_open` BOOL OPTIONS (description = 'Whether it is open. Null: not stated.'),
  `received_on` DATE OPTIONS (description = 'Day. Null: not stated.'),
  `fetched_at` TIMESTAMP NOT NULL OPTIONS (description = 'Time. Never null.'),
  `extra_json` STRING OPTIONS (description = 'Other values. Null: none.')
) OPTIONS (description = 'A company\'s amounts. Key: country, company_number.');

LOAD DATA OVERWRITE amounts
WITH PARTITION COLUMNS (country STRING)
FROM FILES (format = 'PARQUET', uris = ['gs://b/p/exports/EXPORT/amounts/*'], hive_partition_uri_prefix = 'gs://b/p/exports/EXPORT/amounts');

CREATE TABLE IF NOT EXISTS runs (
  `run_id` STRING NOT NULL OPTIONS (description = 'Run. Never null.')
) OPTIONS (description = 'Runs. Key: run_id.');

LOAD DATA OVERWRITE runs
FROM FILES (format = 'PARQUET', uris = ['gs://b/p/exports/EXPORT/runs/*']);

CREATE TABLE IF NOT EXISTS nothing (
  `run_id` STRING NOT NULL OPTIONS (description = 'Run. Never null.')
) OPTIONS (description = 'No rows. Key: run_id.');
