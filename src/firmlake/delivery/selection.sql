-- name: as_of
SELECT {columns} FROM {table}_as_of({run_id})
-- name: as_of_run
-- A table whose rows belong to the run that wrote them.
SELECT {columns} FROM {table} WHERE run_id IN (SELECT run_id FROM runs_as_of({run_id}))
-- name: changes
-- The rows in which the newest generation differs from the one attached as `base`.
SELECT if(o.{first_key} IS NULL, 'insert', 'update') AS change_type, {new_columns}
FROM {table} n LEFT JOIN base.{table} o ON {same_key} WHERE n IS DISTINCT FROM o
UNION ALL
SELECT 'delete' AS change_type, {old_columns} FROM base.{table} o ANTI JOIN {table} n ON {same_key}
