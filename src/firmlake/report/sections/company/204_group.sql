-- title: Group
-- chapter: Owners and group
-- chart: groups
-- Up to twenty members, reached through stakes of at least 50 %; those on the way to this company first. The number on
-- a line is the stake. We hold no accounts of members with a dashed border.
FROM group_members ORDER BY member_count DESC, head_no, depth, stake DESC, no
