-- check stake_range, error
-- The answer about the owner or the owned company states a stake below 0 or above 1.
SELECT child_country AS country, child_company_number AS company_number,
    NULL::DATE AS start_date, NULL::DATE AS end_date,
    {owner: parent_name, owner_id: parent_id, "function": "function", stake_by_child: stake_by_child,
     stake_by_parent: stake_by_parent} AS evidence
FROM ownership
WHERE stake_by_child NOT BETWEEN 0 AND 1 OR stake_by_parent NOT BETWEEN 0 AND 1
