-- table branches_at_half
-- The rows of group_branches(0.5).
FROM group_branches()
