"""Settings come in layers, and a mistake in any of them is named."""

import tomllib
from pathlib import Path

import pytest

from firmlake.core.errors import SettingsError
from firmlake.core.settings import Settings, changed_keys
from firmlake.core.settings_layers import load_settings, render_changes, render_toml


def load(toml: str = "", flags: dict[str, str] | None = None, **environment: str) -> Settings:
    path = Path("settings.toml")
    path.write_text(toml)
    return load_settings(path, flags, environment)[0]


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_each_layer_overrides_the_one_before():
    toml = "[api]\nthreads = 2\ntries = 2\nlanguage = 'NL'"
    settings = load(toml, {"api.threads": "4"}, FIRMLAKE_API__THREADS="3", FIRMLAKE_API__TRIES="3")
    assert (settings.api.threads, settings.api.tries, settings.api.language) == (4, 3, "NL")
    assert settings.api.page_limit_max == Settings().api.page_limit_max


def test_what_a_first_contact_found_stands_where_a_file_only_repeats_defaults():
    profile = Path("data/state/profile.toml")
    profile.parent.mkdir(parents=True)
    profile.write_text("[api]\npage_limit_max = 77\ncompanies_per_request = 20\nrecords_per_request = 77\n")
    every_default = render_toml(Settings())
    assert load(every_default).api.page_limit_max == 77
    assert load(every_default.replace("page_limit_max = 500", "page_limit_max = 40")).api.page_limit_max == 40
    assert load(every_default, FIRMLAKE_API__PAGE_LIMIT_MAX="500").api.page_limit_max == 500
    assert load(every_default, {"api.companies_per_request": "50"}).api.companies_per_request == 50


def test_texts_of_environment_and_flags_become_the_type_of_the_key():
    settings = load(
        flags={"run.datasets": "financials, lookalikes", "api.keep_leading_zero": "true"},
        FIRMLAKE_RUN__FAIL_ON="0.05",
        FIRMLAKE_API__REQUESTS__LOOKALIKES='POST /x\n\n["{number}"]',
    )
    assert settings.run.datasets == ("financials", "lookalikes")
    assert load(flags={"run.datasets": '["financials", "lookalikes"]'}).run.datasets == settings.run.datasets
    for table in ('{"a.b[]" = "c", x.y = "z"}', "a.b[]=c, x.y = z"):
        assert load(flags={"contract.rename": table}).contract.rename == {"a.b[]": "c", "x.y": "z"}
    assert settings.api.keep_leading_zero is True
    assert settings.run.fail_share == 0.05
    assert settings.api.requests.lookalikes == 'POST /x\n\n["{number}"]'


