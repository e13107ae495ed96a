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
    names = set(re.findall(r'(?:yield|yield \(\n\s+)\s*"(\w+)"', text))
    return {
        f"firmlake_{name}" for name in names | {"oldest_answer_timestamp_seconds", "newest_answer_timestamp_seconds"}
    }


def test_every_alert_asks_for_metrics_that_are_written():
    rules = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
    asked = {name for rule in rules for name in _METRIC.findall(rule["expr"])}
    assert asked
    assert asked <= known(), asked - known()
    assert all(rule["annotations"]["summary"] for rule in rules)


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

    promtool("check", "rules", str(RULES))
    day = 24 * 60
    case = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "10m",
        "tests": [
            {
                "interval": "10m",
                "input_series": [
                    {
                        "series": 'firmlake_last_run_finished_timestamp_seconds{outcome="done"}',
                        "values": f"0x{10 * day // 10}",
                    },
                    {"series": "firmlake_month_credits", "values": f"80x{10 * day // 10}"},
                    {"series": "firmlake_month_credits_budget", "values": f"100x{10 * day // 10}"},
                ],
                "alert_rule_test": [
                    {"eval_time": "7d", "alertname": "FirmlakeStale", "exp_alerts": []},
                    {
                        "eval_time": "9d",
                        "alertname": "FirmlakeStale",
                        "exp_alerts": [
                            {
                                "exp_labels": {"severity": "warning", "outcome": "done"},
                                "exp_annotations": {
                                    "summary": "No run has published for 8 days",
                                    "description": "Runs may be cancelled, failing or not scheduled. `firmlake status` "
                                    "says what is open.",
                                },
                            }
                        ],
                    },
                    {
                        "eval_time": "1d",
                        "alertname": "FirmlakeMonthNearlySpent",
                        "exp_alerts": [
                            {
                                "exp_labels": {"severity": "warning"},
                                "exp_annotations": {"summary": "80 % of the credits of this month are spent"},
                            }
                        ],
                    },
                ],
            }
        ],
    }
    (tmp_path / "case.yml").write_text(yaml.safe_dump(case))
    promtool("test", "rules", str(tmp_path / "case.yml"))
