"""What the flatteners add to the records: doubles, codes, ranks, kinds, numbers in normal form."""

from __future__ import annotations

import json

import polars as pl
import pytest
from msgspec import Raw

from firmlake.api.contract import DATASETS
from firmlake.landing.progress import Part
from firmlake.tables.flatten import FLATTEN, gather, payload_hash, with_normal_numbers
from support import ACME, CIRC, NOON, lookalike, party, period


def raws(*records):
    return [Raw(json.dumps(record, separators=(",", ":")).encode()) for record in records]


def answered(company, group, *pages):
    return company, [Part(f"r{n}", NOON, {group: raws(*page)}) for n, page in enumerate(pages)]


def related(company, parents=(), children=()):
    return company, [Part("r", NOON, {"parent": raws(*parents), "child": raws(*children)})]


def flatten(dataset, *answers):
    """The tables of a dataset, and its records by group."""
    gathered = {group: gather(dataset, group, dict(answers)) for group in DATASETS[dataset].groups}
    return FLATTEN[dataset](gathered), gathered


def test_filings_are_numbered_by_the_day_they_were_received():
    days = ["2025-09-01", "2025-07-01", "2025-09-01", None]
    tables, _ = flatten("financials", answered(ACME, "period", [period(dateReceived=day) for day in days]))
    numbers = tables["financials"].sort("position")["dup_no"].to_list()
    assert numbers == [3, 1, 2, 0], "no date is the oldest; of one day the answer names the newest first"


def test_codes_belong_to_their_filing_and_keep_their_place():
    first, second = period(jointCommitteeCodes=["0200", "7", "0200"]), period(jointCommitteeCodes=["1"])
    none, null = period(2020, jointCommitteeCodes=[]), period(2019, jointCommitteeCodes=None)
    tables, _ = flatten("financials", answered(ACME, "period", [first, none, null, second]))
    codes = tables["financial_joint_committees"].select("dup_no", "position", "code").rows()
    assert codes == [(1, 0, "0200"), (1, 1, "7"), (1, 2, "0200"), (0, 0, "1")]


def test_a_rejected_record_leaves_its_place_empty():
    pages = [lookalike(score=0.9), {"score": 1}], [lookalike(score=0.7)]
    tables, gathered = flatten("lookalikes", answered(ACME, "lookalike", *pages))
    assert tables["lookalikes"].select("rank", "score").rows() == [(1, 0.9), (3, 0.7)]
    assert gathered["lookalike"].rejects.select("position", "request_id").rows() == [(1, "r0")]


@pytest.mark.parametrize(
    ("record", "kind"),
    [
        (party(), "company"),
        (party(name=None), "company"),
        (party(None), "named_party"),
        (party(None, name=""), "named_party"),
        (party(None, name=None), "anonymous"),
        ({"identifier": None}, "anonymous"),
        (party(identifier__companyNumber=None), "named_party"),
        (party(identifier__companyNumber=None, identifier__name=None, name=None), "anonymous"),
        (party(identifier__companyNumber=None, name=None), "named_party"),
        ({"function": "SHAREHOLDER", "name": "Jan Peeters"}, "named_party"),
        ({"identifier": None, "name": "Jan Peeters", "born": 1970}, "named_party"),
        ({"companyId": None, "function": "SHAREHOLDER", "percentage": 0.5, "name": "Jan Peeters"}, "named_party"),
        ({"entity": "BE-403091220", "function": "SHAREHOLDER", "percentage": 0.5, "name": "Fille SA"}, "unknown"),
        ({"identifier": None, "function": "SHAREHOLDER", "x-source": "registry"}, "anonymous"),
        ({"x-source": "registry"}, "unknown"),
        (party(identifier="NL26123581"), "company"),
        ({"companyId": "NL26123581", "name": "Fille SA"}, "company"),
        ({"companyId": "LU26123581", "name": "Fille SA"}, "unknown"),
        ({"identifier": "26123581", "name": "Fille SA"}, "unknown"),
        ({"identifier": {"land": "NL", "nummer": "26123581"}, "name": "Fille SA"}, "company"),
        ({"identifier": None, "companyId": {"land": "NL"}, "name": "Fille SA"}, "unknown"),
        ({"identifier": {"companyNumber": "26123581"}, "name": "Fille SA"}, "unknown"),
    ],
)
def test_a_related_party_is_a_company_somebody_or_nobody_or_of_another_shape(record, kind):
    for count in (1, 30):  # one by one, and together
        for parents, children in (([record] * count, []), ([], [record] * count)):
            tables, _ = flatten("relationships", related(ACME, parents, children))
            assert tables["relationships"]["related_kind"].to_list() == [kind] * count
            if kind == "unknown" and not record.keys() & {"identifier", "companyId"}:
                kept = [json.loads(text) for text in tables["relationships"]["extra_json"]]
                undocumented = record.keys() - {"identifier", "function", "percentage", "name"}
                assert kept == [{key: record[key] for key in undocumented}] * count


@pytest.mark.parametrize(
    ("country", "number", "normal"),
    [
        ("BE", "403227515", "0403227515"),
        ("BE", "0403227515", "0403227515"),
        ("NL", "4202194", "04202194"),
        ("FR", "52032534", "052032534"),
        ("BE", "1", "1"),
        ("BE", "00403227515", "00403227515"),
        ("BE", "BE403227515", "0403227515"),
        ("BE", "0403.227.515", "0403227515"),
        ("NL", "nl 04202194", "04202194"),
        ("NL", "RSIN 8100", "RSIN 8100"),
        ("LU", "B123456", "B123456"),
        (
            "BE",
            "\u0664\u0660\u0663\u0662\u0662\u0667\u0665\u0661\u0665",
            "\u0664\u0660\u0663\u0662\u0662\u0667\u0665\u0661\u0665",
        ),
        ("DE", "403227515", "403227515"),
        (None, "403227515", "403227515"),
        ("BE", None, None),
    ],
)
def test_a_number_in_a_record_is_padded_where_it_is_one(country, number, normal):
    frame = pl.DataFrame({"c": [country], "n": [number]}, schema={"c": pl.String, "n": pl.String})
    assert with_normal_numbers(frame, "c", "n").rows() == [(country, normal)]


def test_equal_records_have_equal_hashes_however_they_were_paged():
    one, two = period(2023), period(2024)
    heads = [("period", b"period")]
    hashes = {payload_hash(heads, answered(ACME, "period", *pages)[1]) for pages in ([[one, two]], [[one], [two]])}
    assert len(hashes) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (related(ACME, [party()]), related(ACME, [], [party()])),
        (related(ACME, [party(), party(CIRC)]), related(ACME, [party(CIRC), party()])),
        (related(ACME, [party()]), related(ACME, [party(), party()])),
        (related(ACME), related(ACME, [{}])),
    ],
    ids=["direction", "order", "number", "none"],
)
def test_other_records_have_another_hash(one, other):
    heads = [("parent", b"parent"), ("child", b"child")]
    assert payload_hash(heads, one[1]) != payload_hash(heads, other[1])
