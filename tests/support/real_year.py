"""The public year of daily probes, read by the script of the page about it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from tests.formats.recorded import REAL_DATA

_SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


def tables() -> list[Path]:
    """Return the two tables; skip the test where they are not here."""
    files = sorted((REAL_DATA / "tokio-abc").glob("*.csv.gz"))
    if not files:
        pytest.skip(f"no recorded data under {REAL_DATA} (set TRIMTAB_REAL_DATA)")
    return files


def tokio_abc() -> Any:
    """Return the script's module."""
    sys.path.insert(0, str(_SCRIPTS))
    try:
        import tokio_abc  # type: ignore[import-not-found]
    finally:
        sys.path.remove(str(_SCRIPTS))
    return tokio_abc


def real_year() -> list[Any]:
    """Return the runs and failovers of each table."""
    return [tokio_abc().read(file) for file in tables()]
