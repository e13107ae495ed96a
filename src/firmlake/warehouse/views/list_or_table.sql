-- function list_or_table(relation_name)
-- The name of the view of a company list, if there is a list of that name; any other name is returned unchanged. Each
-- load makes this function again, with the lists known by then.
relation_name
