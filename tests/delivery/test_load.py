"""A load makes the tables of a target hold the newest generation, whatever they held and whatever was interrupted."""

from __future__ import annotations

import shutil

import duckdb
import pyarrow as pa
import pytest

from firmlake.core.errors import FirmlakeError
from firmlake.core.folders import Folders
from firmlake.core.settings import RunSettings
from firmlake.delivery.database import Database
from firmlake.delivery.deliver import Request
from firmlake.delivery.deliver import deliver as carry_out
from firmlake.delivery.record import Record, describe_table
from firmlake.delivery.selection import EXPORTED_TABLES, Source
from firmlake.rebuild.prune import find_removable, prune
from firmlake.rebuild.replay import replay
from firmlake.tables.schemas import WAREHOUSE_TABLES, Column, Table
from support import DAY, NOON, query, slow


def now():
    return NOON + 60 * DAY


def deliver(folders, place, tell=lambda line: None, **options):
    return carry_out(folders, place.request(**options), tell, now)


NOWHERE = {
    "mode": "whole", "format": "", "run_id": "", "generation": 1, "published_at": NOON, "schema_version": 1,
    "firmlake_version": "",
}  # fmt: skip


def texts(rows):
    return sorted((tuple(str(cell) if cell is not None else None for cell in row) for row in rows), key=repr)


def assert_same(folders, place, tables=EXPORTED_TABLES):
    """Check every value of every table, read by a client that is not ours."""
    for name in tables:
        columns = [c.name for c in WAREHOUSE_TABLES[name].columns if c.type != "timestamp"]
        moments = [c.name for c in WAREHOUSE_TABLES[name].columns if c.type == "timestamp"]
        ours = query(folders, f"SELECT {', '.join([*columns, *(f'epoch({m})' for m in moments)])} FROM {name}")
        theirs = [*columns, *(f"extract(epoch FROM {moment})::double precision" for moment in moments)]
        assert texts(place.ask(f"SELECT {', '.join(theirs)} FROM firmlake.{name}")) == texts(ours), name


@pytest.mark.slow
def test_the_newest_load_is_the_last_one_also_if_a_clock_was_set_back(weeks, place):
    deliver(weeks(0), place)
    carry_out(weeks(1), place.request(), now=lambda: now() - DAY)
    with place.open() as target:
        assert target.held().generation == 2


