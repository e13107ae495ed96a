"""A file of rules is read whole or refused with a message that names the file, the rule, the key and what is right."""

from __future__ import annotations

from pathlib import Path

import pytest

from firmlake.core.errors import SettingsError
from firmlake.core.settings_layers import SAMPLE_SETTINGS
from firmlake.warehouse.rules import (
    compared_columns,
    read_gates,
    read_rules,
    to_sql,
    watchable,
)

CONFIG = Path(__file__).parents[2] / "config" / "watch.toml"


def refuse(tmp_path, text):
    file = tmp_path / "watch.toml"
    file.write_text(text, "utf-8")
    with pytest.raises(SettingsError) as error:
        read_rules(str(file))
    assert str(file) in error.value.message
    return str(error.value)


def test_the_rules_that_are_shipped_are_read_and_the_demo_has_the_same():
    rules = read_rules(str(CONFIG))
    assert rules
    assert len({rule.name for rule in rules}) >= 8
    assert Path(SAMPLE_SETTINGS["paths.alert_rules"]).read_text("utf-8") == CONFIG.read_text("utf-8")


def test_the_rule_in_the_comment_of_the_shipped_file_is_read_too(tmp_path):
    commented = CONFIG.read_text("utf-8").rpartition("\n# [")[2]
    (tmp_path / "watch.toml").write_text("[" + commented.replace("\n# ", "\n"), "utf-8")
    (rule,) = read_rules(str(tmp_path / "watch.toml")) or ()
    assert (rule.list_name, len(rule.when)) == ("customers", 2)


def test_the_shipped_file_names_every_view_that_a_rule_may_read():
    text = " ".join(CONFIG.read_text("utf-8").replace("#", " ").split())
    assert all(name in text for name in watchable())


def test_a_comparison_becomes_the_sql_that_it_says(tmp_path):
    (tmp_path / "watch.toml").write_text("""
        [one]
        when = { equity = "<-0.5", zone = "!= zone_before", accounts_to = ">= 2024-01-31", z = "is not null" }
        [two]
        view = "portfolio"
        when = { is_comparable = "= false", zone = " =  'safe -- '" }
    """)
    one, two = read_rules(str(tmp_path / "watch.toml")) or ()
    assert to_sql(one) == (
        '"equity" < -0.5 AND "zone" != "zone_before" AND "accounts_to" >= DATE \'2024-01-31\' AND "z" is not null'
    )
    assert to_sql(two) == '"is_comparable" = false AND "zone" = \'safe -- \''
    assert compared_columns(one) == ["equity", "zone", "zone_before", "accounts_to", "z"]
    assert (one.says, one.severity, one.list_name) == (one.condition, "medium", "")


