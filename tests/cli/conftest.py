"""Screens for the tests of commands."""

from __future__ import annotations

import pytest
from tests.support.screens import Lines, lines_of


@pytest.fixture
def on_screen(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Lines:
    """Return what prints a screen and returns its lines."""
    return lines_of(capsys, monkeypatch)
