"""A probe that is one command: what may stand in it, and what is told to be wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.site.test_load import LUSTRE, SITE, at_end, check_mistake, examples, warned

from trimtab.base.site import SiteProbe
from trimtab.site.site_check import filled, places
from trimtab.site.site_file import parse_site

PROBE_PAGE = Path(__file__).resolve().parents[2] / "docs" / "probe.md"


@pytest.mark.parametrize(
    ("text", "line", "place", "code", "hint"),
    [
        at_end('[probe.a]\ncommand = "run me"', "wrong-type", '["pro'),
        at_end("[probe.a]\ncommand = []", "text-empty"),
        at_end('[probe.a]\ncommand = ["a", 1]', "wrong-type"),
        at_end('[probe.a]\ncommand = ["a\\n"]', "control-character"),
        at_end('[probe.a]\ncommand = ["./run"]', "program-invalid", "full path"),
        at_end('[probe.a]\ncommand = ["-x"]', "program-invalid", "PATH"),
        at_end(
            '[probe.a]\ncommand = ["run", "--to=${HOME}"]',
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
        at_end(
            '[probe.a]\ncommand = ["run"]\ntransfer_size = "4MiB"', "key-unused", "leave it out"
        ),
        at_end('[probe.a]\ncommand = ["run"]\nrepetitions = 3', "key-unused", "leave"),
        at_end('[probe.a]\ncommand = ["run"]\noptions = {z = ""}', "key-unused", "leave"),
        at_end('[probe.a]\ncommand = ["run"]\nitems = 3', "key-unused", "leave"),
        at_end('[probe.a]\nbenchmark = "mdtest"\nduration = "9s"', "key-unused"),
        at_end("[probe.a]\nitems = 3", "key-unused"),
        at_end('[probe.a]\noutput = "x"', "command-missing", "add command"),
        at_end('[probe.a]\nbenchmark = "io500"', "command-missing", "command = ["),
        (
            SITE + '[probe.a]\nbenchmark = "obdfilter-survey"\ncommand = ["run"]',
            ":6",
            "[probe.a] benchmark",
            "benchmark-on-servers",
            "trimtab survey",
        ),
        at_end('[probe.a]\ncommand = ["run"]\noutput = "../x"', "path-outside-site", "relative"),
        at_end('[probe.a]\ncommand = ["run"]\noutput = "/x"', "path-outside-site", "relative"),
        at_end('[probe.a]\ncommand = ["run"]\noutput = "a//x"', "path-outside-site"),
        at_end('[probe.a]\ncommand = ["run"]\noutput = "a**/x"', "pattern-invalid"),
        at_end(
            '[probe.a]\nbenchmark = "ior"\ncommand = ["run"]\ntarget_pinning = true',
            "pinning-unsupported",
            head=LUSTRE,
        ),
    ],
)
def test_a_mistake_is_told_with_its_place(
    text: str, line: str, place: str, code: str, hint: str | None
) -> None:
    check_mistake(text, line, place, code, hint)


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
