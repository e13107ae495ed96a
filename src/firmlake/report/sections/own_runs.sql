-- table: The runs of the list that the page is about; all runs if it is about all companies.
FROM runs WHERE getvariable('company_list') IS NULL OR run_id IN (
    SELECT run_id FROM company_lists WHERE list_name = getvariable('company_list')
    UNION ALL SELECT run_id FROM company_lists_history WHERE list_name = getvariable('company_list')
)
