"""What is forgotten goes from documents and tables, in any spelling, and every other digit and key stays."""

from __future__ import annotations

import json
import re
from urllib.parse import quote

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmlake.core.company import Company
from firmlake.core.errors import DamagedError
from firmlake.core.folders import Folders
from firmlake.core.settings import PrivacySettings
from firmlake.privacy.cleaning import clean_frame, clean_json
from firmlake.privacy.document import GONE, read, rewrite, write
from firmlake.privacy.forgotten import FORGOTTEN, Forgotten
from firmlake.privacy.tombstones import Subject, add_tombstones, lift, read_register, write_register
from support import ACME, BOLT, CIRC, NOON, body, found, lookalike, party


def person(name: str, company=None) -> Subject:
    return Subject("person", name, company)


@pytest.fixture
def forget(folders: Folders):
    """Make what knows that these subjects are forgotten; nothing is written but the key."""
    return lambda *subjects: Forgotten(*add_tombstones(PrivacySettings(), folders, subjects, NOON))


SPELLINGS = [
    "José Álvarez",
    "ÁLVAREZ, José",
    "jose alvarez",
    "Jose\u0301 A\u0301lvarez",
    "jose.alvarez@example.com",
    "José_Álvarez (1961)",
    "https://example.com/" + quote("José Álvarez"),
    "Jos&eacute; &Aacute;lvarez",
    "Jos&#233; &#xC1;lvarez",
    "\U0001d409os\U0001d41e \U0001d400lvarez",
    "<b>José</b> <i class='x'>Álvarez</i>",
    "José<!-- first name -->Álvarez",
    "Jo\u00adsé Álvarez",
    "José\u200b Álva\u200brez",
    "José\u200bÁlvarez",
    "José\u200bÁlva\u200brez",
    "Jo\u2060sé\ufeffÁlva\u200crez",
    "Álvarez\u200b\u200dJos\u200bé\u200bBV",
    "\u202eJo\u200dsé\ufeff Ál\u2060va\ufe0frez\u200f",
    "Jos%C3%A9 %C3%81l%E2%80%8Bvarez",
    json.dumps({"note": ["José Álvarez"]}),
    json.dumps(json.dumps("José Álvarez")),
]


NAMES = {
    "José Álvarez": ("lvarez", SPELLINGS, ["José Peeters"]),
    # Names that differ in digits are different names.
    "Natural person Party 23515": ("23515", [], ["Natural person Party 23516", "Natural person Party 2351"]),
    "jan@example.com": ("jan@", [], ["jan1@example.com", "an@example.com"]),
    "jan1@example.com": ("jan1", [], ["jan@example.com", "1jan@example.com", "jan2@example.com"]),
    "Person =1+1": ("1+1", [], ["Person =1+2", "Person =11", "Person"]),
    # Letters that do not decompose are those that names spell without them.
    "Anne Lebœuf": ("uf", ["LEBOEUF Anne"], []),
    "LEBOEUF Anne": ("uf", ["Anne Lebœuf"], []),
    "Soren Ostergard": ("ren", ["Søren Østergård"], []),
    "Søren Østergård": ("ren", ["Soren Ostergard"], []),
    "Elif Y\u0131ld\u0131z": ("ld", ["YILDIZ Elif"], []),
    "YILDIZ Elif": ("ld", ["Elif Y\u0131ld\u0131z"], []),
}
"""Names; letters of which nothing may be left, other spellings, and texts that are no spelling of it."""


@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_a_name_goes_in_every_spelling_and_no_other_name_does(forget, name, ascii_only):
    forgotten, (letters, spelled, others) = forget(person(name)), NAMES[name]
    for text in (name, name.upper(), f"see: {name}", *spelled):
        content = json.dumps({"a": text, text: 1, "kept": others}, ensure_ascii=ascii_only).encode()
        cleaned = clean_json(content, forgotten)
        left = json.loads(cleaned)
        assert letters not in cleaned.decode().lower(), text
        assert (left["kept"], len(left)) == (others, 3)
        assert clean_json(cleaned, forgotten) is cleaned
    kept = json.dumps([*others, dict.fromkeys(others, 1)]).encode()
    assert clean_json(kept, forgotten) is kept


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (  # First and last name in values of their own.
            b'{"director": {"firstName": "Jan", "x": 3, "lastName": "Peeters"}, "other": ["Jan", "Peeters BV"]}',
            b'{"director":{"firstName":null,"x":3,"lastName":null},"other":["Jan","Peeters BV"]}',
        ),
        (  # Everything else keeps its digits, keys and order.
            b'[{"name":"Jan Peeters","stake":0.50,"e":1e5,"n":-0,"big":123456789012345678901234567890.10,"x":NaN,'
            b'"half":"\\ud83d","name":"twice","b\xff":"\\u0000"},{"name":"Jan Peeters NV"}]',
            b'[{"name":null,"stake":0.50,"e":1e5,"n":-0,"big":123456789012345678901234567890.10,"x":NaN,'
            b'"half":"\\ud83d","name":"twice","b\xff":"\\u0000"},{"name":"[forgotten] NV"}]',
        ),
        (b"<p>Jan Peeters, G\xe9rant</p>", b"<p>[forgotten], G\xe9rant</p>"),  # What is no JSON is a text.
    ],
)
def test_only_matched_values_change(forget, before, after):
    assert clean_json(before, forget(person("jan peeters"))) == after


