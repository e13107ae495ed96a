-- macro financials_known_on(day)
-- example: financials_known_on(DATE '2026-01-31')
-- One row per financial period whose accounts were received on or before a day, for back-tests: the filing received
-- last by then, as the warehouse held it on that day, or as firmlake first saw it if the first answer came later.
-- Periods without date_received are left out, and so are companies that the service did not find on that day. Of two
-- periods that overlap by more than half of the shorter one and were never in the same answer, only one is there. What
-- cannot be known: which companies the service knew before the first run, and a day of receipt that a later answer
-- corrected. Without position.
--
-- fetched_at: When the answer was received, UTC
-- run_id: Run that fetched the row
WITH asked AS (SELECT day::DATE AS last_day),
best AS MATERIALIZED (
    -- Versions of a period compete. So do overlapping periods that were never in the same answer, because correcting the
    -- dates closes one period and adds another. The version received last wins. Of versions received on the same day, the
    -- one held on the requested day wins, or else the one first seen after it. Only closed rows can have such a successor.
    SELECT
        f.*,
        greatest(b.known_at, last_day + INTERVAL 1 DAY) AS seen_at,
        {'country': country, 'company_number': company_number, 'start_date': start_date, 'end_date': end_date} AS period
    FROM financials_versions f
    JOIN load_times b ON b.number = f.valid_from
    LEFT JOIN load_times e ON e.number = f.valid_to
    JOIN asked ON date_received <= last_day
    WHERE e.known_at IS NULL OR e.known_at >= last_day + INTERVAL 1 DAY
    QUALIFY row_number() OVER (
        PARTITION BY country, company_number, start_date, end_date
        ORDER BY date_received DESC, seen_at, dup_no DESC, valid_from) = 1
),
vanished AS (
    SELECT country, company_number
    FROM company_state_versions s
    JOIN load_times b ON b.number = s.valid_from
    LEFT JOIN load_times e ON e.number = s.valid_to
    JOIN asked ON b.known_at < last_day + INTERVAL 1 DAY
    WHERE dataset = 'financials' AND payload_hash = ''
        AND (e.known_at IS NULL OR e.known_at >= last_day + INTERVAL 1 DAY)
),
beaten AS (
    SELECT unnest(CASE WHEN n.date_received > o.date_received THEN o.period ELSE n.period END)
    FROM (FROM best WHERE valid_to IS NOT NULL) o
    JOIN best n
        ON n.country = o.country AND n.company_number = o.company_number AND n.valid_from >= o.valid_to
    WHERE 2 * (least(o.end_date, n.end_date) - greatest(o.start_date, n.start_date) + 1)
          > least(o.end_date - o.start_date, n.end_date - n.start_date) + 1
)
SELECT
    f.* EXCLUDE (position, valid_from, valid_to, seen_at, period),
    (SELECT list(run_id ORDER BY generation) FROM loads)[f.valid_from] AS valid_from_run
FROM best f
ANTI JOIN beaten USING (country, company_number, start_date, end_date)
ANTI JOIN vanished USING (country, company_number)
