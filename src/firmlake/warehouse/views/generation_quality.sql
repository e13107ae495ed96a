-- view generation_quality
-- One row for each generation and what was measured of it when it was made. Without gates these are fill rates alone.
--
-- generation: Number of the generation
-- run_id: Run that the generation was made for
-- kind: fill (share of the held periods with a value in a column of financials, in per cent), findings (number of a
-- severity) or gate
-- name: Name of the column, severity or gate
-- list_name: Name of the company list that the gate is for. Null: all companies
-- value: What was measured; for a gate, the number of rows, or their share in per cent. Null: there is nothing to measure
-- publish_if: What the gate wanted of the value. Null: it is no gate
-- last_value: The same of the generation published before. Null: the gate does not compare with it, or there was none
-- is_failed: Whether the gate failed, so that the generation was held back
-- says: Text of the gate. Null: it is no gate
SELECT
    generation, run_id, published_at, m.kind, m.name, m.list_name, m.value, m.publish_if, m.last_value,
    coalesce(m.is_failed, false) AS is_failed, m.says
FROM (
    SELECT
        generation, run_id, published_at,
        unnest(json_transform(measures, '[{"kind": "VARCHAR", "name": "VARCHAR", "list_name": "VARCHAR", "value": "DOUBLE",
            "publish_if": "VARCHAR", "last_value": "DOUBLE", "is_failed": "BOOLEAN", "says": "VARCHAR"}]')) AS m
    FROM loads
    WHERE measures IS NOT NULL
)
