"""Outputs that real tools printed: small ones kept here, the whole collection where it is."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from trimtab.base.run import RawOutput

FIXTURES = Path(__file__).parent.parent / "fixtures"
_DEFAULT = Path(__file__).parent.parent.parent.parent / "shared" / "data"
REAL_DATA = Path(os.environ.get("TRIMTAB_REAL_DATA", _DEFAULT))


@dataclass(frozen=True, slots=True)
class Recording:
    """One capture: what was run, what came out of it."""

    name: str
    output: RawOutput

    @property
    def text(self) -> str:
        return self.output.stdout.decode()


def recording(path: Path) -> Recording:
    """Return the capture whose ``.out`` is at ``path``; the files beside it belong to it."""

    def beside(suffix: str) -> bytes:
        other = path.with_suffix(suffix)
        return other.read_bytes() if other.exists() else b""

    code = beside(".rc").strip()
    argv = tuple(beside(".cmd").decode().split())
    exit_code = int(code) if code.lstrip(b"-").isdigit() else None
    output = RawOutput(path.stem, argv, path.read_bytes(), beside(".err"), exit_code)
    return Recording(path.stem, output)


def kept(tool: str) -> list[Recording]:
    """Return the captures of a tool that are kept with the tests."""
    return [recording(path) for path in sorted((FIXTURES / tool).glob("*/*.out"))]


def fixture(tool: str, name: str) -> Recording:
    """Return one of them."""
    (path,) = (FIXTURES / tool).glob(f"*/{name}.out")
    return recording(path)


def real(folder: str, *, without: str = "\0") -> list[Recording]:
    """Return the captures of a folder of the collection, none where it is absent."""
    paths = sorted((REAL_DATA / folder).glob("*.out"))
    return [recording(path) for path in paths if not path.name.startswith(without)]


def require(recordings: list[Recording]) -> list[Recording]:
    """Return them, or skip the test with the reason."""
    if not recordings:
        pytest.skip(f"no recorded data under {REAL_DATA} (set TRIMTAB_REAL_DATA)")
    return recordings
