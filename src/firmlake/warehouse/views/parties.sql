-- table parties
-- One row per company or person in ownership, with its name.
--
-- no: Number of the party, 1 for the first id. Stakes are followed by number, because numbers take less memory than ids
-- and are compared faster. The next load may number parties differently
-- id: Id of the company or person, as parent_id and child_id in ownership
-- country: Country of the company. Null: it has no identifier
-- company_number: Company number in normal form. Null: it has no identifier
-- name: Name of the company or person, or (unidentified)
-- kind: Kind of party: company, named_party or anonymous; an owned company without an identifier counts as named_party
SELECT
    (row_number() OVER (ORDER BY id))::INTEGER AS no,
    id,
    any_value(country) AS country,
    any_value(company_number) AS company_number,
    max(name) AS name,
    min(kind) AS kind
FROM (
    SELECT parent_id AS id, parent_country AS country, parent_company_number AS company_number, parent_name AS name,
        parent_kind AS kind
    FROM ownership
    UNION ALL
    SELECT child_id, child_country, child_company_number, child_name,
        CASE WHEN child_country IS NULL THEN 'named_party' ELSE 'company' END
    FROM ownership
)
GROUP BY id
