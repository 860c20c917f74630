"""Every command has help, a page, a JSON document that fits its schema, and starts quickly."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import Mock

import click
import pytest
from click.testing import CliRunner
from tests.support.command import TRIMTAB, installed, trimtab
from tests.support.documents import misfits
from tests.support.narrow import present

from trimtab import cli
from trimtab.base.error import install_command
from trimtab.cli import COMMANDS
from trimtab.cli import trimtab as root
from trimtab.show import command_options
from trimtab.show.command_group import loaded

ROOT = Path(__file__).resolve().parents[2]
HEAVY = {
    *("polars", "scipy", "numpy", "altair", "pydantic", "sqlalchemy", "alembic", "rich", "jinja2"),
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with one run in it."""
    directory = tmp_path_factory.mktemp("parity")
    (directory / "target").mkdir()
    store = directory / "t.db"
    arguments = ("--probe", "builtin", "--budget", "2s", "--tasks", 1)
    ended = trimtab("check", directory / "target", *arguments, store=store)
    assert ended.code == 0, ended.stderr
    return store


@pytest.fixture(scope="module")
def first_run(store):
    return trimtab("runs", "--json", store=store).document["runs"][-1]["id"]


@pytest.mark.parametrize("name", COMMANDS)
def test_help(name):
    command = loaded(COMMANDS[name][0])
    assert command.name == name
    assert command.help
    for option in command.params:
        assert option.param_type_name == "argument" or option.help, f"{name} {option.name}"
    for words, each in subcommands(name, command):
        # Rows and files have one word each.
        assert {"limit", "report"}.isdisjoint(long_option_names(each)), words


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_is_documented(name):
    """An option stands on a page that names its command; ``--json`` and ``--store`` on any page."""
    # Not the reference: it is made from the commands, and would say nothing of them.
    files = set((ROOT / "docs").glob("*.md")) - {ROOT / "docs/commands.md"}
    pages = [page.read_text() for page in files]
    for words, command in subcommands(name, loaded(COMMANDS[name][0])):
        pages_of_command = [page for page in pages if f"trimtab {words}" in page]
        assert pages_of_command, words
        for option in long_options(command):
            texts = pages if option in {"--json", "--store"} else pages_of_command
            written = re.compile(rf"{option}(?![\w-])")
            assert any(written.search(text) for text in texts), f"trimtab {words} {option}"


def subcommands(words, command):
    """Yield a command and all below it, each with the words that call it."""
    yield words, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from subcommands(f"{words} {name}", command.get_command(context, name))


def long_option_names(command):
    """Return the names of all options, that of the help too, without their dashes."""
    options = command.get_params(click.Context(root))
    return [
        max(option.opts, key=len).removeprefix("--")
        for option in options
        if isinstance(option, click.Option)
    ]


def long_options(command):
    options = [option for option in command.params if option.param_type_name == "option"]
    names = (name for option in options for name in (*option.opts, *option.secondary_opts))
    return [name for name in names if name.startswith("--")]


def test_the_commands_stand_in_five_groups_those_of_every_day_first():
    shown = CliRunner().invoke(root, ["--help"]).output
    titles = re.findall(r"^(\w[\w ]*):$", shown, re.M)
    assert titles == ["Options", "Look", "Measure", "Act", "Plan", "Set up"]
    assert re.findall(r"^  ([a-z]+) ", shown, re.M) == list(COMMANDS)
    assert list(COMMANDS)[:5] == ["status", "judge", "incidents", "explain", "targets"]


LONG_COMMANDS = {
    words: command
    for name, (place, _) in COMMANDS.items()
    for words, command in subcommands(name, loaded(place))
    if len(long_option_names(command)) > command_options.OPTIONS_MOST
}


@pytest.mark.parametrize("words", sorted({*LONG_COMMANDS, *command_options.OPTION_GROUPS}))
def test_more_than_twelve_options_and_no_fewer_stand_in_groups(words):
    groups = [names.split() for names in command_options.OPTION_GROUPS[words].values()]
    grouped = [name for names in groups for name in names]
    assert set(grouped) - set(command_options.OUTPUT.split()) <= set(
        long_option_names(LONG_COMMANDS[words])
    )
    assert sorted(set(grouped)) == sorted(grouped)
    assert max(map(len, groups)) <= command_options.OPTIONS_MOST
    shown = CliRunner().invoke(root, [*words.split(), "--help"]).output
    assert "\nOther:\n" not in shown
    assert "\nOptions:\n" not in shown
    listed = shown.partition(f"\n{next(iter(command_options.OPTION_GROUPS[words]))}:\n")[2]
    assert re.findall(r"^  (?:-h, )?--([a-z-]+)", listed, re.M) == [
        name for name in grouped if name in long_option_names(LONG_COMMANDS[words])
    ]


