"""Which column holds what, by its name; `cases` has what its values and a mapping say."""

import pytest

from firmlake.intake.columns import COMPANY_COLUMNS, role_of
from firmlake.intake.table import unique_names


@pytest.mark.parametrize(
    ("role", "names"),
    [
        ("country", "Country|country_code|COUNTRY ISO2|Land|landcode|Pays|Code pays|Land / Pays|country (ISO)"),
        ("company_number", "company number|companyNumber|Company No.|COMPANY_ID|registration number|bedrijfsnummer"),
        ("company_number", "Numéro de société|firmanummer|Handelsregisternummer"),
        ("enterprise_number", "ondernemingsnummer|Ondernemingsnr.|Numéro d'entreprise|N° entreprise|enterprise number"),
        ("enterprise_number", "N\u00ba d\u2019entreprise|KBO / ondernemingsnummer"),
        ("enterprise_number", "Ondernemingsnummer / Numéro d'entreprise"),
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


def test_a_name_of_ten_million_separators_is_no_role_and_takes_no_time():
    assert role_of("/" * 10_000_000, COMPANY_COLUMNS) is None


def test_names_are_unique_whatever_their_case_and_what_others_are_called():
    assert unique_names(["a", "a", "A_2", "", "column_4"]) == ("a", "a_3", "A_2", "column_4", "column_4_2")
