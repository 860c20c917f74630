"""Every command that is printed as a next step, a hint or a fix works as it is printed."""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path

import click
import numpy as np
import pytest
from tests.support.next_steps import (
    commands_in,
    every_command,
    hints,
    literals,
    template_text,
    without_prose,
)
from tests.support.small_site import SITE, SmallSite, hour
from tests.support.small_twin import small_scenario

from trimtab.cli import main, trimtab
from trimtab.twin import twin_site
from trimtab.twin.twin_run import TwinRequest, run_twin

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src/trimtab"


@pytest.mark.unit
def test_every_command_in_the_code_and_the_pages_is_one() -> None:
    """What is spoken of (docstrings, help) has to exist; what is printed has to be complete."""
    wrong = []
    for file in sorted(SOURCE.rglob("*.py")):
        for line, text, is_spoken in literals(file) if "trimtab " in file.read_text() else ():
            wrong += [f"{file.name}:{line}: {problem}" for problem in _problems(text, is_spoken)]
    for file in sorted(SOURCE.rglob("*.j2")):
        wrong += [f"{file.name}: {problem}" for problem in _problems(template_text(file), False)]
    assert not wrong, "\n".join(wrong)


def _problems(text: str, is_spoken: bool) -> list[str]:
    problems = []
    for words in commands_in(text):
        try:
            without_prose(words, is_name_enough=is_spoken)
        except click.UsageError as error:
            problems.append(f"trimtab {' '.join(words)}: {error.format_message()}")
    return problems


FOREIGN = {"--csvfile", "--help", "--jsonfile", "--option", "--posix", "--scheduler-file"}
"""Options that hints name of other programs."""


@pytest.mark.unit
def test_every_option_that_a_hint_names_is_one() -> None:
    known = FOREIGN | {
        option
        for command in every_command(trimtab, click.Context(trimtab))
        for parameter in command.params
        for option in (*parameter.opts, *parameter.secondary_opts)
    }
    named = {
        (option, file.name)
        for file in SOURCE.rglob("*.py")
        if "hint=" in (text := file.read_text())
        for hint in hints(text)
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", hint)
    }
    assert len(named) > 20
    assert {pair for pair in named if pair[0] not in known} == set()


# Worlds, and every command that their screens lead to


@dataclass
class World:
    """A store, and what lies beside it.

    Attributes
    ----------
    first
        Commands to begin with; their hints are followed, whether they succeed or not.
    chosen
        What a user puts in for a placeholder; a command with another one is read and not run.
    """

    first: Sequence[Sequence[object]]
    chosen: Mapping[str, str] = field(default_factory=dict)


def nothing(directory: Path) -> World:
    site = "lab-1"
    return World([["status"], ["runs"], ["judge", site], ["targets", site], ["show", "x"]])


def a_snapshot_alone(directory: Path) -> World:
    """Of a site without a file; an import is all that was done."""
    SmallSite().keep(directory / "t.db")
    targets = (("MDT", 0, "MDT0000"), ("OST", 0, "OST0000"), ("OST", 1, "OST0001"))
    rows = "\n".join(
        f"lab-{name}_UUID  98706432  5615616  93088768  6% /mnt/lab[{kind}:{index}]"
        for kind, index, name in targets
    )
    head = "UUID  1K-blocks  Used  Available Use% Mounted on"
    (directory / "df.txt").write_text(f"{head}\n{rows}\n")
    words = ["import", "df.txt", "--site", "lab-1", "--at", "2026-11-20T06:00:00Z"]
    return World([words, ["status"], ["alerts", "lab-1"], ["actions", "lab-1"]])


def with_incidents(directory: Path) -> World:
    """Writes lose 30 % for good, and one OST more than that in the surveys."""
    noise = np.random.default_rng(1)
    writes = 1e9 * (1 + 0.02 * noise.standard_normal(120))
    writes[70:] *= 0.7
    surveys = [(hour(12 * day), {"write_bandwidth": _rates(day, noise)}) for day in range(9)]
    SmallSite({"write_bandwidth": writes}, surveys).keep(directory / "t.db")
    names = ("judge", "incidents", "ladder", "revert", "correlate")
    more = [["event", "list", SITE], ["runs"], ["judge", SITE, "--json"]]
    return World([["status"], *([name, SITE] for name in names), *more])


def a_path(directory: Path) -> World:
    """A site that is made up for a path, which has a space."""
    path = directory / "my data"
    path.mkdir()
    names = ("snapshot", "targets", "site", "alerts", "actions", "tune", "revert", "status")
    at = ["targets", path, "--at", "2020-11-20T06:00:00Z"]
    return World([*([name, path] for name in names), at], {"TARGET": "/"})


def a_site_file(directory: Path) -> World:
    """Made by ``init``, in the place where site files are."""
    (directory / "data").mkdir()
    sites = directory / ".config/trimtab/sites"
    sites.mkdir(parents=True)
    code, text = run(["init", "data"])
    assert code == 0
    (name,) = re.findall(r"trimtab site ([a-z0-9-]+) --validate", text)
    (sites / f"{name}.toml").write_text(text.partition("\n  found: ")[0])
    names = ("snapshot", "targets", "site", "alerts", "tune", "trim", "survey", "ladder", "watch")
    return World([[verb, name, *(["--status"] * (verb == "watch"))] for verb in names])


