"""firmlake from Python: a frame of companies goes in, frames with their figures come out.

With the extra `explore`, open it with `marimo edit docs/from_python.py` or run it with `python docs/from_python.py`. It
uses the embedded service, whose companies are made up: no key and no network is needed.
"""

import marimo

__generated_with = "0.23.0"
app = marimo.App(width="medium")


@app.cell
def _():
    import tempfile

    import marimo as mo
    import polars as pl

    import firmlake

    return firmlake, mo, pl, tempfile


@app.cell
def _(mo):
    mo.md("""
    # Enrich a frame

    Any frame of Polars, pandas or Arrow will do, and so will the path of a file. The column of numbers is recognised.
    """)


@app.cell
def _(pl):
    customers = pl.DataFrame(
        {
            "customer": ["Acme", "Bolt", "Cargo", "Delta", "mistyped"],
            "company": ["BE 0200.000.043", "BE 0200.000.142", "BE0200000241", "BE0200000340", "BE 0200.000.341"],
        }
    )
    customers  # noqa: B018
    return (customers,)


@app.cell
def _(mo):
    mo.md("""
    ## The price

    `plan` sends nothing. `low`, `expected` and `worst` are credits; `expected` is unknown before the first answers.
    For a real service, leave `settings` out: the address and the token come from the environment.
    """)


@app.cell
def _(customers, firmlake, pl, tempfile):
    data = tempfile.mkdtemp()  # a folder of yours, such as "data"
    settings = {"api.base_url": "sandbox"}
    planned = firmlake.plan(customers, data=data, settings=settings)
    pl.DataFrame(planned.prices)
    return data, settings


@app.cell
def _(mo):
    mo.md("""
    ## The lines, with figures

    Every line comes back once, in its order and with its own columns. `shortfall` says what is missing, and why.
    """)


@app.cell
def _(customers, data, firmlake, settings):
    found = firmlake.enrich(customers, data=data, settings=settings, list_name="customers")
    found.shortfall or found.lines  # noqa: B018
    return (found,)


@app.cell
def _(mo):
    mo.md("""
    ## The tables

    `financials`, `lookalikes` and `relationships` are lazy: only what a query asks for is read. Money is exact.
    """)


@app.cell
def _(found, pl):
    revenue = (
        found.financials.filter(pl.col("end_date") >= pl.date(2020, 1, 1))
        .group_by("country", "company_number")
        .agg(pl.col("revenue").max(), pl.len().alias("periods"))
        .sort("revenue", descending=True, nulls_last=True)
        .collect()
    )
    revenue  # noqa: B018
    return (revenue,)


@app.cell
def _(mo):
    mo.md("""
    ## The warehouse

    The same data folder serves `firmlake query`, `firmlake report` and all other commands, and SQL from here.
    """)


@app.cell
def _(data, firmlake):
    with firmlake.open_warehouse(data) as warehouse:
        portfolio = warehouse.sql("FROM portfolio LIMIT 5").pl()
    portfolio  # noqa: B018


if __name__ == "__main__":
    app.run()
