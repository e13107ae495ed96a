"""`privacy.persons` replaces names before they land, and leaves structures, stakes and counts as they are."""

from __future__ import annotations

import json

import pytest

from firmlake.core.settings import ContractSettings, PrivacySettings
from firmlake.privacy.persons import answer_filter
from support import ACME, BOLT, CIRC, body, found, party


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


def test_a_dropped_name_leaves_an_anonymous_party(folders):
    [acme] = masked(folders, "drop", found(ACME, "relationships", JAN, party(CIRC, name="Circ SA")))
    assert acme["data"]["parents"] == [{**JAN, "name": None}, party(CIRC, name="Circ SA")]


@pytest.mark.parametrize(
    "identifier",
    [
        {"identifier": {"country": "BE", "companyNumber": 403227515}},
        {"companyId": {"country": "FR", "companyNumber": "552032534"}},
        {"country": "NL", "companyNumber": "24202194"},
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
