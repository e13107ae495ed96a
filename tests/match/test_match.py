"""Names and VAT numbers to company numbers, by small files in the layouts of the public registers."""

from functools import partial

import duckdb
import polars as pl
import pytest

import firmlake.match.register
from firmlake.core.errors import CompanyListError, UsageError
from firmlake.core.settings import Settings
from firmlake.core.sql import read_queries
from firmlake.intake.lines import read_company_list
from firmlake.match.match import match_names

ENTERPRISE = """"EnterpriseNumber","Status","JuridicalSituation","TypeOfEnterprise","JuridicalForm","StartDate"
"0403.227.515","AC","000","2","014","09-02-1935"
"""
DENOMINATION = """"EntityNumber","Language","TypeOfDenomination","Denomination"
"0403.227.515","2","001","KBC Bank"
"0403.227.515","1","003","CBC Banque"
"0403.091.220","1","001","Établissements Solvay & Fils"
"2.123.456.789","2","003","Alleen een vestiging"
"0403.834.160","2","001","Bakkerij Jansen"
"0404.616.494","2","001","Bakkerij Jansen"
"""
ADDRESS = """"EntityNumber","TypeOfAddress","CountryNL","CountryFR","Zipcode",\
"MunicipalityNL","MunicipalityFR","StreetNL"
"0403.227.515","REGO","","","1080","Sint-Jans-Molenbeek","Molenbeek-Saint-Jean","Havenlaan"
"0403.834.160","REGO","","","9000","Gent","Gand","Veldstraat"
"0404.616.494","REGO","","","2000","Antwerpen","Anvers","Meir"
"""
UNITS = """siren,statutDiffusionUniteLegale,sigleUniteLegale,prenom1UniteLegale,etatAdministratifUniteLegale,\
nomUniteLegale,\
denominationUniteLegale,denominationUsuelle1UniteLegale,nicSiegeUniteLegale
552032534,O,,,A,,DANONE,,00687
404833048,O,,MARIE,A,DURAND,,,00022
433834160,O,,,C,,FERMEE SARL,,00022
"""
ESTABLISHMENTS = """siren,nic,siret,etablissementSiege,codePostalEtablissement,libelleCommuneEtablissement,\
etatAdministratifEtablissement,enseigne1Etablissement,denominationUsuelleEtablissement
552032534,00687,55203253400687,true,75009,PARIS 9,A,[ND],DANONE VITAPOLE
"""
KVK = """KVK-nummer;Handelsnaam;Plaats;Postcode;RSIN
17085815;ASML Holding N.V.;Veldhoven;5504 DR;804123456
27120091;Café 't Hoekje;Breda;4811 AA;
"""
REGISTERS = {
    "enterprise.csv": ENTERPRISE, "denomination.csv": DENOMINATION, "address.csv": ADDRESS,
    "StockUniteLegale.csv": UNITS, "StockEtablissement.csv": ESTABLISHMENTS, "kvk.csv": KVK,
}  # fmt: skip


def read_csv(path):
    delimiter = ";" if ";" in path.read_text("utf-8-sig").splitlines()[0] else ","
    return pl.read_csv(path, separator=delimiter, infer_schema=False)


READERS = {".csv": read_csv, ".parquet": pl.read_parquet, ".xlsx": partial(pl.read_excel, infer_schema_length=0)}


@pytest.fixture
def look_up(tmp_path):
    """Match a list, and give the file that was written as a frame of texts."""
    for name, content in {**REGISTERS, "forms.csv": FORMS}.items():
        (tmp_path / name).write_text(content)

    def look_up(content, *registers, accept=2.0, out="out.csv", **mapping):
        (tmp_path / "names.csv").write_text(content)
        files = [tmp_path / name for name in registers or REGISTERS]
        match_names(tmp_path / "names.csv", files, tmp_path / out, Settings(), mapping, accept)
        return READERS[(tmp_path / out).suffix](tmp_path / out)

    return look_up


