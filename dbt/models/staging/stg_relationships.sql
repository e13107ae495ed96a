-- One row for each parent or child of a company; related_company is null if the party has no company number.
SELECT
    country || ' ' || company_number AS company,
    direction,
    position,
    related_country || ' ' || related_company_number AS related_company,
    related_name,
    function,
    stake_fraction
FROM {{ source("firmlake", "relationships") }}
