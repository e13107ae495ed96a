"""Which column holds what, by name, mapping or content."""

import shlex

import pytest

from firmlake.intake.columns import COMPANY_COLUMNS, role_of


@pytest.mark.parametrize(
    ("role", "names"),
    [
        ("country", "Country|country_code|COUNTRY ISO2|Land|landcode|Pays|Code pays|Land / Pays|country (ISO)"),
        ("company_number", "company number|companyNumber|Company No.|COMPANY_ID|registration number|bedrijfsnummer"),
        ("company_number", "Numéro de société|firmanummer|Handelsregisternummer"),
        ("enterprise_number", "ondernemingsnummer|Ondernemingsnr.|Numéro d'entreprise|N° entreprise|enterprise number"),
        ("enterprise_number", "N\u00ba d\u2019entreprise|Ondernemingsnummer / Numéro d'entreprise"),
        ("be_number", "KBO|kbo-nummer|BCE|Numéro BCE|KBO/BCE|CBE number"),
        ("nl_number", "KvK|KvK-nummer|KVK nr.|kvknummer|KvK (8 digits)|Chamber of Commerce number"),
        ("siren", "SIREN|N° SIREN|Numéro de SIREN|siren_number"),
        ("siret", "Siret|n° siret|SIRET (siège)"),
        ("vat_number", "VAT|VAT number|BTW|BTW-nummer|btw nr|TVA|N° TVA|Numéro de TVA intracommunautaire|\ufeffvat_id"),
        (None, "name|naam|company|entreprise|bedrijf|RSIN|number|Nr.|adresse|"),
    ],
)
def test_columns_are_known_by_their_names_in_three_languages(role, names):
    assert {name: role_of(name, COMPANY_COLUMNS) for name in names.split("|")} == dict.fromkeys(names.split("|"), role)


_MIXED = "BE;0403227515\nFR;552032534\nNL;17085815\n"
_MIXED_COMPANIES = [("BE", "0403227515"), ("FR", "552032534"), ("NL", "17085815")]


@pytest.mark.parametrize("header", ["KBO nr", "KVK", "SIREN", "Siret", "ondernemingsnummer", "code_kbo"])
def test_the_country_of_a_line_goes_before_the_register_that_a_mapped_header_names(read, header):
    found = read(f"Land;{header}\n{_MIXED}", number_column=header, country_column="Land")
    assert found.companies.select("country", "company_number").rows() == _MIXED_COMPANIES


def test_a_prefix_of_a_number_goes_before_the_register_that_the_header_names(read):
    assert read("siren\nBE0403227515\n").companies.row(0)[:2] == ("BE", "0403227515")


@pytest.mark.parametrize("header", ["", "Code\n"])
def test_numbers_known_by_their_check_digits_are_not_said_to_be_known_by_the_name_of_their_column(read, header):
    [guess] = read(f"{header}0403227515\n0403091220\n").guesses
    assert "recognised by their check digits" in guess
    assert "as Belgian" not in guess


def test_a_refused_number_of_a_line_with_an_empty_country_cell_says_why_it_was_read_as_that_of_a_country(read):
    refused = read("land;kbo\nBE;0403227515\n;27120091\nNL;1\n;20-09-2026\n").refused["reason"]
    assert refused[0].startswith("wrong form: a Belgian enterprise number")
    assert refused[0].endswith(
        "; its country cell is empty, so it has the country of its column's name or of intake.default_country"
    )
    assert not any("country cell" in reason for reason in refused[1:])


def test_a_name_of_ten_million_separators_is_no_role_and_takes_no_time():
    assert role_of("/" * 10_000_000, COMPANY_COLUMNS) is None


def test_a_mapping_goes_before_names(read):
    text = "country;company_number;land van de klant;Klantnr;KvK\nFR;404833048;BE;0403227515;17085815\n"
    found = read(text, number_column="klantnr", country_column="land van de klant")
    assert found.companies.row(0)[:2] == ("BE", "0403227515")


