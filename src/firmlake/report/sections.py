"""The sections of the report in order: titles, explanations and queries.

The name of a column decides how it is shown: fraction, growth or margin at its end makes it a percentage, and `depth`
indents the row.
"""

from __future__ import annotations

from firmlake.report.groups import GROUPS
from firmlake.report.health import HEALTH
from firmlake.report.section import Section

__all__ = ["COUNT_FINDINGS", "GROUP_MEMBERS", "PREPARE", "SECTIONS", "TILES", "TOO_LARGE"]

PREPARE = """
    CREATE OR REPLACE TEMP TABLE shown AS SELECT *, name AS company FROM portfolio;
    CREATE OR REPLACE TEMP TABLE last_run AS SELECT max_by(run_id, finished_at) AS run_id FROM runs;
    CREATE OR REPLACE TEMP TABLE due (day DATE, credits BIGINT, free_refreshes BIGINT);
    CREATE OR REPLACE TEMP TABLE found (severity TEXT, check_name TEXT, what TEXT, found BIGINT);
"""
"""Several sections use portfolio and groups, which take a minute for a million companies, so they are computed once."""

GROUP_MEMBERS = "CREATE OR REPLACE TEMP {} members AS FROM groups(0.5)"
"""Created as a TABLE. If that takes too much memory, as a VIEW, so that only the sections on groups fail."""

TOO_LARGE = "Not computed: it takes more memory than run.duckdb_memory."
"""Shown instead of a section that is too costly, for a very large ownership graph or warehouse."""

COUNT_FINDINGS = "INSERT INTO found SELECT ?, ?, ?, count(*) FROM ({})"
"""Checks are counted one by one: the view `findings`, which runs all of them, needs several times the memory."""

TILES = """
    SELECT
        (SELECT count(*) FROM companies) AS companies,
        (SELECT count(*) FROM shown) AS "with accounts",
        (SELECT replace(max_by(outcome, finished_at), '_', ' ') FROM runs) AS "last run",
        (SELECT sum(credit_count)::BIGINT FROM runs) AS "credits charged",
        (SELECT sum(free_refresh_count)::BIGINT FROM runs) AS "credits saved",
        (SELECT arg_max(credits_remaining, fetched_at) FROM requests) AS "credits left",
        (SELECT count(*) FROM company_state WHERE status IN ('failed', 'forbidden', 'unavailable'))
            AS "failed datasets",
        (SELECT coalesce(sum(found), 0)::BIGINT FROM found WHERE severity = 'error') AS "findings: errors"
"""

