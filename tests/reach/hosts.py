"""The hosts made by hand under ``tests/fixtures/hosts``, and where recorded outputs are found."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from trimtab.base.error import ToolError
from trimtab.reach.host import Host
from trimtab.reach.process import ProcessResult
from trimtab.reach.touch import PathState

_TESTS = Path(__file__).parents[1]
HOSTS = _TESTS / "fixtures" / "hosts"


def host(name: str) -> Host:
    """Return one of the hosts."""
    root = HOSTS / name
    assert root.is_dir()
    return Host(str(root))


def touch_of(device: str | None = None, real_path: str | None = None):
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
