-- check stake_conflict, warning
-- Owner and owned company state different stakes, or one of them does not name the other although both were fetched.
SELECT child_country AS country, child_company_number AS company_number,
    NULL::DATE AS start_date, NULL::DATE AS end_date,
    {owner: parent_name, owner_id: parent_id, "function": "function", conflict: conflict,
     stake_by_child: stake_by_child, stake_by_parent: stake_by_parent} AS evidence
FROM ownership
WHERE conflict IS NOT NULL AND child_company_number IS NOT NULL