OWN = {
    "a header": (
        {"financials": "GET /v1/{country}/{number}?n={limit}&from={offset}\nX-Tongue: {language}"},
        {"lookalikes": 'POST /v1/companies/lookalikes\nX-Tongue: {language}\n\n{"companies": '
         '[{"countryCode": "{country}", "companyNumber": "{number}"}]}'},
    ),
    "a body": (
        {"financials": 'POST /financials/q?n={limit}\nX-Client: me\n\n'
         '{"in": {"page": {"from": {offset}}, "ids": ["{number}"]}}'},
        {"relationships": 'POST /relationships/q\nX-Client: me\n\n{"in": {"ids": ["{number}"]}}'},
    ),
    "without pages": (
        {"lookalikes": 'POST /lookalikes\n\n{"ids": ["{number}"]}'},
        {"financials": 'POST /financials\n\n{"ids": ["{number}"], "limit": {limit}, "offset": {offset}}'},
    ),
    "another of its own": (
        {"financials": 'POST /financials?n={limit}&from={offset}\n\n["{number}"]',
         "lookalikes": 'POST /a\n\n["{number}"]'},
        {"lookalikes": 'POST /a\n\n["{number}"]', "relationships": 'POST /relationships\n\n["{number}"]'},
    ),
    "pages where only financials have them": (
        {"financials": 'POST /financials\nX-Size: {limit}\nX-From: {offset}\n\n["{number}"]'},
        {"lookalikes": Settings().api.requests.lookalikes},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OWN)
def test_datasets_without_an_example_of_their_own_follow_the_one_that_is_given(name: str) -> None:
    given, followed = OWN[name]
    settings = load(flags={f"api.requests.{dataset}": text for dataset, text in given.items()})
    assert {dataset: getattr(settings.api.requests, dataset) for dataset in followed} == followed
    assert {dataset: getattr(settings.api.requests, dataset) for dataset in given} == given


@pytest.mark.parametrize(
    ("toml", "flags", "environment", "named"),
    [
        ("[api]\nthread = 2", {}, {}, "Did you mean api.threads"),
        ("[apis]\nthreads = 2", {}, {}, "Did you mean api?"),
        ("threads = 2", {}, {}, "Did you mean api.threads"),
        ("[api]\nthreads = 'two'", {}, {}, "api.threads (settings.toml)"),
        ("[api]\nthreads = '2'", {}, {}, "api.threads (settings.toml)"),
        ("[api]\nthreads = 0", {}, {}, "api.threads (settings.toml)"),
        ("[api\n", {}, {}, "settings.toml is not TOML"),
        ("", {"run.max_credit": "1"}, {}, "Did you mean run.max_credits"),
        (
            "",
            {"run.max_credits": "many"},
            {},
            "s (--set run.max_credits) does not fit: Expected a whole number, got text",
        ),
        ("", {}, {"FIRMLAKE_API__THREDS": "2"}, "Did you mean FIRMLAKE_API__THREADS"),
        ("", {}, {"FIRMLAKE_TOKEN": "x"}, "Did you mean FIRMLAKE_API_TOKEN"),
        ("", {}, {"FIRMLAKE_RUN__FAIL_ON": "some"}, "run.fail_on (FIRMLAKE_RUN__FAIL_ON)"),
        ("", {"run.fail_on": "1.5"}, {}, "run.fail_on"),
        ("", {"run.datasets": "finance"}, {}, "does not fit: choose from financials, lookalikes, relationships"),
        ("[intake]\ndefault_country = 'DE'", {}, {}, 'does not fit: choose from "", BE, NL, FR'),
        ("[run]\ndatasets = []", {}, {}, "Expected `array` of length >= 1"),
        ("", {"run.datasets": f"[{'1' * 5000}]"}, {}, "run.datasets"),
        ("", {"run.datasets": "[" * 3000}, {}, "run.datasets"),
        ("", {"contract.rename": '{"a" = '}, {}, "contract.rename (--set contract.rename) does not fit"),
        ("", {"api.requests.contacts": "PUT /x"}, {}, "api.requests.contacts is not a request: it has no {"),
        ("", {"api.names.limit": "size"}, {}, "Show the whole request in api.requests instead"),
        ("", {"api.records_per_request": "50"}, {}, "smaller than api.companies_per_request"),
    ],
)
def test_a_mistake_is_named_with_its_place_and_the_nearest_right_key(toml, flags, environment, named):
    with pytest.raises(SettingsError) as caught:
        load(toml, flags, **environment)
    assert named in str(caught.value)


def test_a_wrong_value_is_not_repeated_because_it_may_be_a_token():
    with pytest.raises(SettingsError) as caught:
        load(FIRMLAKE_API__THREADS="s3cret")
    assert "s3cret" not in str(caught.value)


def test_a_settings_file_that_was_named_must_exist():
    with pytest.raises(SettingsError, match="No such file"):
        load_settings(Path("absent.toml"), environment={})
    with pytest.raises(SettingsError, match="No such file"):
        load_settings(environment={"FIRMLAKE_CONFIG": "absent.toml"})


def test_the_secrets_are_no_settings():
    load(FIRMLAKE_API_TOKEN="x", FIRMLAKE_API_TOKEN_FILE="y", FIRMLAKE_CONFIG="settings.toml")
    with pytest.raises(SettingsError, match="is not a setting"):
        load("[api]\ntoken = 'x'")


def test_rendered_settings_read_back_the_same():
    settings = load(flags={"run.datasets": "lookalikes", "api.base_url": 'https://a"b', "run.fail_on": "0.25"})
    assert load(render_toml(settings)) == settings
    assert changed_keys(settings) == ["api.base_url", "run.datasets", "run.fail_on"]


def test_the_committed_file_holds_every_default():
    root = Path(__file__).parents[2]
    assert (root / "config/firmlake.toml").read_text() == render_toml(Settings())


def test_the_sandbox_file_differs_only_in_where_things_are():
    settings, _ = load_settings(Path(__file__).parents[2] / "config/sandbox.toml", environment={})
    assert changed_keys(settings) == ["api.base_url", "paths.data"]


@pytest.mark.parametrize("text", ["gone\x7f", "\x00\x1b[31m", "two\nlines'", "two\n\x7flines", "'''\n", "\u2028\u202e"])
def test_a_message_of_the_service_is_read_back_as_it_was(text):
    written = render_changes({"api.names.not_found_message": text}, {})
    assert tomllib.loads(written) == {"api": {"names": {"not_found_message": text}}}
