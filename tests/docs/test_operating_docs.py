"""Pages for those who install and operate: what they say is what the program takes and shows."""

from __future__ import annotations

import itertools
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.support.narrow import present

from trimtab.base.site import Servers
from trimtab.reach.lustre.server_query import ask_servers
from trimtab.reach.process import ProcessResult
from trimtab.store.location import DEFAULT, SYSTEM_DIRECTORY
from trimtab.watch.alert_table import NAMES
from trimtab.watch.metrics import METRICS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/install.md").read_text()


def test_the_forced_command_is_what_the_servers_are_asked_to_run() -> None:
    asked: list[str] = []

    def fan_out(
        nodes: Sequence[str], argv: tuple[str, ...], **_: object
    ) -> Mapping[str, ProcessResult]:
        asked.append(shlex.join(argv))
        nothing = ProcessResult(argv, b"", b"", 0, None, datetime.now(UTC), 0.0, 1.0)
        return dict.fromkeys(nodes, nothing)

    ask_servers(Servers(oss=("oss01",)), "scratch", fan_out=fan_out)
    assert re.findall(r'command="([^"]+)"', PAGE) == asked


def layout() -> dict[str, tuple[str, str]]:
    """Return owner and mode of every directory that is declared, by path."""
    lines = (ROOT / "deploy/tmpfiles.d/trimtab.conf").read_text().splitlines()
    fields = [line.split() for line in lines if not line.startswith("#")]
    assert all(kind == "d" and user == group for kind, _, _, user, group, _ in fields)
    return {path: (user, mode) for _, path, mode, user, *_ in fields}


def test_the_table_of_directories_is_the_declared_one() -> None:
    rows = re.findall(r"^\| `(/[^`]+)` \| (\w+) \| (\d{4}) \|", PAGE, re.MULTILINE)
    assert {path: (owner, mode) for path, owner, mode in rows} == layout()


def test_nothing_of_roots_lies_below_what_another_user_can_write() -> None:
    for path, (owner, mode) in layout().items():
        for above, (owner_above, mode_above) in layout().items():
            if path.startswith(f"{above}/"):
                assert owner_above == "root", (path, above)
                assert not int(mode_above, 8) & 0o022, (path, above)
        # The lists of users are there for users.
        if path.startswith("/var/spool/"):
            assert (owner, int(mode, 8) & 0o001) == ("root", 1), path


def test_defaults_and_units_are_of_the_declared_directories() -> None:
    assert str(SYSTEM_DIRECTORY) in layout()
    assert layout()[str(DEFAULT)] == ("root", "0700")
    home = (ROOT / "deploy/sysusers.d/trimtab.conf").read_text().split()[-1]
    assert layout()[home] == ("trimtab", "0700")
    for unit in ("trimtab-watch@.service", "trimtab-web.service"):
        text = (ROOT / "deploy" / unit).read_text()
        (directory,), (mode,) = (
            re.findall(rf"^{key}=(\S+)$", text, re.MULTILINE)
            for key in ("StateDirectory", "StateDirectoryMode")
        )
        assert layout()[f"/var/lib/{directory}"] == ("root", mode)
        for line in re.findall(r"^Read\w+Paths=(.*)$", text, re.MULTILINE):
            assert {path.lstrip("-") for path in line.split()} <= layout().keys()
        assert "\nUser=" not in text
    drop_in = PAGE.partition("```ini\n")[2].partition("```")[0]
    assert f"\nStateDirectory={Path(home).name}\n" in drop_in
    assert f"\nWorkingDirectory={home}\n" in drop_in


def test_every_path_that_is_named_is_in_a_declared_directory() -> None:
    """``trimtab-act`` is on servers, made by hand (deploy/README.md)."""
    named: dict[str, str] = {}
    for folder in ("src", "docs", "deploy", "scripts"):
        for file in (ROOT / folder).rglob("*"):
            if file.is_file() and file.suffix in {".py", ".md", ".service", ".toml", ".conf", ""}:
                text = file.read_text(errors="replace")
                for path in re.findall(r"/var/(?:lib|spool)/trimtab[\w./-]*", text):
                    named[path.rstrip("./")] = str(file.relative_to(ROOT))
    assert len(named) > 8
    declared = {*layout(), "/var/lib/trimtab-act"}
    assert {
        path: file
        for path, file in named.items()
        if not any(path == place or path.startswith(f"{place}/") for place in declared)
    } == {}


def test_files_of_the_source_tree_that_are_named_are_there() -> None:
    for name in re.findall(r"`((?:deploy|docs)/[\w./-]+)`", PAGE):
        assert (ROOT / name).exists(), name


