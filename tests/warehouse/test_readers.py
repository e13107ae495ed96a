"""Analysts in other processes read all the while: they keep no load waiting, and see each load whole or not at all."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import ExitStack

import pytest

import firmlake
from firmlake.core.errors import FirmlakeError
from firmlake.warehouse import generations
from support import ACME, BOLT, DAY, MINUTE, NOON, answer, found, land, lookalike, make_run, publish_landed

# Reads the newest generation again and again, and one that it opened at the start; says when it sees a new one.
_READER = """
import json, pathlib, sys
import firmlake

QUESTION = '''
    SELECT (SELECT max(generation) FROM loads), (SELECT count(*) FROM loads), (SELECT count(*) FROM runs),
           (SELECT count(*) FROM lookalikes), (SELECT count(DISTINCT run_id) FROM lookalikes),
           (SELECT count(*) FROM lookalikes_history), (SELECT count(*) FROM changes WHERE kind = 'company_appeared')
'''
data, stop = sys.argv[1], pathlib.Path(sys.argv[2])
reads = seen = 0
with firmlake.open_warehouse(data) as first:
    begun = first.execute(QUESTION).fetchone()
    while not stop.exists():
        with firmlake.open_warehouse(data) as warehouse:
            answer = warehouse.execute(QUESTION).fetchone()
            assert warehouse.execute(QUESTION).fetchone() == answer
        # All of a run and nothing of the next: its row in the ledger, what it loaded, superseded and told.
        number = answer[0]
        assert answer == (number, number, number, 2 * number, 1, number * (number - 1), 2), answer
        assert first.execute(QUESTION).fetchone() == begun
        reads += 1
        if answer[0] != seen:
            seen = answer[0]
            print(json.dumps([seen, reads]), flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("publishes", "readers"),
    [(3, 1), pytest.param(100, 2, marks=pytest.mark.timeout(1800))],
)
def test_readers_and_loads_never_meet(folders, tmp_path, publishes, readers):
    def load(number):
        """Both companies get other lookalikes in each run, one more each time."""
        run_id, at = f"run-{number:04}", NOON + number * DAY
        run = make_run(folders, [ACME, BOLT], ["lookalikes"], run_id=run_id, at=at)
        records = [lookalike(score=number + rank / 1000) for rank in range(number)]
        land(run, answer("lookalikes", *(found(each, "lookalikes", *records) for each in (ACME, BOLT)), at=at))
        publish_landed(run, at=at + MINUTE, keep=2)

    load(1)
    stop = tmp_path / "stop"
    arguments = [sys.executable, "-c", _READER, str(folders.data), str(stop)]
    with ExitStack() as stack:
        processes = [
            stack.enter_context(subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)) for _ in range(readers)
        ]
        stack.callback(stop.touch)
        reads = [_reads_until(process, 1) for process in processes]
        for number in range(2, publishes + 2):
            load(number)
            later = [_reads_until(process, number) for process in processes]
            assert all(before < after for before, after in zip(reads, later, strict=True))
            reads = later
    assert [process.returncode for process in processes] == [0] * readers


def _reads_until(reader, generation):
    """Wait until a reader has seen a generation; how often it has read by then."""
    seen = 0
    while seen < generation:
        line = reader.stdout.readline()
        assert line, "the reader died"
        seen, reads = json.loads(line)
    return reads


def test_a_generation_that_is_removed_before_it_is_opened_is_no_failure(folders):
    """A reader that was slow to open what the link named gets what it names now."""
    run = make_run(folders, [ACME], ["lookalikes"])
    land(run, answer("lookalikes", found(ACME, "lookalikes", lookalike())))
    publish_landed(run)
    named = [folders.warehouse / "gen_000000.duckdb", generations.newest(folders)]
    with generations._connect(folders, lambda folders: named.pop(0) if len(named) > 1 else named[0]) as warehouse:
        assert warehouse.execute("SELECT count(*) FROM lookalikes").fetchall() == [(1,)]


def test_before_the_first_publish_there_is_nothing_to_open(tmp_path):
    with pytest.raises(FirmlakeError, match="does not exist yet"), firmlake.open_warehouse(tmp_path):
        pass


def test_to_import_firmlake_takes_nothing_with_it():
    code = "import sys, firmlake; assert not {'duckdb', 'polars', 'msgspec', 'prefect', 'pandas'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
