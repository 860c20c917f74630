"""A probe that is one command: what may stand in it, and what is told to be wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.site.test_load import LUSTRE, SITE, examples, refused, warned

from trimtab.model.site import SiteProbe
from trimtab.site.command import filled, places
from trimtab.site.load import parse_site

PROBE_PAGE = Path(__file__).resolve().parents[2] / "docs" / "probe.md"


@pytest.mark.parametrize(
    ("text", "line", "place", "code", "hint"),
    [
        (SITE + '[probe.a]\ncommand = "run me"', ":6", "[probe.a] command", "wrong-type", '["pro'),
        (SITE + "[probe.a]\ncommand = []", ":6", "[probe.a] command", "text-empty", None),
        (SITE + '[probe.a]\ncommand = ["a", 1]', ":6", "[probe.a] command", "wrong-type", None),
        (
            SITE + '[probe.a]\ncommand = ["a\\n"]',
            ":6",
            "[probe.a] command",
            "control-character",
            None,
        ),
        (
            SITE + '[probe.a]\ncommand = ["./run"]',
            ":6",
            "[probe.a] command",
            "program-invalid",
            "full path",
        ),
        (
            SITE + '[probe.a]\ncommand = ["-x"]',
            ":6",
            "[probe.a] command",
            "program-invalid",
            "PATH",
        ),
        (
            SITE + '[probe.a]\ncommand = ["run", "--to=${HOME}"]',
            ":6",
            "[probe.a] command",
            "placeholder-unknown",
            "{directory}, {tasks}, {nodes}; no shell",
        ),
        (
            SITE + '[probe.a]\ncommand = ["run", "{tasks}"]',
            ":5",
            "[probe.a] tasks_per_node",
            "tasks-missing",
            "write",
        ),
        (
            SITE + '[probe.a]\nlauncher = "mpi"\ncommand = ["run"]',
            ":5",
            "[probe.a] tasks_per_node",
            "tasks-missing",
            "write tasks_per_node",
        ),
        (
            SITE + '[probe.a]\ncommand = ["run"]\ntransfer_size = "4MiB"',
            ":7",
            "[probe.a] transfer_size",
            "key-unused",
            "leave it out",
        ),
        (
            SITE + '[probe.a]\ncommand = ["run"]\nrepetitions = 3',
            ":7",
            "[probe.a] repetitions",
            "key-unused",
            "leave",
        ),
        (
            SITE + '[probe.a]\ncommand = ["run"]\noptions = {z = ""}',
            ":7",
            "[probe.a] options",
            "key-unused",
            "leave",
        ),
        (
            SITE + '[probe.a]\ncommand = ["run"]\nitems = 3',
            ":7",
            "[probe.a] items",
            "key-unused",
            "leave",
        ),
        (
            SITE + '[probe.a]\nbenchmark = "mdtest"\nduration = "9s"',
            ":7",
            "[probe.a] duration",
            "key-unused",
            None,
        ),
        (SITE + "[probe.a]\nitems = 3", ":6", "[probe.a] items", "key-unused", None),
        (
            SITE + '[probe.a]\noutput = "x"',
            ":6",
            "[probe.a] output",
            "command-missing",
            "add command",
        ),
        (
            SITE + '[probe.a]\nbenchmark = "io500"',
            ":6",
            "[probe.a] benchmark",
            "command-missing",
            "command = [",
        ),
        (
            SITE + '[probe.a]\nbenchmark = "obdfilter-survey"\ncommand = ["run"]',
            ":6",
            "[probe.a] benchmark",
            "benchmark-on-servers",
            "trimtab survey",
        ),
        (
            SITE + '[probe.a]\ncommand = ["run"]\noutput = "../x"',
            ":7",
            "[probe.a] output",
            "path-outside-site",
            "relative",
        ),
        (
            SITE + '[probe.a]\ncommand = ["run"]\noutput = "/x"',
            ":7",
            "[probe.a] output",
            "path-outside-site",
            "relative",
        ),
        (
            SITE + '[probe.a]\ncommand = ["run"]\noutput = "a//x"',
            ":7",
            "[probe.a] output",
            "path-outside-site",
            None,
        ),
        (
            SITE + '[probe.a]\ncommand = ["run"]\noutput = "a**/x"',
            ":7",
            "[probe.a] output",
            "pattern-invalid",
            None,
        ),
        (
            LUSTRE + '[probe.a]\nbenchmark = "ior"\ncommand = ["run"]\ntarget_pinning = true',
            ":8",
            "[probe.a] target_pinning",
            "pinning-unsupported",
            None,
        ),
    ],
)
def test_a_mistake_is_told_with_its_place(
    text: str, line: str, place: str, code: str, hint: str | None
) -> None:
    error = refused(text)
    assert error.message.startswith(f"scratch.toml{line.removeprefix('scratch.toml')}")
    assert f": {place}: " in error.message
    assert error.code == code
    assert (hint or "") in (error.hint or "")


def test_a_command_is_read_word_by_word() -> None:
    text = """[probe.train]
benchmark = "mlperf-storage"
command = ["mlpstorage", "training", "--data-dir={directory}/data", "", '{"a": 1}']
output = "results/**/summary.json"
schedule = "every 6h"
timeout = "2h"
[probe.names]
benchmark = "mdtest"
items = 20
repetitions = 3
schedule = "every 1h"
"""
    loaded = parse_site(SITE + text, "scratch.toml")
    assert loaded.warnings == ()
    train, names = loaded.site.probes
    assert train == SiteProbe(
        "train",
        benchmark="mlperf-storage",
        command=("mlpstorage", "training", "--data-dir={directory}/data", "", '{"a": 1}'),
        output="results/**/summary.json",
        schedule="every 6h",
        timeout_s=7200.0,
    )
    assert (names.items, names.is_one_command, train.is_one_command) == (20, True, True)
    assert "slots will be missed" in warned(SITE + text.replace("2h", "7h"))


def test_places_are_filled_within_words_and_other_braces_stay() -> None:
    words = ["{directory}/{nodes}x{tasks}", "{{tasks}}", '{"a": {"b": 1}}', "{}", "${directory}"]
    values = {"directory": "/s/{tasks}", "tasks": "8", "nodes": "2"}
    assert filled(words, values) == (
        "/s/{tasks}/2x8",  # what is filled in is not looked at again
        "{tasks}",
        '{"a": {"b": 1}}',
        "{}",
        "$/s/{tasks}",
    )
    assert places(words) == ("directory", "nodes", "tasks")
    with pytest.raises(KeyError):
        filled(["{other}"], values)


def test_the_examples_of_the_page_on_probes_load() -> None:
    found = re.findall(r"```toml\n(.*?)```", PROBE_PAGE.read_text(), flags=re.DOTALL)
    loaded = [parse_site(SITE + text, "scratch.toml") for text in found]
    assert [one.site.probes[0].name for one in loaded] == ["names", "io500", "wrf"]
    assert all(one.warnings == () and one.site.probes[0].is_one_command for one in loaded)


def test_the_example_of_the_page_loads_without_a_warning() -> None:
    *_, command = examples()
    loaded = parse_site(SITE + command, "scratch.toml")
    assert loaded.warnings == ()
    assert [one.is_one_command for one in loaded.site.probes] == [True]