def test_a_person_may_be_forgotten_about_one_company_only(forget):
    forgotten = forget(person("Jan Peeters", ACME))
    both = [found(each, "relationships", party(None, name="Jan Peeters")) for each in (ACME, BOLT)]
    acme, bolt = json.loads(clean_json(body(*both), forgotten))
    assert acme["data"]["parents"][0]["name"] is None
    assert bolt == both[1]


CASES = {
    "as specified": str,
    "number": lambda key: "number" if key == "companyNumber" else key,
    "snake": lambda key: re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", key),
    "pascal": lambda key: key[0].upper() + key[1:],
}


def with_keys(content, name):
    if isinstance(content, dict):
        return {name(key): with_keys(value, name) for key, value in content.items()}
    return [with_keys(each, name) for each in content] if isinstance(content, list) else content


@pytest.mark.parametrize("envelope", ["", "data"])
@pytest.mark.parametrize("name", CASES.values(), ids=CASES)
def test_a_forgotten_company_leaves_structures_and_counts_as_they_were(forget, name, envelope):
    """Whatever its keys are called, and wherever the array stands."""

    def left_of(*elements):
        content = with_keys({envelope: [*elements]} if envelope else [*elements], name)
        cleaned = json.loads(clean_json(json.dumps(content).encode(), forgotten))
        return cleaned[name(envelope)] if envelope else cleaned

    forgotten = forget(Subject("company", "", BOLT))
    owned = found(ACME, "relationships", party(BOLT, name="Bolt BV", percentage=0.5), party(CIRC))
    [left] = left_of(owned, found(BOLT, "relationships"))
    lost = {"identifier": None, "function": "SHAREHOLDER", "percentage": 0.5, "name": None}
    assert left[name("data")][name("parents")] == with_keys([lost, owned["data"]["parents"][1]], name)
    similar = found(ACME, "lookalikes", lookalike(CIRC, 0.9), lookalike(BOLT), lookalike(CIRC, 0.1), lookalike(BOLT))
    [left] = left_of(similar)
    assert [record[name("score")] for record in left[name("data")]] == [0.9, 0.1]


@pytest.mark.parametrize("number", ["0403227515", "403227515", "BE0403.227.515", "0403 227 515", "n° 0403-227-515"])
def test_a_company_number_goes_in_every_spelling(forget, number):
    content = json.dumps({"a": number, "b": f"{number}, Gent", "date": "2024-01-01"}, ensure_ascii=False).encode()
    cleaned = clean_json(content, forget(Subject("company", "", ACME)))
    left = json.loads(cleaned)
    assert b"227" not in cleaned
    assert FORGOTTEN in left["b"]
    assert left["b"].endswith(", Gent")
    assert left["date"] == "2024-01-01"


def test_a_contact_goes_where_contacts_stand_and_nowhere_else(forget):
    forgotten = forget(Subject("contact", "4711"))
    cleaned = json.loads(
        clean_json(b'{"contacts": ["4711", "4712"], "contactId": 4711, "cash": 4711, "place": "4711"}', forgotten)
    )
    mark = cleaned["contactId"]
    assert mark.startswith("forgotten-")
    assert cleaned == {"contacts": [mark, "4712"], "contactId": mark, "cash": 4711, "place": "4711"}
    assert clean_frame(pl.DataFrame({"contact_id": ["4711", "4712"]}), forgotten).rows() == [(mark,), ("4712",)]