@pytest.mark.parametrize(
    ("words", "typed"),
    [
        ("size --capacity 33 --daily-writes 2PB", "33TB or 33TiB or 33PiB"),
        ("size --osts 3 --daily-writes 2.5", "2.5TB or"),
        ("size --osts 3 --daily-writes 5TB --drive-capacity 15e3", "15e3TB or"),
        ("size --osts 3 --daily-writes 5TB --write-bandwidth 4", "4GB/s or 4TB/s"),
        ("hints --ost 3 --nodes 3 --file-size 100", "100MiB or 100GiB"),
        ("compare a b --target-rate 15", "15MB/s or 15GB/s"),
    ],
)
def test_a_large_figure_without_its_unit_is_refused_with_what_to_type(words, typed):
    ended = CliRunner().invoke(root, words.split())
    assert ended.exit_code == 2
    assert "has no unit; type " in ended.stderr
    assert typed in " ".join(ended.stderr.split())


def test_every_finding_is_documented():
    from trimtab.explain.finding_table import TABLE

    page = (ROOT / "docs" / "check.md").read_text()
    assert [name for name in TABLE if f"`{name}`" not in page] == []


PROBE = """
[probe.quick]
benchmark = "builtin"
tasks_per_node = 1
block_size = "1MiB"
duration = "0.2s"
direct = false
"""
SWEEP = """
[sweep]
name = "parity"
site = "{site}"
probe = "quick"
rounds = 1
[factor]
transfer_size = ["64KiB", "1MiB"]
"""


# A survey needs OSTs, and what looks at months needs those: tests/probe holds their documents
# to their schemas (survey/, verdict/test_a_judged_site.py).
# What needs servers is held to its schema in tests/probe/test_inventory.py and
# tests/answers/test_holders.py.
# The dashboard prints no document: tests/web holds its API to them.
ELSEWHERE = {
    *("survey", "judge", "incidents", "explain", "correlate", "inventory", "holders", "serve"),
    "demo",
}


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in ELSEWHERE])
def test_json_fits_its_published_schema(name, store, first_run, tmp_path):
    target = str(store.parent / "target")
    site = store.parent / "parity.toml"
    if not site.exists():
        site.write_text(f'[site]\nname = "parity"\ndriver = "local"\npath = "{target}"\n{PROBE}')
    sweep = tmp_path / "sweep.toml"
    sweep.write_text(SWEEP.format(site=site))
    arguments = {
        "check": (target, "--no-probe"),
        "init": (target,),
        "site": (site, "--validate"),
        "targets": (site,),
        "snapshot": (site,),
        "watch": (site, "--once"),
        "alerts": (site,),
        "status": (),
        "runs": (),
        "tune": (site,),
        "trim": (site,),
        "balance": (site,),
        "actions": (site,),
        "revert": (site, "--all"),
        "show": (first_run,),
        "store": ("copy", store, tmp_path / "copy.db"),
        "ladder": (ROOT / "docs" / "examples" / "perlmutter.toml",),
        "compare": ("673320±31779/240 MB/s", "554012±37846/240 MB/s"),
        "hints": ("--ost", 4, "--nodes", 32),
        "probe": ("quick", "--site", site),
        "sweep": (sweep,),
        "event": ("add", target, "a word", "--kind", "note"),
        "maintenance": (target, "--from", "2026-10-14", "--until", "2026-10-15", "--why", "x"),
        "silence": (target,),
        "twin": ("wa", "--spare", "0.2", "--superblocks", 64, "--pages-per-block", 16),
        "size": ("--osts", 1, "--daily-writes", "5TB", "--mean-file", "1MB"),
        "whatif": ("template", "--until", "2h", "--classes", 1, "--seeds", 1, "--again"),
        "purge": ("report", "--place", tmp_path),
        "report": (target, "--out", tmp_path / "month.md", "--place", tmp_path),
        "import": (ROOT / "tests" / "fixtures" / "ioload" / "0.1.0" / "write-direct.out",),
    }[name]
    ended = installed(name, *arguments, "--json", store=store)
    assert ended.code == 0, ended.stderr
    assert misfits(ended.document, name) == []


