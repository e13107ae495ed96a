-- One row for each day that accounts end on, which metrics over time need.
SELECT DISTINCT CAST(end_date AS date) AS date_day
FROM {{ ref("stg_accounts") }}
