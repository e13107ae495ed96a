"""Who made a list of the service is concealed in an answer, and no other value of it changes."""

from __future__ import annotations

import json

import pytest

from firmlake.core.errors import SettingsError
from firmlake.core.settings import ListSettings
from firmlake.privacy.persons import concealer

KNOWN = {"id", "name", "type", "columns", "notifications", "createdBy"}
BODY = '{"data":[{"id":1,"createdBy":"An.Peeters@example.com","name":"a \\"createdBy\\" é"}],"x":1.10}'.encode()


@pytest.fixture
def hide(folders):
    return lambda body, **settings: concealer(ListSettings(**settings), folders, KNOWN)(body)


def test_the_rest_of_the_answer_stays(hide):
    assert hide(BODY, created_by="as_is") == BODY
    assert hide(BODY, created_by="omit") == BODY.replace(b'"An.Peeters@example.com"', b"null")
    before, after = BODY.split(b"An.Peeters@example.com")
    assert hide(BODY).startswith(before)
    assert hide(BODY).endswith(after)


def test_a_person_has_one_hash_under_a_key_and_another_under_another(hide, tmp_path):
    one, same, other = (hide(BODY.replace(b"An.Peeters@", name)) for name in (b"a@", b"A@", b"b@"))
    assert one == same != other
    path = tmp_path / "key"
    path.write_text("k" * 64)
    assert hide(BODY, created_by_key_file=str(path)) != hide(BODY)
    path.write_text("short")
    for wrong, says in ((path, str(path)), (tmp_path, "directory")):
        with pytest.raises(SettingsError, match=says):
            hide(BODY, created_by_key_file=str(wrong))


PAGE = '{"data":[{"id":1,"name":"n"},{"id":2,%s,"columns":["name"]}],"pagination":{"total":2}}'
SECRETS = [
    # An address in another shape or place.
    PAGE % '"createdBy":{"email":"boss@example.com","name":"Big } \\" Boss"}',
    PAGE % '"createdBy": ["boss@example.com", {"x": ["Big Boss"]}]',
    PAGE % '"createdByV2":"boss@example.com","name":"of \\"boss@example.com\\""',
    PAGE % '"createdBy":null,"notifications":{"to":"a\\nboss\\u0040example.com"}',
    '[{"id":1,"owner":"boss@example.com"}]',
    # A name in a field that may be the maker's.
    *(
        PAGE % field
        for field in (
            '"createdByV2":"Big Boss"', '"created_by":["Big Boss"]', '"OWNER":"Big Boss"',
            '"listOwner":{"label":"Big Boss"}', '"origin":{"firstName":"Big","name":"B\\u006fss"}',
            '"notifications":{"enabled":true,"users":["Big Boss"]}', '"\\u006fwner":"Big Boss"',
        )
    ),
]  # fmt: skip


@pytest.mark.parametrize("mode", ["hash", "omit"])
@pytest.mark.parametrize("text", SECRETS)
def test_a_person_is_concealed_wherever_one_may_stand_and_also_in_an_answer_that_was_cut(hide, text, mode):
    concealed = hide(text.encode(), created_by=mode)
    for body in (concealed, *(hide(text.encode()[:end], created_by=mode) for end in range(30, len(text), 7))):
        assert not [word for word in (b"boss", b"Boss", b"Big", b"exam") if word in body]
    shape = json.loads(text)
    if isinstance(shape, dict):
        assert [one.keys() for one in json.loads(concealed)["data"]] == [one.keys() for one in shape["data"]]


def test_what_is_no_person_stays_and_so_does_all_where_the_maker_is_named(hide):
    body = (
        b'{"data":[{"id":1,"type":"STATIC","name":"n","displayName":"d","sortBy":"name","ownerType":"TEAM",'
        b'"userCount":3,"standby":"x","columns":["name"],"folder":{"label":"l","id":"7"}}]}'
    )
    assert hide(body) == body
    body = b'{"data":[{"id":1,"createdBy":null,"name":"of a@b.example","reviewer":{"name":"n"},"owner":"o"}]}'
    assert hide(body) == body