@pytest.mark.parametrize("end", range(1, 30, 7))
def test_an_answer_that_was_cut_and_names_a_forgotten_person_is_emptied(forget, end):
    content = body(found(ACME, "relationships", party(None, name="Jan Peeters")))
    cut = content[: content.index(b"Jan Peeters") + len("Jan Peeters") + end]
    assert clean_json(cut, forget(person("Jan Peeters"))) == b""
    assert clean_json(cut, forget(person("An Maes"))) is cut


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.sampled_from(["Jan Peeters", "Peeters", "Jan"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@pytest.fixture(scope="module")
def jan(tmp_path_factory) -> Forgotten:
    folders = Folders(tmp_path_factory.mktemp("key"))
    return Forgotten(*add_tombstones(PrivacySettings(), folders, [person("Jan Peeters")], NOON))


@given(_VALUES)
def test_cleaning_gives_valid_json_once_and_for_all(jan, value):
    content = json.dumps(value).encode()
    cleaned = clean_json(content, jan)
    json.loads(cleaned)
    assert clean_json(cleaned, jan) == cleaned
    assert "Jan Peeters" not in cleaned.decode()


@given(_VALUES)
def test_a_document_that_nothing_changes_is_written_as_it_was_read(value):
    content = json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")
    assert write(rewrite(read(content), lambda place: place.value)) == content


@given(st.lists(st.booleans() | st.none()))
def test_elements_of_an_array_can_be_removed_in_any_number(values):
    left = rewrite(values, lambda place: GONE if place.value is True else place.value)
    assert left == [value for value in values if value is not True]


@pytest.mark.parametrize("column", ["list_name", "rule", "says", "condition"])
def test_the_names_of_a_list_and_of_a_rule_are_no_data_about_one_of_its_companies(forget, column):
    """They stand in the plan of the run, which is about no company: both must be cleaned, or neither."""
    lines = pl.DataFrame(
        [(*company, "for_jan_peeters", "Jan Peeters") for company in (ACME, BOLT)],
        ("country", "company_number", column, "columns"),
        orient="row",
    )
    about_acme = clean_frame(lines, forget(Subject("person", "Jan Peeters", ACME)))
    assert about_acme[column].to_list() == ["for_jan_peeters", "for_jan_peeters"]
    assert about_acme["columns"].to_list() == [None, "Jan Peeters"]
    assert clean_frame(lines, forget(person("Jan Peeters")))[column].to_list() == ["for_[forgotten]"] * 2


def test_a_party_that_loses_its_name_is_anonymous_in_a_table(forget):
    nothing = pl.lit(None, pl.String)
    parties = pl.DataFrame({"related_name": ["Jan Peeters", "Jan Maes"], "related_kind": "named_party"}).with_columns(
        related_country=nothing, related_company_number=nothing, related_identifier_name=nothing
    )
    left = clean_frame(parties, forget(person("Jan Peeters"))).select("related_name", "related_kind").rows()
    assert left == [(None, "anonymous"), ("Jan Maes", "named_party")]


def test_a_register_that_is_gone_is_missed_if_there_are_receipts(folders):
    assert read_register(PrivacySettings(), folders) is None
    receipt = folders.state / "receipts" / "20260105T120000Z.json"
    receipt.parent.mkdir(parents=True)
    receipt.write_text("{}")
    with pytest.raises(DamagedError, match=f"{folders.tombstones} is missing"):
        read_register(PrivacySettings(), folders)


@pytest.mark.parametrize(
    ("named", "left"),
    [
        (Subject("person", "PEETERS, Jan"), 4),  # spelled in another way
        (Subject("person", "Jan Peeters", ACME), 4),
        (Subject("person", "Jan Peeters", BOLT), 5),  # forgotten elsewhere, not about this company
        (Subject("contact", "4711"), 4),
        (Subject("contact", "4712"), 5),
        (Subject("company", "", ACME), 4),
        (Subject("company", "", BOLT), 5),
    ],
    ids=str,
)
def test_lifting_takes_the_tombstone_of_this_subject_and_no_other(folders, named, left):
    persons = (person("Jan Peeters"), person("Jan Peeters", ACME), person("Jozefien Peeters"))
    subjects = [*persons, Subject("contact", "4711"), Subject("company", "", Company(*ACME))]
    register, _ = add_tombstones(PrivacySettings(), folders, subjects, NOON)
    write_register(folders, register)
    assert lift(PrivacySettings(), folders, named) is (left == 4)
    held = read_register(PrivacySettings(), folders)
    assert held
    assert len(held[0].tombstones) == left
