-- title: Charts of the largest groups
-- chapter: Groups
-- chart: groups
-- Up to twenty members within three steps of the head. The number on a line is the stake. We hold no accounts of
-- members with a dashed border.
FROM group_members ORDER BY member_count DESC, head_no, depth, stake DESC, no
