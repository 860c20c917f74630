"""The hosts made by hand under ``tests/fixtures/hosts``, and where recorded outputs are found."""

from __future__ import annotations

import ast
import gzip
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from trimtab.base.error import ToolError
from trimtab.reach.host import Host
from trimtab.reach.local_driver import LocalDriver
from trimtab.reach.process import ProcessResult
from trimtab.reach.touch import PathState

_TESTS = Path(__file__).parents[1]
Touch = Callable[[str], PathState]
HOSTS = _TESTS / "fixtures" / "hosts"


def host(name: str) -> Host:
    """Return one of the hosts."""
    root = HOSTS / name
    assert root.is_dir()
    return Host(str(root))


def touch_of(device: str | None = None, real_path: str | None = None) -> Touch:
    """Return what answers for a path of such a host: it exists, on that device."""

    def touch(path: str) -> PathState:
        return PathState(
            path=path, exists=True, kind="directory", real_path=real_path or path, device=device
        )

    return touch


def no_tools(argv: object, **_options: object) -> ProcessResult:
    """Stand for a host without any tool; a test that must not start one gives this."""
    raise ToolError(f"{argv} was started")


def text_of(path: Path) -> str:
    """Return the text of a file, which may be packed."""
    content = path.read_bytes()
    unpacked = gzip.decompress(content) if path.suffix == ".gz" else content
    return unpacked.decode(errors="surrogateescape")


def recorded(name: str, part: str = "out") -> str:
    """Return a part of a recorded command of Lustre 2.17: cmd, out, err or rc."""
    path = real_data("lustre-2.17") / f"{name}.{part}"
    return text_of(path if path.exists() else path.with_name(f"{path.name}.gz"))


def real_data(path: str) -> Path:
    """Return a recorded output of a real system; skips where the recordings are not there."""
    folder = os.environ.get("TRIMTAB_REAL_DATA")
    root = Path(folder) if folder else _TESTS.parents[1] / "shared" / "data"
    if not root.is_dir():
        pytest.skip(f"no recorded data in {root} (TRIMTAB_REAL_DATA)")
    found = root / path
    assert found.exists(), found
    return found


def parts_of(program: bytes, *, called: str) -> tuple[set[str], list[str]]:
    """Return what a program for Python 3.6 imports, and what it defines; a call is its end."""
    text = program.decode("ascii")
    tree = ast.parse(text, feature_version=(3, 6))
    imported: set[str] = set()
    names: list[str] = []
    for node in ast.walk(tree):
        assert not isinstance(node, (ast.ImportFrom, ast.NamedExpr))
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.append(node.name)
        elif isinstance(node, ast.Assign):
            names += [target.id for target in node.targets if isinstance(target, ast.Name)]
    assert text.rstrip().splitlines()[-1].startswith(f"{called}('")
    return imported, names


def driver_on(
    machine: str | Path, path: str, device: str | None = None, touch: Touch | None = None
) -> LocalDriver:
    """Return a driver of a path on one of the hosts, or on a machine's files; it has no tools."""
    on = host(machine) if isinstance(machine, str) else Host(str(machine))
    return LocalDriver(path, host=on, touch=touch or touch_of(device), execute=no_tools)
