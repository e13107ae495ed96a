"""A secret is found in every spelling, nothing else is touched, and no text from outside can write on a terminal."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmlake.core import text as texts
from firmlake.core.text import PIECE_LENGTH, keep_secret, one_line, redact, redact_whole, shown
from spellings import SPELLINGS, decodings, holds_piece
from support import examples

TOKEN = "abc/def+tok/en==longer-than.a~piece_=="


@pytest.fixture(autouse=True)
def no_secrets(monkeypatch):
    """What other tests made known is no secret here."""
    monkeypatch.setattr(texts, "_secrets", {})


@pytest.mark.parametrize("spell", SPELLINGS.values(), ids=SPELLINGS)
def test_a_secret_is_redacted_in_every_spelling(spell):
    keep_secret(TOKEN)
    text = f"bad token {spell(TOKEN)}, ask for another"
    assert holds_piece(text, TOKEN), "the reader of this test can read it"
    for redacted in (redact(text), redact_whole(text.encode()).decode()):
        assert "[token]" in redacted
        assert redacted.startswith("bad token ")
        assert redacted.endswith(", ask for another")
        assert not holds_piece(redacted, TOKEN)


_BEARER = st.text(string.ascii_letters + string.digits + "-._~+/=", min_size=16, max_size=80)


@examples(40)
@given(_BEARER, st.lists(st.sampled_from([*SPELLINGS]), min_size=1, max_size=4), st.text(max_size=20))
def test_any_token_is_redacted_in_any_spellings_side_by_side(token, names, between):
    texts._secrets.clear()
    keep_secret(token)
    text = f" {between} ".join(SPELLINGS[name](token) for name in names)
    assert "[token]" in redact(text)
    whole = redact_whole(text.encode()).decode()
    assert not any(token in decoded for decoded in decodings(whole))


@examples(40)
@given(_BEARER, st.sampled_from(["plain", "json, all escaped", "percent, all", "html, all"]), st.data())
def test_a_piece_of_twelve_characters_is_redacted_in_a_message_and_stays_in_a_body(token, name, data):
    texts._secrets.clear()
    keep_secret(token)
    start = data.draw(st.integers(0, len(token) - PIECE_LENGTH))
    end = data.draw(st.integers(start + PIECE_LENGTH, len(token)))
    spelled = SPELLINGS[name](token[start:end])
    assert redact(f"<{spelled}>").count("[token]") == 1
    if token not in token[start:end]:
        assert redact_whole(f"<{spelled}>".encode()) == f"<{spelled}>".encode()


@given(st.binary(max_size=400), _BEARER)
def test_what_holds_no_secret_stays_byte_for_byte(body, token):
    texts._secrets.clear()
    keep_secret(token)
    if token.encode() not in body:
        assert redact_whole(body) == body


def test_words_are_no_secrets():
    """A secret of a few characters would change what was paid for."""
    keep_secret("secret")
    assert redact_whole(b"Secretariat, secret") == b"Secretariat, secret"


def test_a_replaced_secret_stays_one_but_not_for_ever():
    for number in range(20):
        keep_secret(f"{number:03}-token-{number:03}")
    assert redact("019-token-019 004-token-004 003-token-003") == "[token] [token] 003-token-003"


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
