"""Texts from outside cannot write on a terminal, and nothing of them is hidden from who reads them."""

from hypothesis import given
from hypothesis import strategies as st

from firmlake.core.text import one_line, shown


def test_one_line_is_one_line_of_printable_characters():
    assert one_line("a\x1b[31m\r\nb\t\x00c \u202e\u009b", 50) == "a\\x1b[31m b \\x00c \\u202e\\x9b"
    assert one_line("x" * 100, 10) == "x" * 9 + "…"


@given(st.text(alphabet=st.characters()), st.integers(1, 60))
def test_any_text_becomes_printable_and_short_enough(text, length_max):
    line = one_line(text, length_max)
    assert line.isprintable()
    assert len(line) <= length_max
    assert one_line(line, length_max) == line
    line.encode()


@given(st.text(alphabet=st.characters()))
def test_what_is_shown_keeps_every_printable_character(text):
    assert shown(text).isprintable()
    assert shown(text, kept="\n").replace("\n", "").isprintable()
    assert [c for c in text if c.isprintable()] == [c for c in text if c in shown(c)]
    if text.isprintable():
        assert shown(text) == text