@pytest.mark.slow
def test_what_another_unfinished_load_wrote_aside_goes(weeks, place, monkeypatch):
    folders, publish = weeks(0), Database.publish
    monkeypatch.setattr(Database, "publish", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        deliver(folders, place)
    monkeypatch.setattr(Database, "publish", publish)
    deliver(weeks(1), place)
    assert_same(folders, place)
    with place.open() as target:
        assert not [name for name in target.shapes() if name.startswith(("_firmlake_loading", "_firmlake_staging"))]


@pytest.mark.slow
def test_a_column_that_is_new_is_added_and_views_on_the_table_stay(weeks, place, monkeypatch):
    folders = weeks(0)
    table = WAREHOUSE_TABLES["lookalikes"]
    fewer = table._replace(columns=tuple(c for c in table.columns if c.name != "score"))
    with monkeypatch.context() as patched:
        for module in ("delivery.selection", "delivery.database"):
            patched.setattr(f"firmlake.{module}.WAREHOUSE_TABLES", {"lookalikes": fewer})
        deliver(folders, place, tables=("lookalikes",))
    place.ask("CREATE VIEW firmlake.ours AS SELECT company_number FROM firmlake.lookalikes")
    deliver(folders, place, tables=("lookalikes",), mode="whole")
    assert_same(folders, place, ("lookalikes",))
    assert len(place.ask("SELECT * FROM firmlake.ours")) == len(query(folders, "SELECT 1 FROM lookalikes"))


def test_tables_and_columns_say_what_they_mean(weeks, place):
    deliver(weeks(0), place, tables=("financials",))
    with place.open() as target:
        if "duckdb" in place.address:
            said = target.run("SELECT comment FROM duckdb_columns() WHERE table_name = 'financials'")
        else:
            said = target.run(f"""
                SELECT col_description('{place.schema}.financials'::regclass, ordinal_position::int)
                FROM information_schema.columns WHERE table_schema = '{place.schema}' AND table_name = 'financials'
            """)
    assert {row[0] for row in said} == {column.comment for column in WAREHOUSE_TABLES["financials"].columns}
    assert len(list(target.dialect.comments("t", describe_table(WAREHOUSE_TABLES["financials"])))) == 1 + len(said)


def test_awkward_text_arrives_as_it_is(place):
    """Except that PostgreSQL takes no NUL."""
    values = ["", "\\.", "a\n\\.\nb", "\\N", 'quo"te', "it's", "a,b;c\td", "\r\n", "é€😀", "NULL", " ", "=1", "\0"]
    table = Table("awkward", "x", ("id",), (Column("id", "integer", "x"), Column("text", "text", "x", "none")))
    rows = [*enumerate(values), (99, None)]
    batch = pa.RecordBatch.from_pydict({"id": [row[0] for row in rows], "text": [row[1] for row in rows]})
    record, nothing = Record(delivery_id="x", **NOWHERE), pa.table(batch.to_pydict()).slice(0, 0)
    with place.open() as target, duckdb.connect() as connection:
        target.begin(record)
        for name, source in {"awkward": pa.table(batch.to_pydict()), "b": nothing}.items():
            connection.register(name, source)
            staged = target.put(record, Source(connection, table._replace(name=name), f"FROM {name}"))
            assert staged.row_count == source.num_rows
    found = sorted(place.ask("SELECT * FROM firmlake._firmlake_staging_x_awkward"))
    assert [(n, text and text.replace("\ufffd", "\0")) for n, text in found] == rows


def test_a_table_that_no_load_made_is_left_alone(weeks, place):
    folders = weeks(0)
    deliver(folders, place, tables=("companies",))
    place.ask("CREATE TABLE firmlake.runs (ours int)")
    with pytest.raises(FirmlakeError, match="no load of firmlake made it"):
        deliver(folders, place)
    assert place.ask("SELECT count(*) FROM firmlake.runs") == [(0,)]


@pytest.mark.parametrize(
    "target", ["oracle://x/y", "postgres://u:planted-secret@h/d", "duckdb:/nowhere/at/all.duckdb", "postgres://h:x/d"]
)
def test_a_target_that_cannot_be_used_is_refused_without_showing_a_secret(weeks, target):
    with pytest.raises(FirmlakeError) as caught:
        carry_out(weeks(0), Request(target=target), now=now)
    assert "planted-secret" not in str(caught.value)
    assert caught.value.next_step


def test_a_server_is_named_with_its_port(weeks):
    """By this name `forget` finds the copy again, and two servers on one machine keep a record each."""
    with pytest.raises(FirmlakeError, match=r"postgres://127\.0\.0\.1:1/d"):
        carry_out(weeks(0), Request(target="postgres://127.0.0.1:1/d"), now=now)


TAMPERED = {
    "DELETE FROM firmlake.lookalikes": "lookalikes has 0 rows instead of 1",
    "UPDATE firmlake.financials SET revenue = NULL": "financials has 0 values of revenue instead of 3",
    "ALTER TABLE firmlake.financials DROP COLUMN revenue": "financials has no column revenue",
    "ALTER TABLE firmlake.financials RENAME COLUMN revenue TO turnover": "financials has no column revenue",
    "ALTER TABLE firmlake.financials DROP COLUMN revenue; ALTER TABLE firmlake.financials ADD COLUMN revenue "
    "numeric(18,2)": "financials has 0 values of revenue instead of 3",
    "ALTER TABLE firmlake.financials ALTER COLUMN revenue TYPE double precision": "instead of ",
    "DROP TABLE firmlake.runs": "runs is gone",
}


def test_the_schema_of_another_data_folder_can_be_taken_over(weeks, place, other):
    folders = weeks(0)
    deliver(folders, place)
    with pytest.raises(FirmlakeError) as caught:
        deliver(other, place)
    assert "--take-over" in caught.value.next_step
    assert deliver(other, place, takes_over=True).record.mode == "whole"
    assert_same(other, place)
    assert not deliver(other, place).is_new


@pytest.mark.slow
def test_a_data_folder_stays_the_same_after_a_prune_a_replay_and_in_a_restored_copy(weeks, place, tmp_path):
    weeks(0)
    folders = weeks(1)
    deliver(folders, place)
    removable, _ = find_removable(folders, NOON + 30 * DAY, keep_generations=1, landed_days=28)
    prune(folders, removable, NOON + 30 * DAY)
    replay(folders, now, settings=RunSettings(keep_generations=1))
    assert deliver(folders, place).is_new
    restored = Folders(tmp_path / "restored")
    for name in ("landing", "staged"):
        shutil.copytree(folders.data / name, restored.data / name)
    replay(restored, lambda: now() + DAY, settings=RunSettings(keep_generations=1))
    assert deliver(restored, place).is_new
    assert_same(restored, place)
    with pytest.raises(FirmlakeError, match="newer generation"):
        deliver(folders, place)


def test_a_plan_that_a_replay_left_out_still_tells_its_data_folder(weeks, place):
    folders = weeks(0)
    deliver(folders, place)
    place.ask("UPDATE firmlake._firmlake_loads SET run_id = 'a-plan'")
    with pytest.raises(FirmlakeError, match="a-plan"):
        deliver(folders, place)
    (folders.additions / "plan=a-plan").mkdir(parents=True)
    deliver(folders, place)


@pytest.mark.parametrize("week", [0, *slow(1)])
@pytest.mark.parametrize("change", [*list(TAMPERED)[:1], *slow(*list(TAMPERED)[1:])])
def test_what_others_changed_in_the_target_is_put_right(weeks, place, change, week):
    """Neither does "Already there" follow a change by others (week 0), nor a load of changes (week 1)."""
    folders = weeks(0)
    deliver(folders, place)
    for statement in change.split("; "):
        place.ask(statement)
    if week:
        weeks(week)
    done = deliver(folders, place)
    assert (done.record.mode, done.is_new) == ("whole", True)
    assert TAMPERED[change] in done.note
    assert_same(folders, place)
    assert not deliver(folders, place).is_new


@pytest.mark.slow
def test_a_column_that_others_added_stays(weeks, place):
    folders = weeks(0)
    deliver(folders, place)
    place.ask("ALTER TABLE firmlake.companies ADD COLUMN note text")
    place.ask("UPDATE firmlake.companies SET note = 'ours'")
    assert not deliver(folders, place).is_new
    deliver(folders, place, mode="whole")
    assert place.ask("SELECT DISTINCT note FROM firmlake.companies") == [("ours",)]


@pytest.mark.slow
def test_a_load_of_fewer_tables_keeps_all_tables_of_the_schema_at_one_generation(weeks, place):
    deliver(weeks(0), place)
    folders, said = weeks(1), []
    done = deliver(folders, place, tables=("companies",), tell=said.append)
    assert (done.record.mode, set(done.record.row_counts)) == ("changes", set(EXPORTED_TABLES))
    assert "financials" in said[0]
    assert_same(folders, place)