NAMES = [
    ("K.B.C. BANK NV;BE;", "0403227515", "name"),
    ("cbc banque s.a.;;", "0403227515", "name"),
    ("Etablissements Solvay en Fils;BE;", "0403091220", "name"),
    ("Bakkerij Jansen BVBA;BE;Gent", "0403834160", "name and place"),
    ("Bakkerij Jansen;BE;ANVERS", "0404616494", "name and place"),
    ("Bakkerij Jansen;BE;", None, "to check: several companies"),
    ("KBC Bank;BE;Brugge", None, "to check: name in another place"),
    ("KBC Bank;NL;", None, "not found"),
    ("Danone SA;France;Paris Cedex 09", "552032534", "name and place"),
    ("Danone Vitapole;FR;", "552032534", "name"),
    ("Marie Durand;FR;", "404833048", "name"),
    ("Fermée;FR;", None, "not found"),
    ("[ND];FR;", None, "not found"),
    ("Cafe t Hoekje B.V.;NL;", "27120091", "name"),
    ("Cafe t Hoekjes;NL;", None, "to check: similar name"),
    ("Bakkerij Janssen;BE;", None, "to check: similar name"),
    ("Alleen een vestiging;BE;", None, "not found"),
    ("Zzz Qqq;BE;", None, "not found"),
    (";;", None, "blank line"),
]
"""Lines of a list, each with its company number and how it was found."""


@pytest.mark.slow
def test_similar_names_are_candidates_with_scores_and_are_taken_on_demand(look_up):
    found = look_up("naam;land\nCafe t Hoekjes;NL\n")
    [row] = found.rows(named=True)
    assert (row["candidate_1"], row["candidate_1_name"]) == ("NL 27120091", "Café 't Hoekje, Breda")
    assert 0.85 <= float(row["candidate_1_score"].replace(",", ".")) < 1
    taken = look_up("naam;land\nCafe t Hoekjes;NL\n", accept=0.9)
    assert taken.select("company_number", "match").row(0) == ("27120091", "similar name, accepted")


FORMS = """KVK-nummer;Naam;Plaats
17085815;Jansen B.V.;Breda
27120091;Jansen N.V.;Gouda
33011433;Peeters;Breda
01000000;Peeters B.V.;Breda
123;De Kroon;Breda
"""
BY_FORM = [
    ("Jansen BV;", "17085815", "name"),
    ("Jansen;", None, "to check: several companies"),
    ("Jansen VOF;", None, "to check: several companies"),
    ("Jansen BV;Gouda", "27120091", "name and place"),
    ("Jansen NV;Breda", "17085815", "name and place"),
    ("Peeters BV;", None, "to check: several companies"),
]
BY_VAT = [
    (";NL804123456B01", "17085815", "VAT number"),
    (";nl 8041.23.456.B.01", "17085815", "VAT number"),
    (";804123456", "17085815", "VAT number"),
    ("x;BE 0403.053.608", "0403053608", "its own number"),
    ("ASML;NL804123456B01", "17085815", "VAT number"),
    ("ASML Holdings;NL804123456B01", "17085815", "VAT number"),
    ("Café 't Hoekje;NL804123456B01", "17085815", "VAT number, but the company has another name"),
    ("Zzz;NL80412345B1", None, "not found: correct the VAT number (a Dutch one is NL, 9 digits, B, 2 digits)"),
]


@pytest.mark.parametrize(
    ("header", "lines", "register"),
    [
        ("klant;land;plaats", NAMES, ""),  # a name is taken where one company has it, never where it is only similar
        ("naam;plaats", BY_FORM, "forms.csv"),  # a company whose form is not known may be meant; a place says more
        ("naam;btw", BY_VAT, "kvk.csv"),  # a Belgian number needs no register
    ],
)
def test_each_line_has_the_company_that_its_name_place_form_or_vat_number_means(look_up, header, lines, register):
    found = look_up("\n".join([header, *(line for line, *_ in lines), ""]), *filter(None, [register]))
    rows = found.select("company_number", "match").rows()
    assert [(line, *row) for (line, *_), row in zip(lines, rows, strict=True)] == lines


