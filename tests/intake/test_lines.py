"""A list as it was read is one Parquet file, stored once."""

import json

import polars as pl
import pytest

from firmlake.core.settings import IntakeSettings
from firmlake.intake.lines import read_columns, read_company_list, store_lines


def store(lines, folder):
    return store_lines(folder / "lists", lines.columns, lines.batches())


LIST = "naam;kbo\nKBC;403227515\nUCB;x\n\nKBC;BE 0403.227.515\n"


def test_the_same_list_is_stored_once_whatever_file_it_comes_from(tmp_path):
    stored = []
    for name, content in {"a.csv": LIST, "b.csv": LIST, "c.csv": LIST + "x;y\n"}.items():
        (tmp_path / name).write_text(content)
        stored.append(store(read_company_list(tmp_path / name).lines, tmp_path))
    assert stored[0] == stored[1] != stored[2]
    assert sorted((tmp_path / "lists").iterdir()) == sorted(set(stored))


def test_companies_refused_repaired_and_blank_lines_are_queries_on_it(tmp_path):
    (tmp_path / "list.csv").write_text(LIST)
    companies = read_company_list(tmp_path / "list.csv")
    stored = store(companies.lines, tmp_path)
    lines = pl.read_parquet(stored)
    assert lines["status"].to_list() == ["accepted", "refused", "blank", "accepted"]
    assert lines.filter(status="refused").select("line", "given", "reason").equals(companies.refused)
    assert lines["columns"][0] == '{"naam":"KBC","kbo":"403227515"}'
    found = read_columns(stored)
    assert (found.names, found.delimiter) == (("naam", "kbo"), ";")


@pytest.mark.parametrize(("keep_columns", "givens"), [(("none",), [None, None]), (("naam",), ["403227515", None])])
def test_what_is_not_kept_is_not_stored(tmp_path, keep_columns, givens):
    """The text of a refused line is kept only with all columns."""
    (tmp_path / "list.csv").write_text("naam;kbo\nKBC;403227515\nan;1;secret\n")
    companies = read_company_list(tmp_path / "list.csv", IntakeSettings(keep_columns=keep_columns))
    stored = pl.read_parquet(store(companies.lines, tmp_path))
    assert "403227515" not in "".join(stored["columns"])
    assert stored["given"].to_list() == givens


def test_a_line_with_too_many_cells_keeps_them_in_its_last_one_unless_that_holds_the_number(tmp_path):
    (tmp_path / "a.csv").write_text('kbo;nota\n403227515;zegt "bellen; later"\n')
    (tmp_path / "b.csv").write_text("nota;kbo\nx;403227515;y\n")
    kept = [next(read_company_list(tmp_path / name).lines.batches())["columns"].item() for name in ("a.csv", "b.csv")]
    assert json.loads(kept[0]) == {"kbo": "403227515", "nota": 'zegt "bellen; later"'}
    assert json.loads(kept[1]) == {"nota": "x", "kbo": "403227515"}
