"""The generator and the program that is scored on it know nothing of one another."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def _contract() -> dict[str, object]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    assert "tests.incidents" in settings["root_packages"]
    return next(one for one in settings["contracts"] if "tests.incidents" in one.get("modules", []))


def _lint(directory: Path, line: str) -> subprocess.CompletedProcess[str]:
    """Run the project's own contract over a package that holds one line."""
    package = directory / "tests" / "incidents"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text('"""A generator."""\n')
    (package / "part.py").write_text(line)
    program = directory / "trimtab"
    program.mkdir()
    (program / "__init__.py").write_text("")
    (program / "units.py").write_text("")
    contract = _contract()
    (directory / "contract.ini").write_text(
        "[importlinter]\n"
        "root_packages =\n    trimtab\n    tests.incidents\n"
        "[importlinter:contract:1]\n"
        f"name = {contract['name']}\n"
        f"type = {contract['type']}\n"
        "modules =\n    trimtab\n    tests.incidents\n"
    )
    code = "import sys; from importlinter.cli import lint_imports_command; lint_imports_command()"
    return subprocess.run(
        [sys.executable, "-P", "-c", code, "--config", "contract.ini", "--no-cache"],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={"PYTHONPATH": str(directory), "PATH": ""},
    )


def test_the_contract_names_both() -> None:
    contract = _contract()
    assert contract["type"] == "independence"
    modules = {"trimtab", "tests.incidents", "tests.worlds"}
    assert set(contract["modules"]) == modules  # pyrefly: ignore[bad-argument-type]


@pytest.mark.system
def test_the_contract_catches_an_import_of_the_program(tmp_path: Path) -> None:
    found = _lint(tmp_path, "import trimtab.units\n")
    assert found.returncode == 1, found.stderr
    assert "tests.incidents.part -> trimtab.units" in found.stdout.replace("\n", " ")


@pytest.mark.system
def test_the_contract_is_kept_without_one(tmp_path: Path) -> None:
    found = _lint(tmp_path, "import math\n")
    assert found.returncode == 0, found.stdout + found.stderr
