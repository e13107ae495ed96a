"""Every hint of a refusal or guess works when it is followed literally."""

import re

import pytest

from firmlake.core.errors import CompanyListError
from firmlake.core.settings import IntakeSettings
from firmlake.intake.lines import read_company_list
from intake.test_people import book

BE, FR = "0403227515", "552032534"

SETTINGS = {
    "number_column": "--map number=", "country_column": "--map country=", "sheet": "--set intake.sheet=",
    "header_row": "--set intake.header_row=", "default_country": "--set intake.default_country=",
}  # fmt: skip
"""How a hint spells a setting that is not spelled `intake.NAME`."""


REFUSED = {
    "names without numbers": (f"Name;Xyz\nKBC;{FR}\n", {"number_column": "Xyz", "default_country": "FR"}),
    "no known column": (f"aa;bb\nx;{BE}\n", {"number_column": "bb", "default_country": "BE"}),
    "no header, by position": (f"x;{FR}\ny;552081317\n", {"number_column": "2", "default_country": "FR"}),
    "numbers of no known country": (f"Code;Naam\n{FR};A\n552081317;B\n", {
        "number_column": "Code", "default_country": "FR",
    }),
    "lines without a country": ("Company number;Name\n552032534;A\n552081317;B\n", {"default_country": "FR"}),
    "a sheet that is not there": (book(("Klanten", [["KBO"], [BE]])), {"sheet": "Klanten"}, {"sheet": "Klant"}),
    "a hidden sheet": (book(("Leeg", []), ("Klanten", [["KBO"], [BE]]), hidden=["Klanten"]), {"sheet": "Klanten"}),
    "a column that is not there": (f"Reg x;KBO\n{FR};{BE}\n", {"number_column": "KBO"}, {"number_column": "KBOO"}),
    "UTF-16 without its mark": (f"KBO;Naam\n{BE};A\n".encode("utf-16-le"), {"encoding": "utf-16-le"}),
    "an encoding that is unknown": (f"KBO;Naam\n{BE};A\n", {"encoding": "utf-8"}, {"encoding": "utf-5"}),
    "a delimiter of two characters": (f"KBO;Naam\n{BE};A\n", {"delimiter": ";"}, {"delimiter": ";;"}),
}  # fmt: skip
IMPLIED = {
    "names without numbers": {"default_country"},
    "no known column": {"default_country"},
    "no header, by position": {"default_country"},
    "a sheet that is not there": {"sheet"},
    "a column that is not there": {"number_column"},
    "a delimiter of two characters": {"delimiter"},
}
"""Settings whose name a hint need not say: it corrects the value that was given, or the country is another matter."""


@pytest.mark.parametrize("name", REFUSED)
def test_the_hint_of_a_refusal_leads_to_the_list(write, name):
    content, followed, given = (*REFUSED[name], {})[:3]
    path = write(content)
    with pytest.raises(CompanyListError) as caught:
        read_company_list(path, IntakeSettings(**given))
    hint = f"{caught.value.message} {caught.value.next_step}"
    for setting, value in followed.items():
        assert setting in IMPLIED.get(name, ()) or SETTINGS.get(setting, f"intake.{setting}") in hint
        if setting in given:
            assert value in hint
    assert read_company_list(path, IntakeSettings(**{**given, **followed})).companies.height


GUESSED = {
    "title rows": (f"Klanten\n\nKBO;Naam\n{BE};A\n", "--set intake.header_row=LINE", {"header_row": 3}, "0403227515"),
    "another sheet": (
        book(("Info", [["Naam"], ["x"]]), ("Klanten", [["KBO"], [BE]]), ("Oud", [["KBO"], ["0403091220"]])),
        "--set intake.sheet=NAME", {"sheet": "Oud"}, "0403091220",
    ),
    "a number by its check digits": (
        f"Ref;Ander\n{BE};0403091220\n0417497106;x\n", "--map number=", {
            "number_column": "Ander", "default_country": "BE"}, "0403091220",
    ),
    "a number by name and values": (
        f"Nr. klant;Land;Andere ref\n{BE};BE;0403091220\n0417497106;BE;\n", "--map number=",
        {"number_column": "Andere ref"}, "0403091220",
    ),
    "countries by name and values": (
        f"Nummer;Customer land;Oud\n{FR};FR;BE\n552081317;FR;BE\n", "--map country=",
        {"country_column": "Customer land"}, FR,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GUESSED)
def test_a_guess_names_the_way_to_another_choice(write, name):
    content, hint, followed, number = GUESSED[name]
    path = write(content)
    guesses = " ".join(read_company_list(path).guesses)
    assert hint in guesses
    assert not re.search(r"intake\.(?!header_row|sheet)", guesses)
    assert number in read_company_list(path, IntakeSettings(**followed)).companies["company_number"].to_list()