@pytest.mark.parametrize(
    ("options", "message", "next_step"),
    [
        ({"number_column": "Klantnummer"}, "no column 'Klantnummer'", "Did you mean 'Klantnr'?"),
        ({"country_column": "x"}, "no column 'x'", "Choose one of 'Klantnr', 'Plaats'"),
        ({}, "no column looks like a company number. Its columns are 'Klantnr', 'Plaats'", "--map number=COLUMN"),
        ({"header": "no", "number_column": "3"}, "there is no column '3'", "from 1 to 2"),
        ({"header": "no", "number_column": "Klantnr"}, "there is no column 'Klantnr'", "from 1 to 2"),
    ],
)
def test_a_file_without_the_column_sought_is_refused_with_the_way_to_map_it(refusal, options, message, next_step):
    error = refusal("Klantnr;Plaats\n1;Gent\n", **options)
    assert message in error.message
    assert next_step in error.next_step


def test_a_header_without_lines_is_no_matter_of_columns(refusal):
    error = refusal("Klantnr;Plaats\n")
    assert error.message.endswith("has no lines after its header 'Klantnr', 'Plaats'")
    assert "Export the list again" in error.next_step


def test_without_header_a_file_with_nothing_like_a_number_is_refused(refusal):
    error = refusal("BE;Gent\nNL;Breda\n")
    assert "no column looks like a company number" in error.message
    assert "from 1 to 2" in error.next_step


@pytest.mark.parametrize("name", ["Code", "Nummer", "Ref", "x"])
@pytest.mark.parametrize("numbers", [["0403.091.220", "0417.497.106"], ["403091220", "0417497106", "oops"]])
def test_belgian_check_digits_tell_the_column_whatever_its_name(read, name, numbers):
    companies = read("\n".join([f"{name};Naam", *(f"{number};A" for number in numbers), ""]))
    assert companies.companies["company_number"].to_list() == ["0403091220", "0417497106"]
    assert set(companies.companies["country"]) == {"BE"}
    assert any(f"column {name!r}" in guess and "Belgian" in guess for guess in companies.guesses)


@pytest.mark.parametrize(
    ("numbers", "country"), [(["552032534", "552 081 317"], "FR"), (["17085815", "27120091"], "NL")]
)
def test_a_column_that_only_looks_like_numbers_is_named_first_in_the_refusal(refusal, numbers, country):
    error = refusal("\n".join(["Code;Naam", *(f"{number};A" for number in numbers), ""]))
    assert "column 'Code' looks like" in error.message
    assert "--map number=Code" in error.next_step
    assert f"default_country={country}" in error.next_step


def test_the_option_that_is_suggested_names_the_column_as_a_shell_reads_it(refusal):
    error = refusal("x';y'\n0403091220;0403227515\n0417497106;0400378485\n")
    assert shlex.split(error.next_step.split(" (")[0])[-1] == "number=x'"


def test_numbers_with_ten_digits_that_are_no_companies_are_not_taken(refusal):
    refusal("Gsm;Naam\n0475123456;A\n0486987654;B\n0499112233;C\n")


@pytest.mark.parametrize("above", ["Klanten;\n\n", "Klanten;\n;;\n", "\n\n", ";;;\n"])
def test_blank_lines_above_the_data_are_no_lines_of_the_list(read, above):
    companies = read(f"{above}kbo;naam\n\n0403091220;A\n\n0417497106;B\n")
    assert companies.blank_count == 1
    assert companies.header_count == above.count("\n") + 2
    assert companies.line_count == companies.header_count + 3


@pytest.mark.parametrize("end", ["", "\n"])
def test_the_last_line_counts_for_the_choice_of_columns_whether_or_not_it_ends(read, end):
    companies = read(f"Ref;Naam\n0403.091.220;A\n0417.497.106;B{end}")
    assert companies.companies.height == 2


def test_a_column_known_by_name_is_told_by_check_digits_too_where_nothing_names_a_country(read, refusal):
    companies = read("Company number;Name\n0403.091.220;A\n0417.497.106;B\noops;C\n")
    assert companies.companies["company_number"].to_list() == ["0403091220", "0417497106"]
    assert refusal("Company number;Name\n552032534;A\n552081317;B\n").message.count("nothing names its country") == 2


def test_the_example_of_an_assumed_country_stays_on_one_line(read):
    [guess] = read('kbo,naam\n"0403227515\n",KBC\n').guesses
    assert "(0403227515) as Belgian" in guess
