"""What every target of deliveries keeps to: folder, bucket, Delta Lake, Iceberg and databases.

Each rule runs against every target, but those that `targets.CANNOT` names for it; Snowflake and BigQuery are imitated,
up to what their clients send, and keep to the rules that they could break in a way of their own.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from uuid import uuid4

import duckdb
import pyarrow as pa
import pytest

from firmlake.core.errors import FirmlakeError
from firmlake.core.folders import Folders
from firmlake.core.settings import RunSettings
from firmlake.delivery.record import Record
from firmlake.delivery.selection import EXPORTED_TABLES, Source
from firmlake.rebuild.prune import find_removable, prune
from firmlake.rebuild.replay import replay
from firmlake.tables.schemas import WAREHOUSE_TABLES, Column, Table
from firmlake.warehouse.generations import list_generations
from support import ACME, DAY, NOON, query, slow

from .targets import CANNOT, DATABASES, FEW, FILES, REAL, SLOW, Exported, Loaded, now

pytestmark = [
    pytest.mark.filterwarnings("ignore:Delete operation did not match"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
NOWHERE = {
    "mode": "whole", "format": "", "run_id": "", "generation": 1, "published_at": NOON, "schema_version": 1,
    "firmlake_version": "",
}  # fmt: skip


@pytest.fixture
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Loaded | Exported:
    kind = request.param
    if kind in DATABASES:
        return request.getfixturevalue(DATABASES[kind])
    if kind in ("delta", "iceberg"):
        pytest.importorskip({"delta": "deltalake", "iceberg": "pyiceberg"}[kind])
        return Exported(str(tmp_path / "out"), tmp_path / "read", kind)
    # Names of buckets are those of folders of tests, which are used again.
    is_store = kind in ("bucket", "container")
    address = f"{request.getfixturevalue(kind)}/{uuid4().hex}" if is_store else str(tmp_path / "out")
    return Exported(address, tmp_path / "read", "parquet")


def targets(*kinds: str, cannot: str = ""):
    """Run a test against these targets, by default all of them; most are slow."""
    able = [kind for kind in kinds or (*FILES, *DATABASES) if kind not in CANNOT.get(cannot, ())]
    cases = [pytest.param(kind, marks=[pytest.mark.slow] * (kind in SLOW)) for kind in able]
    return pytest.mark.parametrize("target", cases, indirect=True)


# --- every target ----------------------------------------------------------------------------------------------------


@targets()
def test_the_first_delivery_is_whole_later_ones_are_changes_and_a_repeated_one_writes_nothing(weeks, target):
    tables = FEW if target.address.startswith("s3:") else EXPORTED_TABLES
    for week, mode in enumerate(("whole", "changes", "changes")):
        folders = weeks(week)
        done = target.deliver(folders, tables=tables)
        assert (done.is_new, done.record.mode) == (True, mode)
        assert done.record.row_counts.keys() == set(tables)
        seen = target.seen()
        again = target.deliver(folders, tables=tables)
        assert (again.is_new, again.record.delivery_id) == (False, done.record.delivery_id)
        assert target.seen() == seen
        target.assert_holds(folders, tables)


@pytest.mark.slow
@targets()
@pytest.mark.parametrize("week", [0, 1])
def test_a_killed_delivery_shows_what_was_there_and_the_next_one_completes_it(weeks, target, monkeypatch, week):
    """It is killed while it stages a table, and then while it publishes them."""
    if week:
        target.deliver(weeks(0))
    seen = target.seen() if week else None
    folders = weeks(week)
    for killed_at in ("put", "publish"):
        carry_out = getattr(target.target, killed_at)

        def die(self, record, *source, carry_out=carry_out):
            if source and source[0].table.name != "lookalikes":
                return carry_out(self, record, *source)
            target.litter(record)
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(target.target, killed_at, die)
            with pytest.raises(KeyboardInterrupt):
                target.deliver(folders)
        assert not week or target.seen() == seen
    assert target.deliver(folders).is_new
    target.assert_holds(folders)
    assert isinstance(target, Exported) or "companies: staged by an earlier attempt" in target.said
    assert not target.deliver(folders).is_new


@targets()
def test_rows_come_whole_if_the_generation_before_is_gone(weeks, target):
    target.deliver(weeks(0))
    folders = weeks(1)
    list_generations(folders)[0].unlink()
    done = target.deliver(folders)
    assert (done.record.mode, done.note) == ("whole", "generation 1, which was delivered last, is no longer kept")
    target.assert_holds(folders)


@targets(cannot="forget what earlier versions hold")
@pytest.mark.parametrize("week", [*slow(0), 1])
def test_what_was_taken_out_of_rebuilt_generations_leaves_the_target_too(weeks, target, week):
    target.deliver(weeks(0))
    folders = weeks(week)
    for path in list_generations(folders):
        path.chmod(0o600)
        with duckdb.connect(str(path)) as generation:
            generation.execute(f"DELETE FROM lookalikes_versions WHERE company_number = '{ACME.company_number}'")
    done = target.deliver(folders)
    assert (done.is_new, done.record.mode, "was rebuilt" in done.note) == (True, "whole", True)
    target.assert_holds(folders)


@targets()
@pytest.mark.slow
def test_other_tables_than_those_delivered_last_come_whole(weeks, target):
    target.deliver(weeks(0), tables=("companies",))
    folders = weeks(1)
    done = target.deliver(folders)
    assert (done.record.mode, done.note) == ("whole", "the last delivery had other tables")
    target.assert_holds(folders)


@targets()
@pytest.mark.slow
def test_what_another_data_folder_delivered_is_not_replaced(weeks, target, other):
    folders = weeks(0)
    target.deliver(folders)
    seen = target.seen()
    for mode in ("changes", "whole"):
        with pytest.raises(FirmlakeError, match="another data folder") as caught:
            target.deliver(other, mode=mode)
        assert ("--take-over" in caught.value.next_step) == isinstance(target, Loaded)
        assert caught.value.next_step
    assert target.seen() == seen
    assert not target.deliver(folders).is_new


@targets()
def test_a_target_never_goes_back_in_time(weeks, target, tmp_path):
    older = Folders(tmp_path / "older")
    shutil.copytree(weeks(0).data, older.data, symlinks=True)
    target.deliver(weeks(1))
    seen = target.seen()
    with pytest.raises(FirmlakeError, match="a later copy of this one"):
        target.deliver(older)
    assert target.seen() == seen


@targets()
def test_a_table_gains_the_columns_of_a_later_version(weeks, target, monkeypatch):
    folders, table = weeks(0), WAREHOUSE_TABLES["lookalikes"]
    fewer = table._replace(columns=tuple(c for c in table.columns if c.name != "score"))
    with monkeypatch.context() as patched:
        for module in ("selection", "database"):
            patched.setattr(f"firmlake.delivery.{module}.WAREHOUSE_TABLES", {"lookalikes": fewer})
        target.deliver(folders, tables=("lookalikes",))
    target.deliver(folders, mode="whole")
    target.assert_holds(folders)


@targets(cannot="mask columns")
def test_masked_columns_do_not_leave_and_another_mask_comes_whole(weeks, target):
    target.deliver(weeks(0))
    folders, mask = weeks(0), {"companies.name": "drop", "*.company_number": "hash"}
    done = target.deliver(folders, mask=mask)
    assert (done.record.mode, done.note) == ("whole", "the last delivery had another mask")
    [companies] = [table for table in done.record.tables if table.name == "companies"]
    assert "name" not in {column.name for column in companies.columns}
    found = target.read(done.record, companies)
    assert len(found) == len(query(folders, "FROM companies"))
    assert not any(ACME.company_number in row for row in found)
    assert not target.deliver(folders, mask=mask).is_new


# --- databases, which others can change ------------------------------------------------------------------------------


TAMPERED = {
    "DELETE FROM firmlake.lookalikes": "lookalikes has 0 rows instead of 1",
    "ALTER TABLE firmlake.financials ALTER COLUMN revenue TYPE double precision": "instead of ",
    "UPDATE firmlake.financials SET revenue = NULL": "financials has 0 values of revenue instead of 3",
    "ALTER TABLE firmlake.financials DROP COLUMN revenue": "financials has no column revenue",
    "ALTER TABLE firmlake.financials RENAME COLUMN revenue TO turnover": "financials has no column revenue",
    "ALTER TABLE firmlake.financials DROP COLUMN revenue; ALTER TABLE firmlake.financials ADD COLUMN revenue "
    "numeric(18,2)": "financials has 0 values of revenue instead of 3",
    "DROP TABLE firmlake.runs": "runs is gone",
}


def check_put_right(weeks, target, change, said, week=0):
    """Neither does "Already there" follow a change by others (week 0), nor a load of changes (week 1)."""
    folders = weeks(0)
    target.deliver(folders)
    for statement in change.split("; "):
        target.ask(statement)
    if week:
        weeks(week)
    done = target.deliver(folders)
    assert (done.record.mode, done.is_new) == ("whole", True)
    assert said in done.note
    target.assert_holds(folders)
    assert not target.deliver(folders).is_new


@targets(*DATABASES)
def test_rows_that_others_deleted_are_put_right(weeks, target):
    check_put_right(weeks, target, "DELETE FROM firmlake.lookalikes", "lookalikes has 0 rows instead of 1")


@targets(*REAL)
@pytest.mark.parametrize("week", [0, 1])
@pytest.mark.parametrize("change", TAMPERED)
@pytest.mark.slow
def test_what_others_changed_is_put_right(weeks, target, change, week):
    check_put_right(weeks, target, change, TAMPERED[change], week)


@targets("snowflake")
def test_a_table_to_be_dropped_is_named_where_its_columns_keep_their_types(weeks, target):
    folders = weeks(0)
    target.deliver(folders)
    target.ask("ALTER TABLE firmlake.financials ALTER COLUMN revenue TYPE DOUBLE")
    with pytest.raises(FirmlakeError, match="type of a column") as caught:
        target.deliver(folders)
    assert "Drop firmlake.financials, then load again" in caught.value.next_step
    target.ask("DROP TABLE firmlake.financials")
    target.deliver(folders)
    target.assert_holds(folders)


@targets(*REAL)
@pytest.mark.slow
def test_columns_and_views_that_others_added_stay(weeks, target):
    folders = weeks(0)
    target.deliver(folders)
    target.ask("CREATE VIEW firmlake.ours AS SELECT company_number FROM firmlake.lookalikes")
    target.ask("ALTER TABLE firmlake.companies ADD COLUMN note text")
    target.ask("UPDATE firmlake.companies SET note = 'ours'")
    assert not target.deliver(folders).is_new
    target.deliver(folders, mode="whole")
    assert target.ask("SELECT DISTINCT note FROM firmlake.companies") == [("ours",)]
    assert len(target.ask("SELECT * FROM firmlake.ours")) == len(query(folders, "SELECT 1 FROM lookalikes"))


@targets(*REAL)
def test_a_table_that_no_load_made_is_left_alone(weeks, target):
    folders = weeks(0)
    target.deliver(folders, tables=("companies",))
    target.ask("CREATE TABLE firmlake.runs (ours int)")
    with pytest.raises(FirmlakeError, match="no load of firmlake made it"):
        target.deliver(folders)
    assert target.ask("SELECT count(*) FROM firmlake.runs") == [(0,)]


@targets(*REAL)
@pytest.mark.slow
def test_a_load_of_fewer_tables_keeps_all_tables_of_the_schema_at_one_generation(weeks, target):
    target.deliver(weeks(0))
    folders = weeks(1)
    target.said.clear()
    done = target.deliver(folders, tables=("companies",))
    assert (done.record.mode, set(done.record.row_counts)) == ("changes", set(FEW))
    assert "financials" in target.said[0]
    target.assert_holds(folders)


@targets(*REAL)
@pytest.mark.slow
def test_the_newest_load_is_the_last_one_also_if_a_clock_was_set_back(weeks, target):
    target.deliver(weeks(0))
    target.deliver(weeks(1), now=lambda: now() - DAY)
    with target.open() as opened:
        assert opened.held().generation == 2


@targets(*REAL)
@pytest.mark.slow
def test_what_another_unfinished_load_wrote_aside_goes(weeks, target, monkeypatch):
    folders = weeks(0)
    with monkeypatch.context() as patched:
        patched.setattr(target.target, "publish", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            target.deliver(folders)
    target.deliver(weeks(1))
    target.assert_holds(folders)
    with target.open() as opened:
        assert not [name for name in opened.shapes() if name.startswith(("_firmlake_loading", "_firmlake_staging"))]


# --- databases: whose rows they are, and how they arrive -------------------------------------------------------------


@targets(*REAL)
@pytest.mark.slow
def test_the_schema_of_another_data_folder_can_be_taken_over(weeks, target, other):
    target.deliver(weeks(0))
    assert target.deliver(other, takes_over=True).record.mode == "whole"
    target.assert_holds(other)
    assert not target.deliver(other).is_new


@targets(*REAL)
@pytest.mark.slow
def test_a_data_folder_stays_the_same_after_a_prune_a_replay_and_in_a_restored_copy(weeks, target, tmp_path):
    weeks(0)
    folders, one = weeks(1), RunSettings(keep_generations=1)
    target.deliver(folders)
    removable, _ = find_removable(folders, NOON + 30 * DAY, keep_generations=1, landed_days=28)
    prune(folders, removable, NOON + 30 * DAY)
    replay(folders, now, settings=one)
    assert target.deliver(folders).is_new
    restored = Folders(tmp_path / "restored")
    for name in ("landing", "staged"):
        shutil.copytree(folders.data / name, restored.data / name)
    replay(restored, lambda: now() + DAY, settings=one)
    assert target.deliver(restored).is_new
    target.assert_holds(restored)
    with pytest.raises(FirmlakeError, match="newer generation"):
        target.deliver(folders)


@targets(*REAL)
def test_a_plan_that_a_replay_left_out_still_tells_its_data_folder(weeks, target):
    folders = weeks(0)
    target.deliver(folders)
    target.ask("UPDATE firmlake._firmlake_loads SET run_id = 'a-plan'")
    with pytest.raises(FirmlakeError, match="a-plan"):
        target.deliver(folders)
    (folders.additions / "plan=a-plan").mkdir(parents=True)
    target.deliver(folders)


@targets(*DATABASES, "iceberg")
def test_columns_say_what_they_mean(weeks, target):
    target.deliver(weeks(0), tables=("financials",))
    assert {column.comment for column in WAREHOUSE_TABLES["financials"].columns} <= target.comments()


@targets(*REAL)
def test_awkward_text_arrives_as_it_is(target):
    """Except that PostgreSQL takes no NUL."""
    values = ["", "\\.", "a\n\\.\nb", "\\N", 'quo"te', "it's", "a,b;c\td", "\r\n", "é€😀", "NULL", " ", "=1", "\0"]
    table = Table("awkward", "x", ("id",), (Column("id", "integer", "x"), Column("text", "text", "x", "none")))
    sent = [*enumerate(values), (99, None)]
    given = pa.table({"id": [row[0] for row in sent], "text": [row[1] for row in sent]})
    record = Record(delivery_id="x", **NOWHERE)
    with target.open() as opened, duckdb.connect() as connection:
        opened.begin(record)
        for name, source in {"awkward": given, "b": given.slice(0, 0)}.items():
            connection.register(name, source)
            staged = opened.put(record, Source(connection, table._replace(name=name), f"FROM {name}"))
            assert staged.row_count == source.num_rows
    found = sorted(target.ask("SELECT * FROM firmlake._firmlake_staging_x_awkward"))
    assert [(n, text and text.replace("\ufffd", "\0")) for n, text in found] == sent
