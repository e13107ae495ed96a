"""A file that `--out` wrote can be the list of the next run: its figures are replaced, and nobody's own columns are."""

from __future__ import annotations

import pytest

from firmlake.delivery.list_file import FileBack, write_list
from support import ACME, BOLT, publish_list, slow, with_views

from .test_list_file import read_csv


def round_trip(folders, path, cells, columns=(), **more):
    """Publish a list, write it back, and return the written cells with what was said about it."""
    publish_list(folders, [ACME, None, BOLT], cells=cells, **more)
    with_views(folders)
    written = write_list(folders, "customers", FileBack(path, columns), "256MB")
    return read_csv(path), written


@pytest.mark.parametrize("own", [*slow({"name": "x"}), {"status": "gold", "revenue": "12", "line": "4"}, *slow({})])
def test_figures_of_an_earlier_file_are_replaced_and_own_columns_on_both_sides_are_kept(folders, tmp_path, own):
    first, written = round_trip(folders, tmp_path / "first.csv", [{"kbo": str(n), **own} for n in range(3)])
    assert written.replaced == ()
    again = [{**row, "actie": "bel"} for row in first]
    second, written = round_trip(folders, tmp_path / "second.csv", again, day=1)
    assert list(second[0]) == ["kbo", *own, "actie", *list(first[0])[1 + len(own) :]]
    assert [{name: row[name] for name in first[0]} for row in second] == first
    assert list(written.replaced) == list(first[0])[1 + len(own) :]
    third, _ = round_trip(folders, tmp_path / "third.csv", second, ("revenue",), day=2)
    assert len(third[0]) == 1 + len(own) + 1 + 4 + 1, "columns that are not chosen again are not kept"


def test_a_guarded_cell_does_not_gain_an_apostrophe_each_time(folders, tmp_path):
    texts = ["=1+1", "'=1+1", "'t Hof"]
    first, _ = round_trip(folders, tmp_path / "first.csv", [{"note": text} for text in texts], delimiter=",")
    assert [row["note"] for row in first] == ["'=1+1", "''=1+1", "'t Hof"]
    second, _ = round_trip(folders, tmp_path / "second.csv", first, day=1, delimiter=",")
    assert second == first


def test_columns_that_are_only_called_like_ours_are_the_lists_own(folders, tmp_path):
    called_like_ours = [
        {"status": "refused", "reason": "late", "company": "Acme", "line": "1"},
        {"status": "gold", "company": "BE 0403227515", "revenue": "12"},
        {"status": "", "company": "", "revenue": "12"},
        {"status": "enriched", "revenue": "12"},
    ]
    for day, own in enumerate(called_like_ours):
        publish_list(folders, [ACME, None, BOLT], cells=[own] * 3, day=day, name=f"list {day}")
    with_views(folders)
    for day, own in enumerate(called_like_ours):
        written = write_list(folders, f"list {day}", FileBack(tmp_path / f"{day}.csv"), "256MB")
        assert written.replaced == ()
        assert [{name: row[name] for name in own} for row in read_csv(tmp_path / f"{day}.csv")] == [own] * 3