def a_twin(directory: Path) -> World:
    """Whose site file lies where the simulation was put."""
    wanted = TwinRequest(small_scenario(), directory / "twin", until_s=6 * 3600.0)
    site = run_twin(wanted, progress=lambda text, part: None).site_file
    os.environ.pop("TRIMTAB_STORE")
    names = ("snapshot", "targets", "site", "alerts", "trim", "status")
    at = ["targets", site, "--at", "2020-11-20T06:00:00Z"]
    return World([*([name, site] for name in names), at], {"TARGET": "OST0000"})


def _rates(day: int, noise: np.random.Generator) -> dict[str, float]:
    slow = {2: 0.3} if day > 4 else {}
    return {
        f"OST{number:04x}": 1e9 * slow.get(number, 1.0) * (1 + 0.02 * noise.standard_normal())
        for number in range(6)
    }


def a_purge_index(directory: Path) -> World:
    tree, index = directory / "my tree", directory / "my index"
    tree.mkdir()
    for number in range(20):
        (tree / f"{number}").write_bytes(bytes(1000))
    questions = [[name, "--index", index] for name in ("query", "evasion", "horizon")]
    steps = [["scan", tree, "--index", index], ["policy", "--root", tree, "p.toml"], *questions]
    steps += [["recover", tree], ["run", directory / "plan"], ["horizon", "--index", tree]]
    steps += [["plan", "--index", index, "--policy", "p.toml", "--out", directory / "plan"]]
    return World([["purge", *step] for step in steps], {"INDEX": str(index)})


CHANGES = {
    "--apply",
    *("check", "probe", "watch", "serve", "demo", "sweep", "import", "survey", "twin run"),
    *("purge scan", "purge import", "purge arm", "purge run", "purge notify", "purge follow"),
}
"""What measures, changes or does not end is read by click and not run."""
NO_ADVICE = re.compile(r"(?m)^(?:Usage:|#).*")
"""Usage, and comments of a file that is to be kept first."""
PLACEHOLDER = re.compile(r"[A-Z]+(?:\.toml)?")


WORLDS = (nothing, a_snapshot_alone, with_incidents, a_path, a_site_file, a_twin, a_purge_index)


@pytest.mark.parametrize("make", WORLDS)
def test_every_command_that_a_screen_prints_works_on_its_store(
    make: Callable[[Path], World], tmp_path: Path, home: Path
) -> None:
    world = make(tmp_path)
    queue = [[str(word) for word in words] for words in world.first]
    known = {tuple(words) for words in queue}
    names = {word for words in queue for word in words[1:]}
    advised: dict[tuple[str, ...], str] = {}
    failed: dict[tuple[str, ...], str] = {}
    problems = []
    for words in queue:
        code, printed = run(words)
        if code:
            failed[tuple(words)] = printed
        for printed_words in commands_in(NO_ADVICE.sub("", printed)):
            try:
                command = without_prose(printed_words, names=names)
            except click.UsageError as error:
                problems.append(f"{words}: {printed_words}: {error.format_message()}")
                continue
            step = tuple(world.chosen.get(word, word) for word in command)
            if {*step, " ".join(step[:2])} & CHANGES or any(map(PLACEHOLDER.fullmatch, step)):
                continue
            if words[0] == "import" and SITE in step:
                problems.append(f"{words} of another site: {step}")
            advised.setdefault(step, " ".join(words))
            if step not in known:
                known.add(step)
                queue.append(list(step))
    problems += [
        f"{' '.join(step)}, advised by {by}: {failed[step]}"
        for step, by in advised.items()
        if step in failed
    ]
    assert not problems, "\n".join(problems)
    assert advised or make is nothing


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home of the test's own, without site files, and screens that break no line."""
    monkeypatch.setenv("TRIMTAB_STORE", str(tmp_path / "t.db"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "4000")
    for name in ("XDG_CONFIG_HOME", "TRIMTAB_SITES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for driver in twin_site._opened.values():
        driver.life.close()
    twin_site._opened.clear()


def run(words: Sequence[str]) -> tuple[int, str]:
    """Run a command in this process; return its exit code and all that it printed."""
    out, error = (io.TextIOWrapper(io.BytesIO(), write_through=True) for _ in range(2))
    with redirect_stdout(out), redirect_stderr(error), pytest.raises(SystemExit) as ended:
        main(words)
    texts = [stream.buffer.getvalue().decode() for stream in (out, error)]
    if "--json" in words:
        texts[0] = "\n".join(_strings(json.loads(texts[0])))
    code = ended.value.code
    return int(code or 0), "\n".join(texts)


def _strings(value: object) -> Iterator[str]:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if isinstance(value, str):
        yield value
    for part in parts:
        yield from _strings(part)
