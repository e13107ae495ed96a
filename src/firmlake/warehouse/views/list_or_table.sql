-- function list_or_table(relation_name)
-- The view of a company list where there is a list of that name, and any other name as it is. Made at each load, when the
-- lists are known.
relation_name
