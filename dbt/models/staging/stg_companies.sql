-- One row for each company ever accepted from a list, with its key in one column.
SELECT
    country || ' ' || company_number AS company,
    country,
    company_number,
    name,
    place
FROM {{ source("firmlake", "companies") }}
