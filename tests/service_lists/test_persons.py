"""Who made a list is replaced in an answer, and no other value of it."""

from __future__ import annotations

import json

import pytest

from firmlake.core.errors import SettingsError
from firmlake.core.settings import ListSettings
from firmlake.service_lists.overview import concealer

BODY = '{"data":[{"id":1,"createdBy":"An.Peeters@example.com","name":"a \\"createdBy\\" é"}],"x":1.10}'.encode()


def test_the_rest_of_the_answer_stays(folders):
    assert concealer(ListSettings(created_by="as_is"), folders)(BODY) == BODY
    omitted = concealer(ListSettings(created_by="omit"), folders)(BODY)
    assert omitted == BODY.replace(b'"An.Peeters@example.com"', b"null")
    before, after = BODY.split(b"An.Peeters@example.com")
    hashed = concealer(ListSettings(), folders)(BODY)
    assert hashed.startswith(before)
    assert hashed.endswith(after)


def test_a_person_has_one_hash_under_a_key_and_another_under_another(folders, tmp_path):
    hide = concealer(ListSettings(), folders)
    one, same, other = (hide(BODY.replace(b"An.Peeters@", name)) for name in (b"a@", b"A@", b"b@"))
    assert one == same != other
    other = tmp_path / "key"
    other.write_text("k" * 64)
    settings = ListSettings(created_by_key_file=str(other))
    assert concealer(settings, folders)(BODY) != hide(BODY)


@pytest.mark.parametrize("end", range(1, 30))
def test_an_answer_cut_within_the_value_shows_none_of_it(folders, end):
    part = b'{"createdBy":"secret.person\\u00e9@example.com"}'[: 13 + end]
    for mode in ("hash", "omit"):
        assert b"secret"[: max(end - 1, 1)] not in concealer(ListSettings(created_by=mode), folders)(part)[13:]


SHAPES = {
    "object": '{"data":[{"id":1,"createdBy":{"email":"boss@example.com","name":"Big } \\" Boss"},"name":"n"}]}',
    "array": '{"data":[{"id":1,"createdBy": ["boss@example.com", {"x": ["Big Boss"]}] ,"name":"n"}]}',
    "renamed": '{"data":[{"id":1,"createdByV2":"boss@example.com","name":"of \\"boss@example.com\\""}]}',
    "nested": '{"data":[{"id":1,"createdBy":null,"notifications":{"to":"a\\nboss\\u0040example.com"}}]}',
    "no page": '[{"id":1,"owner":"boss@example.com"}]',
    "cut object": '{"data":[{"id":1,"createdBy":{"name":"Big Boss","email":"boss@exam',
    "cut elsewhere": '{"data":[{"id":1,"owner":"boss@example.com","x',
}


@pytest.mark.parametrize("mode", ["hash", "omit"])
@pytest.mark.parametrize("shape", SHAPES)
def test_an_address_in_another_shape_or_place_is_replaced_too(folders, shape, mode):
    body = SHAPES[shape].encode()
    concealed = concealer(ListSettings(created_by=mode), folders)(body)
    assert not [word for word in (b"boss", b"Boss", b"exam") if word in concealed]
    if "cut" not in shape:
        json.loads(concealed)


PERSONS = [
    '"createdByV2":"Big Boss"',
    '"created_by":["Big Boss"]',
    '"OWNER":"Big Boss"',
    '"listOwner":{"label":"Big Boss"}',
    '"origin":{"firstName":"Big","name":"B\\u006fss"}',
    '"notifications":{"enabled":true,"users":["Big Boss"]}',
    '"\\u006fwner":"Big Boss"',
]


@pytest.mark.parametrize("mode", ["hash", "omit"])
@pytest.mark.parametrize("field", PERSONS)
def test_a_name_in_a_field_that_may_be_the_maker_s_is_replaced(folders, field, mode):
    hide = concealer(ListSettings(created_by=mode), folders)
    page = '{"data":[{"id":1,"name":"Big Boss"},{"id":2,%s,"columns":["name"]}],"pagination":{"total":2}}'
    body = (page % field).encode()
    concealed = json.loads(hide(body))
    assert "Big" not in str(concealed["data"][1])
    assert "oss" not in str(concealed["data"][1])
    assert concealed["data"][0] == {"id": 1, "name": "Big Boss"}
    assert concealed["data"][1].keys() == json.loads(body)["data"][1].keys()
    assert hide(body[: body.index(b"columns")]) == b""


def test_what_is_no_person_stays_and_so_does_all_where_the_maker_is_named(folders):
    hide = concealer(ListSettings(), folders)
    body = (
        b'{"data":[{"id":1,"type":"STATIC","name":"n","displayName":"d","sortBy":"name","ownerType":"TEAM",'
        b'"userCount":3,"standby":"x","columns":["name"],"folder":{"label":"l","id":"7"}}]}'
    )
    assert hide(body) == body
    body = b'{"data":[{"id":1,"createdBy":null,"reviewer":{"name":"n"},"owner":"o"}]}'
    assert hide(body) == body


def test_a_key_that_cannot_be_used_is_an_error_that_names_it(folders, tmp_path):
    path = tmp_path / "key"
    path.write_text("short")
    with pytest.raises(SettingsError, match=str(path)):
        concealer(ListSettings(created_by_key_file=str(path)), folders)
    with pytest.raises(SettingsError, match="directory"):
        concealer(ListSettings(created_by_key_file=str(tmp_path)), folders)