def modules_of(*words: object) -> set[str]:
    """Return the modules that a command has imported when it ends."""
    script = (
        "import sys; from trimtab.cli import main\n"
        f"try: main({[str(word) for word in words]!r})\n"
        "except SystemExit: print(' '.join(sys.modules), file=sys.stderr)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return set(ended.stderr.split())


def within(modules: set[str], *packages: str) -> list[str]:
    """Return the modules that lie in some packages of trimtab."""
    assert [name for name in packages if find_spec(f"trimtab.{name}") is None] == []
    beginnings = tuple(f"trimtab.{package}" for package in packages)
    return sorted(name for name in modules if name.startswith(beginnings))


def test_help_and_version_load_nothing_heavy():
    assert modules_of("--help") & HEAVY == set()


@pytest.mark.parametrize("has_snapshot", [False, True])
def test_status_loads_neither_frames_nor_statistics_nor_models(store, tmp_path, has_snapshot):
    """What makes `status` slow is importing, not the query; a kept snapshot is a frame."""
    if not has_snapshot:
        store = tmp_path / "runs.db"
        ior = ROOT / "tests/fixtures/ior/3.0.1/full.out"
        trimtab("import", ior, "--at", "2026-11-20T06:00:00Z", store=store)
    modules = modules_of("status", "--store", store)
    forbidden = {"scipy", "altair", "pydantic", "alembic", "jinja2", "sqlalchemy.orm"}
    if not has_snapshot:
        forbidden |= {"polars", "numpy"}
    assert modules & forbidden == set()
    reached = ("reach.local_driver", "reach.local_telemetry", "reach.lustre", "reach.slurm_client")
    idle = (*reached, "formats.phase", "explain.finding_table", "purge", "twin")
    assert within(modules, *idle) == []


def test_a_table_is_judged_without_a_store(tmp_path):
    table = tmp_path / "table.csv"
    table.write_text("at,value\n" + "".join(f"2026-03-{day:02},{day}\n" for day in range(1, 31)))
    modules = modules_of("judge", "--csv", table)
    assert "trimtab.judge.series_analysis" in modules
    assert modules & {"scipy", "altair", "pydantic", "alembic", "jinja2", "sqlalchemy"} == set()
    idle = ("store.store", "store.schema", "explain.causes", "purge", "twin")
    assert within(modules, *idle) == []


def test_a_scan_loads_no_frames(tmp_path):
    (tmp_path / "tree").mkdir()
    modules = modules_of("purge", "scan", tmp_path / "tree", "--index", tmp_path / "index")
    assert "trimtab.purge.index.scan" in modules
    assert modules & {"polars", "numpy", "scipy", "altair", "jinja2", "sqlalchemy.orm"} == set()


def test_unknown_commands_are_wrong_use(store):
    ended = trimtab("chekc", store=store)
    assert ended.code == 2
    assert "chekc" in ended.stderr


def test_output_that_nobody_reads_is_no_error(store):
    argv, pipe = [str(TRIMTAB), "runs", "--store", str(store)], subprocess.PIPE
    process = subprocess.Popen(argv, stdout=pipe, stderr=pipe)
    present(process.stdout).close()
    _, complaint = process.communicate(timeout=60)
    assert b"Traceback" not in complaint
    assert process.returncode == 0, complaint


def test_show_prints_the_raw_output_byte_for_byte(store):
    run = trimtab("runs", "--probe", "check", "--json", store=store).document["runs"][-1]
    shown = trimtab("show", run["id"][:13], "--json", store=store).document
    assert len(shown["outputs"]) == 2
    raw = trimtab("show", run["id"], "--output", 0, store=store).stdout
    assert json.loads(raw)["phases"][0]["access"] == "write"
    assert len(raw.encode()) == shown["outputs"][0]["stdout_bytes"]
    for sample in shown["run"]["samples"]:
        assert sample["output"] in {0, 1}
        assert sample["line"] <= len(raw.splitlines()) or sample["output"] == 1


@pytest.mark.parametrize(
    ("module", "known"), [("altair", True), ("vl_convert", True), ("x", False)]
)
def test_a_page_without_charts_names_the_extra(module, known, monkeypatch, capsys):
    missing = ModuleNotFoundError(f"No module named {module!r}", name=module)
    monkeypatch.setattr(cli.trimtab, "invoke", Mock(side_effect=missing))
    with pytest.raises(SystemExit if known else ModuleNotFoundError) as ended:
        cli.main(["status"])
    assert not known or getattr(ended.value, "code", None) == 2
    assert (install_command("charts") in capsys.readouterr().err) == known