SECTIONS = (
    Section(
        "What the runs did",
        "Unexplained bills",
        "Runs for which the service charged more or less than our ledger expects. Ask the service before the next run.",
        """
        SELECT started_at::TIMESTAMP_S AS started, run_id AS run, credit_count AS credits,
            expected_credit_count AS expected_credits, bill
        FROM spend WHERE unexplained_credit_count <> 0 ORDER BY started_at DESC LIMIT 10
        """,
    ),
    Section(
        "",
        "Runs",
        "The last five. Our ledger expects one credit for each company found outside its paid window.",
        """
        SELECT started_at::TIMESTAMP_S AS started, list_name, outcome, company_count AS companies,
            target_count AS asked, request_count AS requests, credit_count AS credits,
            expected_credit_count AS expected_credits, free_refresh_count AS free_refreshes, bill, reason,
            next_step AS what_to_do
        FROM spend ORDER BY started_at DESC LIMIT 5
        """,
    ),
    Section(
        "",
        "The next four weeks",
        "Credits by the day on which they fall due, and companies refreshed for free in the last days of their paid "
        "window. A schedule that runs less often than daily pays on its next run.",
        "SELECT day, credits, free_refreshes FROM due ORDER BY day",
        bars="credits",
    ),
    Section(
        "",
        "What failed in the last run, and what to do",
        "The next run asks for these again; `firmlake redrive` asks only for these.",
        """
        SELECT dataset, reason, count(*) AS companies, min(country || ' ' || company_number) AS for_example,
            CASE
                WHEN any_value(status) = 'forbidden' THEN 'Get a token that may use it, then redrive; or leave it out '
                    'of run.datasets'
                WHEN regexp_matches(reason, 'status 4[0-9][0-9]') THEN 'The service refuses the request: look at its '
                    'message, correct the list or the names in api.names, then redrive'
                WHEN regexp_matches(reason, 'answer has another shape|not a JSON array|body') THEN 'The answer could '
                    'not be read: it is kept in landing; ask the service about it, then redrive'
                ELSE 'The service had trouble: redrive later'
            END AS what_to_do
        FROM dead_letters JOIN last_run USING (run_id)
        LEFT JOIN company_state USING (run_id, country, company_number, dataset)
        GROUP BY dataset, reason ORDER BY companies DESC, dataset, reason LIMIT 10
        """,
        bars="companies",
    ),
    Section(
        "",
        "Values that do not fit",
        "A value that does not fit is null in its column and kept in `extra_json`. A record is left out if the value "
        "that identifies it does not fit. The table `rejects` lists both.",
        """
        SELECT dataset, path, if(effect = 'record', 'record', 'value') AS lost, min(reason) AS reason,
            count(*) AS records, min(country || ' ' || company_number) AS for_example
        FROM rejects JOIN last_run USING (run_id)
        GROUP BY dataset, path, lost ORDER BY records DESC, dataset, path, lost LIMIT 10
        """,
        bars="records",
    ),
    Section(
        "",
        "Lines of the list that could not be used",
        "Correct them in the list.",
        "SELECT line::VARCHAR AS line, given, reason FROM refused_lines r JOIN last_run USING (run_id) "
        "ORDER BY r.line LIMIT 10",
    ),
    Section(
        "",
        "Differences between answers and the known contract",
        "",
        "SELECT dataset, kind, path, example, record_count AS records FROM drift JOIN last_run USING (run_id) "
        "ORDER BY ALL LIMIT 10",
    ),
    Section(
        "What we hold",
        "Coverage and freshness",
        "Companies by dataset and status. The age is that of the answers held, in days.",
        """
        SELECT dataset, status, company_count AS companies, oldest_at::TIMESTAMP_S AS oldest_answer,
            median_age_days AS median_age
        FROM freshness ORDER BY dataset, companies DESC, status
        """,
        bars="companies",
    ),
    Section(
        "",
        "Year of the newest accounts",
        "",
        """
        SELECT year(end_date)::VARCHAR AS year_of_period_end, count(*) AS companies
        FROM shown GROUP BY ALL ORDER BY 1 DESC LIMIT 10
        """,
        bars="companies",
    ),
    Section(
        "What changed",
        "Events of the last run",
        "`firmlake changes` lists all of them, also since a given day, and as CSV or JSON.",
        """
        SELECT replace(kind, '_', ' ') AS event, count(*) AS events,
            count(DISTINCT country || company_number) AS companies
        FROM changes JOIN last_run USING (run_id) GROUP BY kind ORDER BY events DESC, kind
        """,
        bars="events",
    ),
    Section(
        "",
        "The most telling of them",
        "The three largest changes of each kind, without new companies and lookalikes.",
        """
        SELECT
            coalesce(m.name, c.country || ' ' || c.company_number) AS company,
            replace(kind, '_', ' ') AS event,
            concat_ws(' ', end_date::VARCHAR, direction, related_name, related_country, related_company_number)
                AS about,
            coalesce(
                array_to_string([
                    format('{} {} → {}', replace(field->>'field', '_', ' '), coalesce(field->>'old', '-'),
                        coalesce(field->>'new', '-'))
                    FOR field IN (fields->'$[*]')[:3]
                ], '; ') || if(json_array_length(fields) > 3, format('; {} more', json_array_length(fields) - 3), ''),
                regexp_replace(
                    if(coalesce(old_value, new_value) IS NULL, NULL,
                        format('{} → {}', coalesce(old_value, '-'), coalesce(new_value, '-'))),
                    '([.][0-9]*[1-9])0+( |$)', '\\1\\2', 'g'
                )
            ) AS change
        FROM changes c
        JOIN last_run USING (run_id)
        LEFT JOIN companies m ON m.country = c.country AND m.company_number = c.company_number
        WHERE kind NOT IN ('company_appeared', 'lookalike_in', 'lookalike_out')
        QUALIFY row_number() OVER (
            PARTITION BY kind
            ORDER BY abs(coalesce(try_cast(new_value AS DOUBLE), 0) - coalesce(try_cast(old_value AS DOUBLE), 0)) DESC,
                json_array_length(fields) DESC NULLS LAST, end_date DESC NULLS LAST, c.country, c.company_number,
                c.position
        ) <= 3
        ORDER BY list_position([
            'company_gone', 'health_down', 'parent_out', 'parent_in', 'function_changed', 'stake_changed',
            'period_restated', 'child_out', 'child_in', 'period_removed', 'committees_changed', 'health_up',
            'new_accounts', 'period_returned', 'company_renamed', 'company_moved'
        ], kind), c.country, c.company_number, c.position
        """,
    ),
    *HEALTH,
    *GROUPS,
    Section(
        "What is odd",
        "Findings",
        "What the checks of the data found. Nothing is corrected; the view `findings` has each with its evidence.",
        """
        SELECT severity, check_name AS check, found, what FROM found
        WHERE found IS DISTINCT FROM 0 ORDER BY severity, found DESC NULLS FIRST, check_name
        """,
        bars="found",
    ),
)