def test_no_file_is_no_rules_and_an_empty_file_is_none_of_them(tmp_path):
    (tmp_path / "watch.toml").touch()
    assert read_rules("") is None
    assert read_rules(str(tmp_path / "watch.toml")) == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[a]\nwhen = { equty = '< 0' }", "rule a: when: watched_figures has no column equty. Did you mean equity"),
        ("[a]\nsevrity = 'high'\nwhen = { z = '< 0' }", "rule a: there is no key sevrity. Did you mean severity?"),
        ("[a]\nseverity = 'urgent'\nwhen = { z = '< 0' }", "severity 'urgent'. Choose from high, medium, low"),
        (
            "[a]\nview = 'portfolo'\nwhen = { z = '< 0' }",
            "no rule can read the view portfolo. Did you mean portfolio",
        ),
        ("[a]\nview = 'company_figures'\nwhen = { overdue_days = '> 0' }", "no rule can read the view company_figures"),
        ("[a]\nsays = 'x'", "rule a: when is missing"),
        ("[a]\nwhen = 'equity < 0'", "rule a: when has the wrong type. Write when = "),
        ("[a]\nwhen = { equity = 0 }", "equity = 0 is not a comparison. Write an operator"),
        ("[a]\nwhen = { equity = '0' }", "equity = '0' is not a comparison"),
        ("[a]\nwhen = { equity = '< 0 OR 1 = 1' }", "is not a comparison"),
        ("[a]\nwhen = { equity = '< (SELECT 1)' }", "is not a comparison"),
        ("[a]\nwhen = { equity = '< \u0663' }", "is not a comparison"),
        ("[a]\nwhen = { equity = '< 1.\u0662' }", "is not a comparison"),
        (f"[a]\nwhen = {{ equity = '< {'9' * 400}' }}", "when cannot be evaluated"),
        ("[a]\nwhen = { equity = 'is 0' }", "is not a comparison"),
        ("[a]\nwhen = { equity = '= null' }", "is not a comparison"),
        ("[a]\nwhen = { zone = \"= 'it''s'\" }", "is not a comparison"),
        ("[a]\nwhen = { zone = '= distress' }", "compared with distress, which is not a column of watched_figures"),
        ("[a]\nwhen = { zone = '< 5' }", "zone = '< 5' compares a text with a number"),
        ("[a]\nwhen = { equity = '< zone' }", "equity = '< zone' compares a number with a text"),
        ("[a]\nwhen = { accounts_to = '< 2024-02-30' }", "is not a valid day"),
        ("a = 1", "rule a is not a table. Begin it with [a]"),
        ("['a\\u001b[2J']\nwhen = { z = '< 0' }", "the name is not valid"),
        ("[a", "is not TOML"),
    ],
)
def test_a_wrong_rule_is_refused_with_the_remedy(tmp_path, text, said):
    assert said in refuse(tmp_path, text)


def test_a_file_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(SettingsError, match=r"nowhere\.toml: No such file"):
        read_rules(str(tmp_path / "nowhere.toml"))


def test_the_gates_that_are_shipped_are_read_and_the_one_in_their_comment_too(tmp_path):
    text = CONFIG.with_name("gates.toml").read_text("utf-8")
    file = tmp_path / "gates.toml"
    file.write_text(text + text.rpartition("\n# [")[2].join(["\n[", ""]).replace("\n# ", "\n"), "utf-8")
    gates = read_gates(str(file)) or ()
    assert len(gates) == 4
    assert (gates[-1].list_name, gates[-1].publish_if, gates[2].when) == ("customers", "= 0", {})
    assert read_gates("") is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "[a]\nview = 'finding'\npublish_if = '= 0'",
            "no gate can read the view 'finding'. Did you mean findings",
        ),
        ("[a]\npublish_if = '= 0'", "rule a: no gate can read the view ''"),
        ("[a]\nview = 'companies'", "rule a: publish_if = '' is not a limit. Write an operator and a number of rows"),
        ("[a]\nview = 'companies'\npublish_if = '>= -1'", "publish_if = '>= -1' is not a limit"),
        ("[a]\nview = 'companies'\npublish_if = '>= last 10 %'", "is not a limit"),
        (f"[a]\nview = 'companies'\npublish_if = '>= {'9' * 5_000}'", "is not a limit"),
        ("[a]\nview = 'companies'\npublish_if = '>= 1; DROP'", "is not a limit"),
        ("[a]\nview = 'companies'\npublish_if = '>= \u0661'", "is not a limit"),
        ("[a]\nview = 'companies'\npublish_if = 0", "publish_if has the wrong type"),
        ("[a]\nview = 'companies'\nseverity = 'high'\npublish_if = '= 0'", "there is no key severity"),
        ("[a]\nview = 'companies'\nwhen = { nam = '= 0' }\npublish_if = '= 0'", "companies has no column nam. Did you"),
        (
            "[a]\nview = 'requests'\nlist = 'x'\npublish_if = '= 0'",
            "requests has no companies, so it cannot be",
        ),
    ],
)
def test_a_wrong_gate_is_refused_with_the_remedy(tmp_path, text, said):
    file = tmp_path / "gates.toml"
    file.write_text(text, "utf-8")
    with pytest.raises(SettingsError) as error:
        read_gates(str(file))
    assert f"{file}" in error.value.message
    assert said in str(error.value)
