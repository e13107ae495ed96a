-- table branches_at_half
-- The rows of group_branches(0.5). A table made at load, because queries about the owners and groups of all companies
-- need them.
FROM group_branches()
