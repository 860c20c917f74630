"""The table of benchmarks: complete, and each is found or says why not."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest
from tests.formats.recorded import FIXTURES
from tests.support.codes import raises

import trimtab.formats as package
from trimtab.base.error import UsageError
from trimtab.base.run import ProbeSpec, RawOutput
from trimtab.base.snapshot import NotAvailable
from trimtab.formats.format_table import BENCHMARKS, TABLE, Tool, find, formats, names, phases_of
from trimtab.formats.phase import PhaseRequest

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = {
    "ior": b'{\n  "Version": "4.1.0+dev", \n',
    "fio": b"fio-3.33\n",
    "builtin": b"ioload 0.1.0\n",
    "elbencho": b"elbencho\n * Version: 3.1-10\n * Net protocol version: 3.1.3\n",
}


def test_auto_takes_what_the_field_compares_by_first() -> None:
    order = [name for name in names("phases") if name in VERSIONS]
    assert order == ["ior", "fio", "builtin", "elbencho"]
    assert [phases_of(name).launchers[0] for name in order] == ["mpi", "local", "local", "local"]


def test_every_adapter_has_its_line() -> None:
    """An adapter is a file or folder beside the table that has ``FORMAT``."""
    modules = [
        import_module(f"{package.__name__}.{path.stem}")
        for path in Path(package.__file__).parent.iterdir()
        if not path.name.startswith("__")
    ]
    adapters = {module.__name__ for module in modules if hasattr(module, "FORMAT")}
    assert {benchmark.adapter for benchmark in TABLE} == adapters
    phased = {module.PHASES.name for module in modules if hasattr(module, "PHASES")}
    assert set(names("phases")) == phased


def test_options_of_a_probe_reach_every_benchmark_or_are_refused() -> None:
    spec = ProbeSpec("hourly", "auto", 1, 2**20, 2**20, 1, 1.0, options={"further": "4"})
    for name in names("phases"):
        phases = phases_of(name)
        assert phases.arguments(PhaseRequest(spec, "write", "p", "/x"))[-1] == "--further=4"
        (reserved,) = {"t", "bs", "transfer-size"} & phases.reserved_options
        refused = replace(spec, options={reserved: "4k"})
        with raises(UsageError, "option-reserved"):
            phases.arguments(PhaseRequest(refused, "write", "p", "/x"))


def test_a_format_has_the_name_of_its_line() -> None:
    for benchmark in TABLE:
        assert import_module(benchmark.adapter).FORMAT.kind == benchmark.name
    assert len(BENCHMARKS) == len(TABLE) == len(formats())


@pytest.mark.system
def test_a_name_is_known_without_reading_any_adapter() -> None:
    """A site file is read often; what a benchmark prints seldom."""
    code = "import sys, trimtab.formats.format_table as t; t.names('phases'); print(*sys.modules)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(ended.stdout.split()).isdisjoint({benchmark.adapter for benchmark in TABLE})


@pytest.mark.system
def test_every_benchmark_is_documented() -> None:
    script = FIXTURES.parent.parent / "scripts" / "benchmarks_page.py"
    made = subprocess.run([sys.executable, str(script), "--check"], check=False)
    assert made.returncode == 0, "run scripts/benchmarks_page.py"


def test_every_benchmark_has_its_page() -> None:
    pages = [benchmark.documentation.partition("#")[0] for benchmark in TABLE]
    assert [page for page in pages if page and not (ROOT / "docs" / page).is_file()] == []


def test_a_probe_of_one_command_is_mdtest_alone() -> None:
    """`trimtab.probe.site_command` makes the command of that one."""
    assert [*names("one command")] == ["mdtest"]


@pytest.mark.parametrize("name", VERSIONS)
def test_found_on_the_path(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / phases_of(name).programs[0]
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = find(name, lambda argv: RawOutput("version", argv, VERSIONS[name]))
    assert isinstance(found, Tool)
    assert (found.name, found.path) == (name, str(program))
    assert found.version.encode() in VERSIONS[name]


@pytest.mark.parametrize("name", VERSIONS)
def test_missing_is_an_answer(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    found = find(name, lambda argv: RawOutput("version", argv, VERSIONS[name]))
    assert found == NotAvailable(f"{phases_of(name).programs[0]} is not on PATH")


@pytest.mark.parametrize("name", VERSIONS)
def test_given_path_is_taken(name: str) -> None:
    found = find(name, lambda argv: RawOutput("version", argv, VERSIONS[name]), path="/opt/tool")
    assert isinstance(found, Tool)
    assert found.path == "/opt/tool"


def test_what_comes_with_trimtab_is_found_beside_its_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "trimtab-ioload"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    found = find("builtin", lambda argv: RawOutput("version", argv, VERSIONS["builtin"]))
    assert isinstance(found, Tool)
    assert found.path == str(program)


def test_unknown_benchmark_is_a_bug() -> None:
    with pytest.raises(KeyError):
        find("dd", lambda argv: RawOutput("version", argv, b""))
