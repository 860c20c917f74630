"""Errors by their code: a sentence may be improved, the code stays."""

from __future__ import annotations

from typing import TypeVar

import pytest

from trimtab.base.error import TrimtabError

E = TypeVar("E", bound=TrimtabError)


def raises(kind: type[E], code: str, shows: str = "") -> pytest.RaisesExc[E]:
    """Return ``pytest.raises`` that asks for the error's code and for a value that it shows."""
    return pytest.raises(kind, check=lambda error: error.code == code and shows in error.message)
