"""Where the token comes from and that nothing shows it."""

import copy
import pickle
import traceback

import pytest

from firmlake.api.authorization import Token, read_token
from firmlake.core.errors import SettingsError
from firmlake.core.text import redact

from .conftest import CANARY

FILE = "FIRMLAKE_API_TOKEN_FILE"


def test_the_token_comes_from_the_environment_or_the_named_file_without_its_line_end(tmp_path):
    file = tmp_path / "token"
    file.write_text(f"{CANARY}\n")
    for environment in ({"FIRMLAKE_API_TOKEN": CANARY, FILE: ""}, {FILE: str(file), "FIRMLAKE_API_TOKEN": ""}):
        assert read_token(environment).header() == f"Bearer {CANARY}"
    for environment, said in (
        ({"FIRMLAKE_API_TOKEN": ""}, "no token"),
        ({"FIRMLAKE_API_TOKEN": "x", FILE: "/x"}, "Both"),
    ):
        with pytest.raises(SettingsError, match=said):
            read_token(environment)


@pytest.mark.parametrize("length", [1, 300], ids=["short", "longer-than-a-name-of-a-file"])
def test_a_token_in_the_variable_for_its_file_is_not_quoted(length):
    with pytest.raises(SettingsError, match="FIRMLAKE_API_TOKEN_FILE names no file") as caught:
        read_token({"FIRMLAKE_API_TOKEN_FILE": CANARY * length})
    assert CANARY not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "content", [None, b"", b" \n", f"{CANARY}\n{CANARY}".encode(), f"Bearer {CANARY}".encode(), b"caf\xc3\xa9" * 9]
)
def test_an_unusable_file_is_named_but_never_quoted(tmp_path, content):
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(SettingsError) as caught:
        read_token({"FIRMLAKE_API_TOKEN_FILE": str(file)})
    shown = "".join(traceback.format_exception(caught.value))
    assert str(file) in shown
    assert CANARY not in shown


@pytest.mark.parametrize("secret", ["two words", "line\r\nX-Other: 1", "\u201cquoted\u201d", "tab\t", "\x00"])
def test_what_no_header_may_carry_is_refused(secret):
    with pytest.raises(SettingsError, match="FIRMLAKE_API_TOKEN holds characters"):
        Token(secret)


def test_no_view_of_a_token_shows_it(monkeypatch):
    monkeypatch.setenv("FIRMLAKE_API_TOKEN", CANARY)
    token = read_token()
    views = [
        repr(token),
        str(token),
        f"{token}",
        repr([token]),
        repr(pickle.dumps(token)),
        repr(token.__reduce_ex__(4)),
    ]
    assert not any(CANARY in view for view in views)
    assert copy.copy(token).header() == token.header(), "an unpickled token is read again where it is used"


def test_a_token_is_read_again_when_its_file_was_replaced_and_redacted_before_and_after(tmp_path):
    file = tmp_path / "token"
    file.write_text(CANARY)
    token = read_token({FILE: str(file)})
    assert token.reread() == token.version == 1, "not replaced"
    file.write_text("the-next-canary==")
    assert token.reread() == token.version == 2
    file.unlink()
    assert token.reread() == 2, "a file that is gone says nothing"
    assert token.header() == "Bearer the-next-canary=="
    assert redact(f"{CANARY}, the-next-canary==") == "[token], [token]"
    assert Token("fixed").reread() == 1, "the environment of a process does not change"


def test_a_key_has_one_name_at_each_service_that_does_not_give_it_away():
    name = Token(CANARY).key_hash("https://a.test")
    assert name == Token(CANARY).key_hash("https://a.test")
    assert len({name, Token("other").key_hash("https://a.test"), Token(CANARY).key_hash("https://b.test")}) == 3
    assert CANARY not in name
