"""What an error of Trimtab is known by, for ``pytest.raises(..., check=coded("plan-expired"))``."""

from __future__ import annotations

from collections.abc import Callable


def coded(code: str) -> Callable[[BaseException], bool]:
    """Return whether an error has a code."""
    return lambda error: getattr(error, "code", None) == code
