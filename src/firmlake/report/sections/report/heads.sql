-- table: The groups that are drawn: the three with most members.
SELECT no, is_ring, member_count, 3 AS steps FROM group_sizes JOIN parties ON id = head_id
ORDER BY member_count DESC, no LIMIT 3
