"""The alerts and the dashboard ask for metrics that there are, and the alerts fire when they should."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from firmlake.report import metrics

CONFIG = Path(__file__).parents[1] / "config"
RULES = CONFIG / "prometheus-rules.yml"
_METRIC = re.compile(r"firmlake_\w+")


def known() -> set[str]:
    """The names in the source: some metrics are only there under some conditions."""
    text = Path(metrics.__file__).read_text()
    names = set(re.findall(r'(?:yield|yield \(\n\s+|\n    \()\s*"(\w+)"', text))
    return {
        f"firmlake_{name}" for name in names | {"oldest_answer_timestamp_seconds", "newest_answer_timestamp_seconds"}
    }


def test_every_alert_asks_for_metrics_that_are_written():
    rules = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
    asked = {name for rule in rules for name in _METRIC.findall(rule["expr"])}
    assert asked
    assert asked <= known(), asked - known()
    assert all(rule["annotations"]["summary"] and rule["annotations"]["description"] for rule in rules)


def test_every_alert_links_to_a_heading_of_the_runbook():
    rules = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
    headings = re.findall(r"^#+ (.+)$", (CONFIG.parent / "docs/runbook.md").read_text(), re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    for rule in rules:
        page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
        assert (page, anchor in anchors) == ("docs/runbook.md", True), rule["alert"]


def test_every_panel_asks_for_metrics_that_are_written():
    board = json.loads((CONFIG / "grafana-dashboard.json").read_text())
    asked = {
        name for panel in board["panels"] for target in panel["targets"] for name in _METRIC.findall(target["expr"])
    }
    assert len(board["panels"]) == len({panel["id"] for panel in board["panels"]})
    assert asked
    assert asked <= known(), asked - known()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool comes with Debian's package prometheus")
def test_promtool_takes_the_rules_and_the_alerts_fire(tmp_path: Path):
    def promtool(*arguments: str) -> None:
        done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr

    def alert(name: str, **labels: str) -> dict[str, object]:
        (rule,) = (rule for rule in rules if rule["alert"] == name)
        said = {
            key: text.replace("{{ $labels.list }}", labels.get("list", "")) for key, text in rule["annotations"].items()
        }
        said = {key: re.sub(r"{{ if .*? }}(.*?){{ end }}", r"\1", text) for key, text in said.items()}
        return {"exp_labels": {**rule["labels"], **labels}, "exp_annotations": said}

    promtool("check", "rules", str(RULES))
    rules = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
    always = f"x{10 * 24 * 6}"
    series = {
        'firmlake_last_run_finished_timestamp_seconds{list="north",outcome="done"}': f"0{always}",
        "firmlake_month_credits": f"80{always}",
        "firmlake_month_credits_budget": f"100{always}",
        'firmlake_failed{list="north"}': f"1{always}",
        'firmlake_failed{list="south"}': f"0{always}",
        'firmlake_unfinished_runs{list="north"}': f"1{always}",
        "firmlake_running": f"1x71 0{always}",  # ends after twelve hours
        "firmlake_outdated": f"1{always}",
        "firmlake_held": f"1{always}",
    }
    expected = [
        ("7d", "FirmlakeStale", []),
        ("9d", "FirmlakeStale", [alert("FirmlakeStale", list="north", outcome="done")]),
        ("1d", "FirmlakeMonthNearlySpent", [alert("FirmlakeMonthNearlySpent")]),
        ("1d", "FirmlakeFailed", [alert("FirmlakeFailed", list="north")]),
        ("11h", "FirmlakeUnfinished", []),
        ("1d", "FirmlakeUnfinished", [alert("FirmlakeUnfinished", list="north")]),
        ("1d", "FirmlakeOutdated", [alert("FirmlakeOutdated")]),
        ("1d", "FirmlakeHeld", [alert("FirmlakeHeld")]),
        ("1d", "FirmlakeMetricsMissing", [alert("FirmlakeMetricsMissing")]),
    ]
    case = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "10m",
        "tests": [
            {
                "interval": "10m",
                "input_series": [{"series": name, "values": values} for name, values in series.items()],
                "alert_rule_test": [
                    {"eval_time": at, "alertname": name, "exp_alerts": alerts} for at, name, alerts in expected
                ],
            }
        ],
    }
    (tmp_path / "case.yml").write_text(yaml.safe_dump(case))
    promtool("test", "rules", str(tmp_path / "case.yml"))
