"""What answers lose before they land: names of persons, and who made a list of the service; nothing else changes."""

from __future__ import annotations

import json

import pytest

from firmlake.core.errors import SettingsError
from firmlake.core.settings import ContractSettings, ListSettings, PrivacySettings
from firmlake.privacy.persons import answer_filter, concealer
from support import ACME, BOLT, CIRC, body, found, party

from .test_cleaning import with_keys


def masked(folders, persons, *elements):
    return json.loads(answer_filter(PrivacySettings(persons=persons), folders, ContractSettings())(body(*elements)))


JAN = party(None, name="Jan Peeters", percentage=0.6)


def test_kept_names_land_byte_for_byte(folders):
    content = body(found(ACME, "relationships", JAN))
    assert answer_filter(PrivacySettings(), folders, ContractSettings())(content) is content
    assert not folders.state.exists()


def test_a_hash_is_the_same_for_a_person_everywhere_and_needs_the_key(folders, tmp_path):
    other = party(None, name="PEETERS Jan", percentage=0.1)
    acme, bolt = masked(folders, "hash", found(ACME, "relationships", JAN), found(BOLT, "relationships", other))
    name = acme["data"]["parents"][0]["name"]
    assert name.startswith("person-")
    assert bolt["data"]["parents"][0]["name"] == name
    assert acme["data"]["parents"][0]["percentage"] == 0.6
    key = tmp_path / "other.key"
    key.write_text("k" * 64)
    [again] = json.loads(
        answer_filter(PrivacySettings(persons="hash", key_file=str(key)), folders, ContractSettings())(
            body(found(ACME, "relationships", JAN))
        )
    )
    assert again["data"]["parents"][0]["name"] != name


def test_the_key_is_for_its_owner_alone(folders):
    masked(folders, "hash", found(ACME, "relationships", JAN))
    assert (folders.state / "privacy.key").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("name", [str, str.capitalize])
def test_a_dropped_name_leaves_an_anonymous_party(folders, name):
    owned, left = (
        with_keys(found(ACME, "relationships", jan, party(CIRC, name="Circ SA")), name)
        for jan in (JAN, {**JAN, "name": None})
    )
    assert masked(folders, "drop", owned) == [left]


@pytest.mark.parametrize(
    "identifier",
    [
        {"identifier": {"country": "BE", "companyNumber": 403227515}},
        {"companyId": {"country": "FR", "companyNumber": "552032534"}},
        {"country": "NL", "companyNumber": "24202194"},
        {"companyId": "NL24202194"},
    ],
)
def test_a_party_with_a_company_number_anywhere_is_no_person(folders, identifier):
    record = {"name": "Acme", "percentage": 1, **identifier}
    element = found(ACME, "relationships", record)
    assert masked(folders, "drop", element) == [element]


@pytest.mark.parametrize(
    ("known", "is_masked"),
    [
        ("director", True),
        ("createdByV2", True),
        ("contactPerson", True),
        ("email", True),
        ("sortBy", False),
        ("ownerType", False),
        ("activity", False),
    ],
)
def test_unknown_fields_are_masked_as_far_as_their_keys_tell(folders, known, is_masked):
    element = {**found(ACME, "financials", {"startDate": "2024-01-01"}), "more": {known: ["Jan Peeters", 5]}}
    [acme] = masked(folders, "drop", element)
    assert acme["more"] == {known: [None, 5]} if is_masked else {known: ["Jan Peeters", 5]}
    assert {**acme, "more": 0} == {**element, "more": 0}


def test_a_name_in_parts_is_masked_in_all_of_them(folders):
    record = {"identifier": None, "person": {"firstName": "Jan", "lastName": "Peeters"}, "percentage": 0.5}
    [acme] = masked(folders, "drop", found(ACME, "relationships", record))
    assert "Peeters" not in json.dumps(acme)


def test_an_answer_that_was_cut_and_may_name_a_person_is_emptied(folders):
    content = body(found(ACME, "relationships", JAN))
    cut = content[: content.index(b"Peeters") + 4]
    assert answer_filter(PrivacySettings(persons="drop"), folders, ContractSettings())(cut) == b""


def test_a_name_under_a_key_that_the_settings_rename_is_masked(folders):
    holder = party(None, percentage=0.6)
    holder["holder"] = holder.pop("name", None) or "Jan Peeters"
    contract = ContractSettings(rename={"relationships.holder": "name"})
    clean = answer_filter(PrivacySettings(persons="drop"), folders, contract)
    (element,) = json.loads(clean(body(found(ACME, "relationships", holder))))
    assert element["data"]["parents"][0]["holder"] is None


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
    for content in (concealed, *(hide(text.encode()[:end], created_by=mode) for end in range(30, len(text), 7))):
        assert not [word for word in (b"boss", b"Boss", b"Big", b"exam") if word in content]
    shape = json.loads(text)
    if isinstance(shape, dict):
        assert [one.keys() for one in json.loads(concealed)["data"]] == [one.keys() for one in shape["data"]]


def test_what_is_no_person_stays_and_so_does_all_where_the_maker_is_named(hide):
    answered = (
        b'{"data":[{"id":1,"type":"STATIC","name":"n","displayName":"d","sortBy":"name","ownerType":"TEAM",'
        b'"userCount":3,"standby":"x","columns":["name"],"folder":{"label":"l","id":"7"}}]}'
    )
    assert hide(answered) == answered
    answered = b'{"data":[{"id":1,"createdBy":null,"name":"of a@b.example","reviewer":{"name":"n"},"owner":"o"}]}'
    assert hide(answered) == answered
