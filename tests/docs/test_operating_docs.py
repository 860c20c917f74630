"""Alerts, metrics, rules and dashboard agree with their pages, and with one another."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from trimtab.watch.alert.alert_table import NAMES
from trimtab.watch.metrics import METRICS

ROOT = Path(__file__).resolve().parents[2]
RULES = (ROOT / "deploy" / "prometheus" / "trimtab.rules.yml").read_text()
RUNBOOK = (ROOT / "docs" / "runbook.md").read_text()
BOARD: dict[str, Any] = json.loads((ROOT / "deploy" / "grafana" / "trimtab.json").read_text())
NAME = re.compile(r"\btrimtab_[a-z0-9_]+\b")
EXPOSED = {
    metric.name + {"counter": "_total", "info": "_info", "gauge": ""}[metric.kind]: metric
    for metric in METRICS
}


def script(name: str) -> ModuleType:
    specification = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    import sys

    sys.modules[name] = module
    specification.loader.exec_module(module)
    return module


def sections() -> dict[str, str]:
    """Return anchor to text of each section of the runbook."""
    parts = re.split(r"^### (\S+)$", RUNBOOK, flags=re.MULTILINE)
    return {parts[i].lower(): parts[i + 1].split("\n## ")[0] for i in range(1, len(parts), 2)}


def rule_names() -> list[str]:
    return re.findall(r"- alert: (\w+)", RULES)


def test_each_alert_has_its_section_with_meaning_check_and_remedy() -> None:
    anchors = sections()
    alerts = [*NAMES, *(name.lower() for name in rule_names())]
    assert sorted(anchors) == sorted(alerts)
    for anchor, text in anchors.items():
        assert re.findall(r"- \*\*(\w+)\.\*\* \S", text) == ["Meaning", "Check", "Remedy"], anchor


def test_each_rule_links_to_its_section_and_says_what_it_is() -> None:
    for block in RULES.split("- alert: ")[1:]:
        name = block.split("\n")[0]
        assert f"runbook_url: RUNBOOK#{name.lower()}\n" in block
        assert "summary: " in block
        assert "description: " in block
        assert "severity: " in block


def test_rules_and_dashboard_use_metrics_that_there_are() -> None:
    records = set(re.findall(r"record: (\S+)", RULES))
    own = {part for record in records for part in NAME.findall(record)}
    for text in (RULES, json.dumps(BOARD)):
        names = set(NAME.findall(text)) - own
        assert names <= set(EXPOSED), names - set(EXPOSED)
        assert len(names) > 15


def test_names_follow_the_conventions() -> None:
    for name, metric in EXPOSED.items():
        assert name.endswith("_total") == (metric.kind == "counter")
        assert not re.search(r"_(ms|kb|mb|gb|kilobytes|percent|sec)(_|$)", name)
        assert not {"user", "job", "jobid", "path", "uid"} & set(metric.labels)
        assert metric.labels[0] == "site"
        assert metric.help.endswith(".")
    assert len({metric.name for metric in METRICS}) == len(METRICS)


def test_the_page_has_the_table_of_metrics() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text()
    assert script("metrics_page").with_table(page) == page, "run scripts/metrics_page.py"


def test_the_dashboard_is_what_its_script_writes() -> None:
    text = (ROOT / "deploy" / "grafana" / "trimtab.json").read_text()
    assert script("dashboard").text() == text, "run scripts/dashboard.py deploy/grafana"


OPTIONS = {
    "stat": {
        *("reduceOptions", "colorMode", "graphMode", "justifyMode", "textMode", "wideLayout"),
        *("orientation", "showPercentChange", "percentChangeColorMode"),
    },
    "timeseries": {"legend", "tooltip"},
}
"""What the schema of each type of panel requires."""
UNITS = {"none", "s", "bytes", "Bps", "percentunit", "ops"}


def test_the_dashboard_has_what_grafana_requires() -> None:
    """As its schema has it: required keys, and none that the schema of today refuses."""
    assert {"schemaVersion", "templating", "annotations"} <= set(BOARD)
    assert not {"__inputs", "__requires", "iteration", "style"} & set(BOARD)
    variables = {entry["name"]: entry for entry in BOARD["templating"]["list"]}
    assert variables["datasource"]["query"] == "prometheus"
    assert isinstance(variables["site"]["query"], str)
    assert all({"text", "value"} <= set(entry["current"]) for entry in variables.values())
    identifiers = [panel["id"] for panel in BOARD["panels"]]
    assert len(set(identifiers)) == len(identifiers)
    for panel in BOARD["panels"]:
        assert set(panel["gridPos"]) == {"h", "w", "x", "y"}
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
        if panel["type"] == "row":
            assert {"collapsed", "panels"} <= set(panel)
            continue
        assert panel["type"] in {"stat", "timeseries"}
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert panel["fieldConfig"]["defaults"]["unit"] in UNITS
        assert set(panel["options"]) == OPTIONS[panel["type"]]
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])


def test_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in BOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells


@pytest.mark.system
@pytest.mark.skipif(shutil.which("promtool") is None, reason="Prometheus is not installed")
def test_the_rules_load_and_pass_their_own_tests(tmp_path: Path) -> None:
    place = ROOT / "deploy" / "prometheus"
    check = ["promtool", "check", "rules", "--lint=all", "--lint-fatal"]
    tests = ["tests.yml", "tests-of-days.yml"]
    for words in ([*check, "trimtab.rules.yml"], ["promtool", "test", "rules", *tests]):
        ended = subprocess.run(words, cwd=place, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stdout + ended.stderr
    written = "".join((place / name).read_text() for name in tests)
    assert set(re.findall(r"alertname: (\w+)", written)) == set(rule_names())
