"""Work is divided into portfolios with names that stay; every line is in one of them or is said to be refused."""

from __future__ import annotations

import polars as pl
import pytest
from firmlake.flows.backfill import divide

from firmlake.core.errors import CompanyListError
from firmlake.core.settings import IntakeSettings, PathSettings, Settings
from firmlake.intake.lines import read_company_list


@pytest.fixture
def settings(tmp_path):
    return Settings(paths=PathSettings(str(tmp_path / "home")), intake=IntakeSettings(country_column="land"))


def test_a_list_is_divided_by_country_and_its_refused_lines_are_kept(settings, tmp_path):
    path = tmp_path / "list.csv"
    path.write_text('land,company_number\nBE,0403.227.515\nNL,24202194\nBE,0403091220\nBE,nonsense\nBE,"=1+1"\n')
    portfolios, refused_count = divide(settings, path)
    assert [portfolio.name for portfolio in portfolios] == ["BE", "NL"]
    read = [read_company_list(each.company_list, each.intake).companies for each in portfolios]
    assert [frame["company_number"].to_list() for frame in read] == [["0403227515", "0403091220"], ["24202194"]]
    assert refused_count == 2
    refused = pl.read_csv(tmp_path / "home/lists/refused.csv")
    assert refused.select("line", "given").rows() == [(5, "nonsense"), (6, "'=1+1")]
    assert divide(settings, path)[0] == portfolios, "again: the same names, lists and folders"


def test_a_folder_is_divided_into_its_files(settings, tmp_path):
    (tmp_path / "lists/older").mkdir(parents=True)
    for name in ("b.csv", "a.xlsx", ".hidden.csv"):
        (tmp_path / "lists" / name).write_text(name)
    portfolios, refused_count = divide(settings, tmp_path / "lists")
    assert [(each.name, each.company_list.name) for each in portfolios] == [("a", "a.xlsx"), ("b", "b.csv")]
    assert [each.folders.data for each in portfolios] == [tmp_path / "home/portfolios" / name for name in "ab"]
    assert all(each.intake is settings.intake for each in portfolios)
    assert refused_count == 0


def test_two_lists_of_one_name_or_none_are_refused(settings, tmp_path):
    with pytest.raises(CompanyListError, match="holds no file"):
        divide(settings, tmp_path)
    for name in ("same.csv", "same.xlsx"):
        (tmp_path / name).touch()
    with pytest.raises(CompanyListError, match="2 files for portfolio same"):
        divide(settings, tmp_path)
