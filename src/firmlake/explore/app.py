# /// script
# [tool.marimo.display]
# theme = "system"
# ///
"""The application as a marimo notebook; `firmlake explore` serves it, and `marimo edit` opens it."""

import marimo

app = marimo.App(width="full", app_title="firmlake explore")


@app.cell
def _():
    import marimo as mo

    from firmlake.core.company import Company
    from firmlake.core.errors import FirmlakeError
    from firmlake.explore import shown
    from firmlake.explore.holding import newest_holding

    return Company, FirmlakeError, mo, newest_holding, shown


@app.cell
def _(mo):
    get_page, set_page = mo.state(("Portfolio", 0))
    asked = mo.query_params().get("company") or ""
    get_company, set_company = mo.state((asked[:2], asked[2:]) if asked else None)
    get_number, set_number = mo.state(0)
    tick = mo.ui.refresh(options=["15s", "1m"], default_interval="15s", label="New generations:")
    return get_company, get_number, get_page, set_company, set_number, set_page, tick


@app.cell
def _(get_number, newest_holding, set_number, tick):
    tick.value
    if newest_holding().number != get_number():
        set_number(newest_holding().number)
    return


@app.cell
def _(get_number, mo, newest_holding):
    get_number()
    holding = newest_holding()
    known = holding.answer("generation").to_dicts()[0]
    names = {"All companies": None, **{name: name for (name,) in holding.answer("lists").rows()}}
    of_list = mo.ui.dropdown(options=names, value="All companies", label="List")
    return holding, known, of_list


@app.cell
def _(holding, known, mo, of_list, shown, tick):
    _about = (
        f"Generation {holding.number}: {known['company_count']:,} companies, {known['account_count']:,} with accounts, "
        f"runs: {known['run_count']:,}, the last one ended {known['ended_at']:%Y-%m-%d %H:%M} UTC"
    )
    mo.hstack([shown.heading("firmlake", _about), mo.hstack([of_list, tick], wrap=True, justify="end")], wrap=True)
    return


@app.cell
def _(get_page, mo):
    _names = ("Portfolio", "Company", "Groups", "Changes", "Alerts", "SQL")
    nav = mo.ui.tabs(dict.fromkeys(_names, ""), value=get_page()[0])
    nav
    return (nav,)


@app.cell
def _(get_page, set_company, set_page):
    def go_to(rows) -> None:
        """Show the company of a chosen row."""
        if len(rows) and rows["company_number"][0]:
            set_company((rows["country"][0], rows["company_number"][0]))
            set_page(("Company", get_page()[1] + 1))

    return (go_to,)


@app.cell
def _(holding, mo, nav, of_list, shown):
    mo.stop(nav.value != "Portfolio")
    frame = holding.answer("portfolio", list=of_list.value)
    by_country, by_size, by_zone, by_tens = (shown.bar(frame, column) for column in shown.FILTERS)
    mo.vstack([
        shown.note("Click a bar to choose its companies; hold Shift to add bars, double-click to choose all."),
        shown.beside([by_country, by_size, by_zone, by_tens]),
    ])  # fmt: skip
    return by_country, by_size, by_tens, by_zone, frame


@app.cell
def _(by_country, by_size, by_tens, by_zone, frame, mo, shown):
    _charts = zip(shown.FILTERS, (by_country, by_size, by_zone, by_tens), strict=True)
    some = shown.filtered(frame, {name: shown.chosen(chart, name) for name, chart in _charts})
    growth = shown.scatter(some)
    mo.vstack([
        shown.figures(some, len(frame)),
        shown.note(
            "Growth and margin of the largest 1,500, without doubtful figures, growth above 200% and margins beyond "
            "100%. Draw a rectangle to choose companies."
        ),
        growth,
    ])  # fmt: skip
    return growth, some


@app.cell
def _(go_to, growth, shown, some):
    shown.table(shown.within(some, growth), go_to, hidden=("tens",), label="Choose a row to see the company.")
    return


@app.cell
def _(mo, nav):
    mo.stop(nav.value != "Company")
    search = mo.ui.text(placeholder="Name or number", label="Search", debounce=300, full_width=True)
    search
    return (search,)


@app.cell
def _(go_to, holding, mo, of_list, search, shown):
    mo.stop(not search.value.strip())
    _found = holding.answer("find", text=search.value.strip(), list=of_list.value)
    shown.table(_found, go_to) if len(_found) else shown.note("No company has this in its name or number.")
    return


@app.cell
def _(Company, FirmlakeError, get_company, holding, mo, nav, shown):
    mo.stop(nav.value != "Company")
    mo.stop(get_company() is None, shown.note("Search, or choose a row on another page."))
    try:
        _page = holding.page(Company(*get_company()))
    except FirmlakeError as error:
        mo.stop(True, shown.note(str(error)))
    mo.iframe(_page, height="1600px")
    return


@app.cell
def _(get_company, go_to, holding, mo, nav, shown):
    mo.stop(nav.value != "Company" or get_company() is None)
    _country, _number = get_company()
    mo.vstack([
        shown.heading("Peers", "The companies with which this company is compared."),
        shown.table(holding.answer("peers", country=_country, number=_number), go_to),
    ])  # fmt: skip
    return


@app.cell
def _(holding, mo, nav, shown):
    mo.stop(nav.value != "Groups")
    _label = "Choose a group to see its companies."
    heads = shown.table(holding.groups(), lambda rows: None, hidden=("head_id", "number"), label=_label)
    heads
    return (heads,)


@app.cell
def _(go_to, heads, holding, mo, shown):
    mo.stop(not len(heads.value))
    mo.vstack([
        shown.heading(heads.value["head"][0], "Companies reached through stakes of at least 50%."),
        shown.table(holding.answer("members", head=heads.value["head_id"][0]), go_to, hidden=("id",)),
    ])  # fmt: skip
    return


@app.cell
def _(mo, nav):
    from firmlake.warehouse.changes import KINDS

    mo.stop(nav.value != "Changes")
    kinds = mo.ui.multiselect(options={name.replace("_", " "): name for name in KINDS}, label="Events")
    kinds
    return (kinds,)


@app.cell
def _(go_to, holding, kinds, of_list, shown):
    shown.table(holding.answer("changes", list=of_list.value, kinds=tuple(kinds.value)), go_to)
    return


@app.cell
def _(mo, nav):
    mo.stop(nav.value != "Alerts")
    closed = mo.ui.checkbox(label="Include closed alerts")
    closed
    return (closed,)


@app.cell
def _(closed, go_to, holding, of_list, shown):
    _alerts = holding.alerts(of_list.value, with_closed=closed.value)
    shown.table(_alerts, go_to) if len(_alerts) else shown.note(
        "No alerts. The setting paths.alert_rules names the file of rules."
    )
    return


@app.cell
def _(mo, nav):
    mo.stop(nav.value != "SQL")
    query = mo.ui.code_editor("FROM portfolio LIMIT 10", language="sql", min_height=120).form(submit_button_label="Run")
    query
    return (query,)


@app.cell
def _(FirmlakeError, holding, mo, query, shown):
    mo.stop(not (query.value or "").strip())
    try:
        _rows, _has_more = holding.ask_freely(query.value)
    except FirmlakeError as error:
        mo.stop(True, mo.callout(shown.note(str(error)), kind="warn"))
    mo.vstack(
        [shown.note(f"The first {len(_rows):,} rows" if _has_more else f"{len(_rows):,} rows"), shown.table(_rows)]
    )
    return


if __name__ == "__main__":
    app.run()
