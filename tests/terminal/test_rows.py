"""Tables on a terminal: long ones are printed as their rows come."""

from __future__ import annotations

import itertools

from firmlake.terminal.rows import first_rows, show_long_table


def test_every_row_of_a_long_table_is_a_line_whatever_is_in_it(capsys):
    rows = [[number, "a\nb\x1b[31m" if number == 1500 else None] for number in range(3000)]
    show_long_table(["number", "text"], iter(rows))
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split() == ["│", "number", "│", "text", "│"]
    assert [line.split()[1] for line in lines] == [f"{number:,}" for number in range(3000)]
    assert "a\\x0ab\\x1b[31m" in lines[1500]


def test_a_long_table_is_printed_before_its_last_row_is_read(capsys):
    def rows():
        yield from itertools.repeat(["x"], 5000)
        assert capsys.readouterr().out.count("x") > 2000
        yield ["y"]

    show_long_table(["a"], rows())
    assert "y" in capsys.readouterr().out


def test_a_table_that_is_cut_says_of_how_many_rows():
    rows = [(number,) for number in range(30)]
    assert first_rows(20, ["number"], rows, "lines") == (["number"], rows[:20], "lines, the first 20 of 30", True)
    assert first_rows(20, ["number"], rows[:20], "lines", 4000).title == "lines, the first 20 of 4,000"
    assert first_rows(30, ["number"], rows, "lines").title == "lines"
