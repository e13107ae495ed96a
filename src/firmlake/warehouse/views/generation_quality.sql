-- view generation_quality
-- One row per generation and measurement: fill rates; if there are gates, also findings and gates.
--
-- kind: fill, findings or gate
-- name: Column of financials, severity of the findings, or name of the gate
-- list_name: Company list of the gate. Null: none
-- value: Per cent of the held periods with a value; number of findings; count or per cent of the gate. Null: no data
-- publish_if: What the gate wants. Null: no gate
-- last_value: Value of the generation published before, if the gate compares with it. Null: none
-- is_failed: Whether the gate failed, which held the generation back
-- says: Text of the gate. Null: no gate
SELECT
    generation, m.kind, m.name, m.list_name, m.value, m.publish_if, m.last_value,
    coalesce(m.is_failed, false) AS is_failed, m.says
FROM (
    SELECT
        generation,
        unnest(json_transform(measurements, '[{"kind": "VARCHAR", "name": "VARCHAR", "list_name": "VARCHAR", "value": "DOUBLE",
            "publish_if": "VARCHAR", "last_value": "DOUBLE", "is_failed": "BOOLEAN", "says": "VARCHAR"}]')) AS m
    FROM loads
    WHERE measurements IS NOT NULL
)
