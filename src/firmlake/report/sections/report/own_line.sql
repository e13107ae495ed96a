-- table: No member of a drawn group comes before the others.
SELECT no FROM parties WHERE false
