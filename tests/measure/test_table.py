"""The table of benchmarks: complete, and each is found or says why not."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

import pytest

import trimtab.measure as package
from trimtab.measure.table import BENCHMARKS, FORMATS, Tool, find
from trimtab.model.run import RawOutput
from trimtab.model.telemetry import NotAvailable

SAYS = {
    "ior": b'{\n  "Version": "4.1.0+dev", \n',
    "fio": b"fio-3.33\n",
    "builtin": b"ioload 0.1.0\n",
}


def test_auto_takes_what_the_field_compares_by_first() -> None:
    assert list(BENCHMARKS) == ["ior", "fio", "builtin"]
    usual = [benchmark.launchers[0] for benchmark in BENCHMARKS.values()]
    assert usual == ["mpi", "local", "local"]


def test_every_benchmark_has_its_file_and_its_line() -> None:
    """A benchmark is one file, or one folder, beside the table."""
    helpers = {
        "__init__",
        "__pycache__",
        "measurement",
        "mixed",
        "options",
        "plain",
        "source",
        "table",
        "workload",
    }
    files = {path.stem for path in Path(package.__file__).parent.iterdir()} - helpers
    functions = [*(one.parse for one in BENCHMARKS.values()), *(one.read for one in FORMATS)]
    modules = {inspect.getmodule(function) for function in functions}
    prefix = package.__name__ + "."
    listed = {
        module.__name__.removeprefix(prefix).partition(".")[0]
        for module in modules
        if module is not None
    }
    assert listed == files


def test_no_two_formats_have_one_kind() -> None:
    kinds = [form.kind for form in FORMATS]
    assert len(kinds) == len(set(kinds))


@pytest.mark.parametrize("name", BENCHMARKS)
def test_found_on_the_path(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / BENCHMARKS[name].programs[0]
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = find(name, lambda argv: RawOutput("version", argv, SAYS[name]))
    assert isinstance(found, Tool)
    assert (found.name, found.path) == (name, str(program))
    assert found.version.encode() in SAYS[name]


@pytest.mark.parametrize("name", BENCHMARKS)
def test_missing_is_an_answer(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    found = find(name, lambda argv: RawOutput("version", argv, SAYS[name]))
    assert found == NotAvailable(f"{BENCHMARKS[name].programs[0]} is not on PATH")


@pytest.mark.parametrize("name", BENCHMARKS)
def test_given_path_is_taken(name: str) -> None:
    found = find(name, lambda argv: RawOutput("version", argv, SAYS[name]), path="/opt/tool")
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
    found = find("builtin", lambda argv: RawOutput("version", argv, SAYS["builtin"]))
    assert isinstance(found, Tool)
    assert found.path == str(program)


def test_unknown_benchmark_is_a_bug() -> None:
    with pytest.raises(KeyError):
        find("dd", lambda argv: RawOutput("version", argv, b""))
