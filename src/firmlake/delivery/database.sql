-- name: delete_others
DELETE FROM {table} WHERE NOT EXISTS (SELECT 1 FROM {staged} WHERE {same_row})
-- name: insert_missing
INSERT INTO {table} ({columns}) SELECT {columns} FROM {staged}
WHERE NOT EXISTS (SELECT 1 FROM {table} WHERE {same_key})
-- name: delete_changed
DELETE FROM {table} WHERE EXISTS (SELECT 1 FROM {staged} WHERE {same_key})
-- name: insert_changed
INSERT INTO {table} ({columns}) SELECT {columns} FROM {staged} WHERE change_type <> 'delete'
