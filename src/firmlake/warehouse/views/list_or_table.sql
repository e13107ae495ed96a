-- function list_or_table(relation_name)
-- The view of a company list if there is a list of that name; any other name is returned unchanged. Made again at each
-- load, when the lists are known.
relation_name