INSTALLS = re.compile(
    r"\b(?:pip3?|pipx|uv|uvx|conda|mamba|spack|docker|podman|buildah|apt|apt-get|dnf|yum|zypper)\b"
    r"[^\n`&;|#]*?\b(?:install|add|run|pull|from)\b[^\n`&;|#]*?[\s'\"(]trimtab(?:\[[^\]]*\])?(?=[\s'\"`),]|$)"
)
"""A command that has some index looked up for the project's name."""


def named_to_an_index(text: str) -> list[str]:
    """Return the commands of a text that would install whatever has the project's name."""
    joined = text.replace("\\\n", " ")
    return [match for match in INSTALLS.findall(joined) if "--no-index" not in match]


def test_no_command_asks_an_index_for_a_name_that_anybody_could_register() -> None:
    folders = ("src", "docs", "deploy", "scripts", ".ci", "crates", "benchmarks")
    files = [file for folder in folders for file in (ROOT / folder).rglob("*")]
    files += [file for file in ROOT.iterdir() if file.suffix in {".md", ".toml", ""}]
    texts = {
        file: file.read_text(errors="replace")
        for file in files
        if file.is_file() and file.suffix not in {".so", ".png", ".json", ".csv", ".pyc"}
    }
    assert len(texts) > 500
    found = {str(file.relative_to(ROOT)): named_to_an_index(text) for file, text in texts.items()}
    assert {file: commands for file, commands in found.items() if commands} == {}


@pytest.mark.parametrize(
    ("command", "is_safe"),
    [
        ("pip install trimtab", False),
        ("python -m pip install 'trimtab[web]'", False),
        ("uv tool install trimtab", False),
        ("pipx install \\\n  trimtab", False),
        ("spack install trimtab", False),
        ("docker run --rm trimtab check /scratch", False),
        ("pip install --no-index --find-links . 'trimtab[web]'", True),
        ('pip install "$(ls ./trimtab-*.whl)[dask]"', True),
        ("pip install --editable '.[dask]'", True),
        ("dnf install ./trimtab-1.rpm", True),
        ("spack install site.trimtab", True),
        ("podman run localhost/trimtab", True),
    ],
)
def test_commands_that_ask_an_index_are_told_from_others(command: str, is_safe: bool) -> None:
    assert (not named_to_an_index(command)) == is_safe


RULES = (ROOT / "deploy" / "prometheus" / "trimtab.rules.yml").read_text()
RULE_NAMES = re.findall(r"- alert: (\w+)", RULES)
RUNBOOK = (ROOT / "docs" / "runbook.md").read_text()
BOARD: dict[str, Any] = json.loads((ROOT / "deploy" / "grafana" / "trimtab.json").read_text())
NAME = re.compile(r"\btrimtab_[a-z0-9_]+\b")
EXPOSED = {
    metric.name + {"counter": "_total", "info": "_info", "gauge": ""}[metric.kind]: metric
    for metric in METRICS
}


def script(name: str) -> ModuleType:
    specification = present(spec_from_file_location(name, ROOT / "scripts" / f"{name}.py"))
    module = sys.modules[name] = module_from_spec(specification)
    present(specification.loader).exec_module(module)
    return module


def test_each_alert_has_its_section_with_meaning_check_and_remedy() -> None:
    parts = re.split(r"^### (\S+)$", RUNBOOK, flags=re.MULTILINE)
    sections = dict(zip(map(str.lower, parts[1::2]), parts[2::2], strict=True))
    assert sorted(sections) == sorted([*NAMES, *map(str.lower, RULE_NAMES)])
    for name, text in sections.items():
        leads = re.findall(r"- \*\*(\w+)\.\*\* \S", text.split("\n## ")[0])
        assert leads == ["Meaning", "Check", "Remedy"], name


def test_each_rule_links_to_its_section_and_says_what_it_is() -> None:
    for block in RULES.split("- alert: ")[1:]:
        name = block.split("\n")[0].lower()
        for words in (f"runbook_url: RUNBOOK#{name}\n", "summary: ", "description: ", "severity: "):
            assert words in block


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


def test_the_page_on_metrics_and_the_dashboard_are_what_their_scripts_write() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text()
    assert script("metrics_page").with_table(page) == page, "run scripts/metrics_page.py"
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
        x, y, width, height = (panel["gridPos"][key] for key in "xywh")
        cells = {*itertools.product(range(x, x + width), range(y, y + height))}
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
    assert set(re.findall(r"alertname: (\w+)", written)) == set(RULE_NAMES)
