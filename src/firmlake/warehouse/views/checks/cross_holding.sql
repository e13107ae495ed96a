-- check cross_holding, note
-- A company holds shares of one of its own shareholders.
SELECT o.child_country AS country, o.child_company_number AS company_number,
    NULL::DATE AS start_date, NULL::DATE AS end_date,
    {shareholder: o.parent_name, shareholder_id: o.parent_id, stake_fraction: o.stake_fraction,
     stake_in_it: back.stake_fraction} AS evidence
FROM ownership o
JOIN ownership back ON back.parent_id = o.child_id AND back.child_id = o.parent_id
WHERE o.parent_id <> o.child_id AND o."function" = 'SHAREHOLDER' AND back."function" = 'SHAREHOLDER'
