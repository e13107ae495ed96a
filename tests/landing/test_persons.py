"""Who made a list is replaced in an answer, and nothing else of it."""

from __future__ import annotations

import pytest

from firmlake.errors import SettingsError
from firmlake.landing.persons import concealer
from firmlake.settings import ListSettings

BODY = '{"data": [{"id":1, "createdBy" : "An.Peeters@example.com","name":"a \\"createdBy\\" é"}], "x": 1.10}'.encode()


def test_the_rest_of_the_answer_stays_byte_for_byte(folders):
    assert concealer(ListSettings(created_by="as_is"), folders)(BODY) == BODY
    omitted = concealer(ListSettings(created_by="omit"), folders)(BODY)
    assert omitted == BODY.replace(b'"An.Peeters@example.com"', b"null")
    before, after = BODY.split(b"An.Peeters@example.com")
    hashed = concealer(ListSettings(), folders)(BODY)
    assert hashed.startswith(before)
    assert hashed.endswith(after)


def test_a_person_has_one_hash_under_a_key_and_another_under_another(folders, tmp_path):
    hide = concealer(ListSettings(), folders)
    assert (
        hide(b'"createdBy":"a@example.com"') == hide(b'"createdBy":"A@Example.com"') != hide(b'"createdBy":"b@x.com"')
    )
    other = tmp_path / "key"
    other.write_text("k" * 64)
    settings = ListSettings(created_by_key_file=str(other))
    assert concealer(settings, folders)(BODY) != hide(BODY)


@pytest.mark.parametrize("end", range(1, 30))
def test_an_answer_cut_within_the_value_shows_none_of_it(folders, end):
    part = b'{"createdBy":"secret.person\\u00e9@example.com"}'[: 13 + end]
    for mode in ("hash", "omit"):
        assert b"secret"[: max(end - 1, 1)] not in concealer(ListSettings(created_by=mode), folders)(part)[13:]


def test_a_key_that_cannot_be_used_is_an_error_that_names_it(folders, tmp_path):
    path = tmp_path / "key"
    path.write_text("short")
    with pytest.raises(SettingsError, match=str(path)):
        concealer(ListSettings(created_by_key_file=str(path)), folders)
    with pytest.raises(SettingsError, match="directory"):
        concealer(ListSettings(created_by_key_file=str(tmp_path)), folders)
