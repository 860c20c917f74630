"""What comes about a little later: asked for until it is so, and never after a fixed time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

PATIENCE_S: Final = 60.0


def eventually(is_so: Callable[[], bool]) -> None:
    """Return as soon as it is so; a kernel that is busy may take long."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline, f"not so within {PATIENCE_S:.0f} s"
        time.sleep(0.05)