def test_rows_of_a_register_with_a_wrong_number_are_counted_and_one_is_named(look_up, tmp_path):
    (tmp_path / "names.csv").write_text("naam\nPeeters\n")
    found = match_names(tmp_path / "names.csv", [tmp_path / "forms.csv"], tmp_path / "o.csv", Settings(), {}, 2.0)
    assert found.register[0].endswith(
        "0 vats; 1 rows with a wrong number are left out (line 6, 123: wrong length: a Dutch KVK number has 8 digits)"
    )


@pytest.mark.parametrize("out", ["out.csv", "out.parquet", "out.xlsx"])
def test_every_line_comes_back_in_order_with_its_columns_and_the_result_is_a_list(look_up, tmp_path, out):
    found = look_up("Naam;company_number;omzet\nZzz;;1\n\nKBC Bank;;2\nDanone;;3\n", "denomination.csv", out=out)
    assert found["Naam"].to_list() == ["Zzz", None, "KBC Bank", "Danone"]
    assert found["omzet"].to_list() == ["1", None, "2", "3"]
    assert "company_number_2" in found.columns
    assert read_company_list(tmp_path / out).companies["company_number"].to_list() == ["0403227515"]


def test_columns_can_be_mapped(look_up):
    assert look_up("a;b\nKBC Bank;x\n", name="a")["company_number"].to_list() == ["0403227515"]


def test_what_cannot_be_used_is_refused_with_the_next_step(look_up):
    with pytest.raises(CompanyListError, match="--map name=COLUMN"):
        look_up("a;b\nKBC Bank;x\n")
    with pytest.raises(CompanyListError, match=r"denomination\.csv of the KBO"):
        look_up("naam\nKBC Bank\n", "enterprise.csv", "address.csv")
    with pytest.raises(UsageError, match="--out"):
        look_up("naam\nKBC Bank\n", out="out.doc")


@pytest.fixture(scope="module")
def normal():
    """Bring a text to its normal form by one of the macros of DuckDB."""
    with duckdb.connect() as connection:
        connection.execute(read_queries(firmlake.match.register.__file__)["prepare"])
        yield lambda macro, text: connection.execute(f"SELECT {macro}(?)", [text]).fetchall()[0][0]


@pytest.mark.parametrize(
    ("name", "registered"),
    [
        ("SELARL Dupont", "Dupont"),
        ("Dupont SELAS", "DUPONT"),
        ("GAEC du Moulin", "Du Moulin"),
        ("SCEA Les Vignes", "LES VIGNES"),
        ("E.A.R.L. Les Vignes", "Les Vignes"),
        ("Maatschap Jansen", "Jansen"),
        ("Stichting De Kroon", "De Kroon"),
        ("Coöperatie De Kroon U.A.", "De Kroon"),
        ("VvE Havenlaan", "Vereniging van Eigenaars Havenlaan"),
        ("De Kroon besloten vennootschap met beperkte aansprakelijkheid", "De Kroon BV"),
    ],
)
def test_legal_forms_are_no_part_of_a_name(normal, name, registered):
    """After ISO 20275, as people write them."""
    assert normal("normal_name", name) == normal("normal_name", registered) != ""


@pytest.mark.parametrize(
    ("macro", "text", "expected"),
    [
        ("normal_name", "Établissements De Kroon, B.V.", "etablissements de kroon"),
        ("normal_name", "SELARL Dupont & Fils", "dupont fils"),
        ("normal_name", "B.V.", "bv"),
        ("normal_place", "SAINT-DENIS CEDEX 2", "saint denis"),
        ("normal_place", "PARIS 8", "paris"),
        ("postcode_of", "B-1000", "1000"),
        ("postcode_of", "3511 AB", "3511"),
        ("postcode_of", "123", None),
        ("vat_key", "NL 8041.23.456.B01", "804123456"),
        ("vat_key", "BE 0403.227.515", None),
    ],
)
def test_names_places_postcodes_and_vat_numbers_have_a_normal_form(normal, macro, text, expected):
    assert normal(macro, text) == expected


def test_a_formula_of_a_list_or_of_a_register_is_made_harmless_in_csv(look_up):
    found = look_up('name,"=head"\n=1+1,\uff1d1\n', "kvk.csv", name="name")
    assert found.select("name", "'=head").rows() == [("'=1+1", "'\uff1d1")]
