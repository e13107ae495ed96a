-- function generation_at(moment)
-- Number of the newest generation at a moment: a run, or a time, which counts runs whose last answers came by then. A
-- time is in UTC unless it has an offset or a zone, a day is its first moment, and now or later counts every run.
(SELECT coalesce(
    (SELECT max(generation) FROM loads WHERE run_id = asked.text),
    CASE WHEN asked.time IS NOT NULL THEN coalesce(
        (SELECT max(generation) FROM load_times
         WHERE known_at <= asked.time OR asked.time >= make_timestamp(epoch_us(now()))), 0) END,
    error(asked.text || ' is neither a run of this warehouse nor a time. Use a run_id of the table runs, or a '
        || 'time such as 2026-01-31'))
FROM (
    SELECT
        text,
        CASE WHEN regexp_full_match(text, '[-0-9]+([ T][0-9:.]+)?')
            THEN try_cast(text AS TIMESTAMP)
            ELSE make_timestamp(epoch_us(try_cast(regexp_replace(upper(text), ' ([+-])', '\1') AS TIMESTAMPTZ)))
        END AS time
    FROM (SELECT moment::VARCHAR AS text)
) asked)
