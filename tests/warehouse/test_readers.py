"""Analysts in other processes read all the while: they keep no load waiting, and see each load whole or not at all."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import ExitStack

import pytest

from support import ACME, BOLT, lookalike, run_of

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
        similar = {"lookalikes": [lookalike(score=number + rank / 1000) for rank in range(number)]}
        run_of(folders, number, {ACME: similar, BOLT: similar}, keep=2)

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


def test_to_import_firmlake_takes_nothing_with_it():
    code = "import sys, firmlake; assert not {'duckdb', 'polars', 'msgspec', 'prefect', 'pandas'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
