"""A notebook over the warehouse, to begin one's own from.

    pip install -e ".[notebook]" && marimo edit docs/notebook.py

It asks the folder that FIRMLAKE_PATHS__DATA names, else that of `firmlake demo`; notebook.ipynb is it, executed over
that:

    marimo export ipynb docs/notebook.py --include-outputs --sort top-down --force -o docs/notebook.ipynb
"""

import marimo

app = marimo.App(width="medium")


@app.cell
def _():
    import os

    import marimo as mo
    import polars as pl

    import firmlake

    return firmlake, mo, os, pl


@app.cell
def _(firmlake, os, pl):
    def ask(sql: str, *parameters: object) -> pl.DataFrame:
        """Ask the newest generation; each question opens it anew, so that a load meanwhile is seen."""
        with firmlake.open_warehouse(os.environ.get("FIRMLAKE_PATHS__DATA", "data/sandbox")) as warehouse:
            return pl.from_arrow(warehouse.sql(sql, params=list(parameters)).to_arrow_table())

    return (ask,)


@app.cell
def _(mo):
    mo.md("""
    # What do we hold, and what did it cost?

    Which datasets, for how many companies, and whether the service's bill agrees with our ledger. The figures are
    those of the embedded service: made up.
    """)


@app.cell
def _(ask):
    ask("SELECT dataset, status, company_count FROM freshness ORDER BY ALL")


@app.cell
def _(ask):
    ask("SELECT list_name, outcome, target_count, request_count, credit_count, expected_credit_count FROM spend")


@app.cell
def _(mo):
    mo.md("""
    # Who grows?

    `trend` compares each period with the one before, on figures for a year: a period of eighteen months does not look
    like growth.
    """)


@app.cell
def _(ask):
    ask("""
        SELECT country, company_number, end_date, period_days, revenue, revenue_annual, revenue_growth
        FROM trend
        WHERE revenue_growth IS NOT NULL
        QUALIFY row_number() OVER (PARTITION BY country, company_number ORDER BY end_date DESC) = 1
        ORDER BY revenue_growth DESC, company_number
        LIMIT 5
    """)


@app.cell
def _(mo):
    mo.md("""
    # Who belongs together?

    `groups(0.5)` puts each company under whoever holds half of it or more, along all paths.
    """)


@app.cell
def _(ask):
    ask("""
        SELECT head_id, any_value(name) AS head_name, bool_or(is_ring) AS is_ring, count(DISTINCT g.id) AS member_count
        FROM groups(0.5) g LEFT JOIN parties ON parties.id = head_id
        GROUP BY head_id
        ORDER BY member_count DESC, head_id
        LIMIT 5
    """)


@app.cell
def _(mo):
    mo.md("""
    # Whom else to ask for?

    The companies most similar to those we hold, and that we do not hold yet.
    """)


@app.cell
def _(ask):
    ask("""
        SELECT country, company_number, count(*) AS named_by, round(sum(score), 3) AS score
        FROM (SELECT lookalike_country AS country, lookalike_company_number AS company_number, score FROM lookalikes)
        ANTI JOIN companies USING (country, company_number)
        GROUP BY ALL
        ORDER BY score DESC, company_number
        LIMIT 5
    """)


@app.cell
def _(mo):
    mo.md("""
    # What looks wrong?

    Nothing is corrected silently; what cannot be right is a row of `findings`.
    """)


@app.cell
def _(ask):
    ask("SELECT severity, check_name, count(*) AS finding_count FROM findings GROUP BY ALL ORDER BY ALL")


if __name__ == "__main__":
    app.run()
