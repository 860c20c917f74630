"""What the tests of the load generator have in common."""

import os
import sys
from pathlib import Path

import pytest

LAUNCHER_PREFIXES = ("OMPI_", "PMI", "SLURM_")


@pytest.fixture
def program() -> str:
    """The console script, as users run it."""
    return str(Path(sys.executable).parent / "trimtab-ioload")


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut the tests off from a launcher that may have started them."""
    for name in list(os.environ):
        if name.startswith(LAUNCHER_PREFIXES):
            monkeypatch.delenv(name)
