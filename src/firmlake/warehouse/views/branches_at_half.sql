-- table branches_at_half
-- The rows of group_branches(0.5). Made at load, step by step, since questions about owners and groups of all companies need
-- them.
FROM group_branches()
