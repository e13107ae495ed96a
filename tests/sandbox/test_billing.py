from firmlake_sandbox.state import Account

from .calls import Api

DAY, T = 86_400, 1_800_000_000.0
CHARGED, REMAINING = "X-Credits-Charged", "X-Credits-Remaining"


def test_a_company_costs_one_credit_once_for_all_endpoints(api: Api, companies: list[str]) -> None:
    first = api.bulk("financials", companies[:50])
    assert (first.headers[CHARGED], first.headers[REMAINING]) == ("50", "999950")
    for dataset in ("financials", "lookalikes", "relationships"):
        assert api.bulk(dataset, companies[:50]).headers[CHARGED] == "0"
        assert api.single(dataset, companies[0]).headers[CHARGED] == "0"
    assert api.single("lookalikes", companies[50]).headers[CHARGED] == "1"
    ledger = api.sandbox.ledger()
    assert ledger["charges"] == dict.fromkeys(companies[:51], 1)
    assert ledger["summary"]["credits_charged"] == ledger["summary"]["companies_charged"] == 51


def test_after_thirty_days_it_costs_another(api: Api, companies: list[str]) -> None:
    api.single("financials", companies[0])
    api.sandbox.advance(30 * DAY - 60)
    assert api.single("financials", companies[0]).headers[CHARGED] == "0"
    api.sandbox.advance(120)
    assert api.single("financials", companies[0]).headers[CHARGED] == "1"
    assert api.sandbox.ledger()["charges"] == {companies[0]: 2}
    assert api.summary()["companies_charged_again"] == 1


def test_a_company_named_twice_or_in_both_spellings_costs_once(api: Api) -> None:
    assert api.bulk("lookalikes", ["BE0403227515", "BE403227515", "BE0403227515"]).headers[CHARGED] == "1"


def test_companies_not_found_are_free_unless_chosen_otherwise(api: Api) -> None:
    gone = "BE0403227516"
    assert api.single("lookalikes", gone).headers[CHARGED] == "0"
    assert api.bulk("lookalikes", [gone]).headers[CHARGED] == "0"
    unknown = never_found(api)
    api.sandbox.set_options(credits_for_unknown=True)
    assert api.bulk("lookalikes", [gone, *unknown]).headers[CHARGED] == "1"


def never_found(api: Api) -> list[str]:
    """A well-formed company that is not found."""
    from firmlake_sandbox import sample_numbers

    numbers = [country + number for country, number in sample_numbers(400)]
    elements = [one for part in range(0, 400, 100) for one in api.bulk("lookalikes", numbers[part : part + 100]).json()]
    return [number for number, element in zip(numbers, elements, strict=True) if element["message"]][:1]


def test_lists_are_free(api: Api, companies: list[str]) -> None:
    assert CHARGED not in api.call("GET", "/v1/lists").headers
    api.add_contacts(1002, {companies[0]: ["123"]})
    assert api.summary()["credits_charged"] == 0


def test_where_credits_lack_nothing_is_answered_or_charged(api: Api, companies: list[str]) -> None:
    api.sandbox.set_options(credits=10)
    answer = api.bulk("financials", companies[:11])
    assert answer.json() == {"status": 402, "message": "11 credits needed, 10 left"}
    assert (answer.status_code, answer.headers[CHARGED], answer.headers[REMAINING]) == (402, "0", "10")
    assert api.bulk("financials", companies[:10]).headers[REMAINING] == "0"
    assert api.bulk("lookalikes", companies[:10]).status_code == 200
    assert api.single("lookalikes", companies[10]).status_code == 402


def test_a_request_that_is_refused_costs_nothing(api: Api, companies: list[str]) -> None:
    api.bulk("financials", companies[:10], limit=501)
    api.bulk("lookalikes", companies[:10], limit=1)
    assert api.summary()["credits_charged"] == 0


def test_a_book_keeps_what_was_paid_when_the_process_ends(tmp_path) -> None:
    book = tmp_path / "paid"
    Account(10, 30, book).charge([1, 2], T)
    book.write_bytes(book.read_bytes() + b"cut")
    Account(10, 30, book).charge([3], T + 1000)
    assert Account(10, 30, book).find_unpaid([1, 2, 3, 4], T + 1000) == [4]
    assert Account(10, 30, book).find_unpaid([1, 2, 3, 4], T + 500 + 30 * DAY) == [1, 2, 4]
    assert book.stat().st_mode & 0o777 == 0o600
