"""Formats that are not text: a child process turns them into text that a format reads."""

from __future__ import annotations

import tempfile
from typing import Final

from trimtab.errors import DataError
from trimtab.launch.process import execute
from trimtab.measure import darshan

_TIMEOUT_S: Final = 120.0
_LIMIT_BYTES: Final = 256 * 1024**2


def converted(content: bytes) -> bytes | None:
    """Return the text of a binary file; ``None`` where the content is to be read as it is.

    The child gets a copy: its library reads untrusted bytes, from a path, and may crash.

    Raises
    ------
    DataError
        It did not end, or printed nothing.
    """
    if not darshan.is_log(content):
        return None
    with tempfile.NamedTemporaryFile(suffix=".darshan") as copy:
        copy.write(content)
        copy.flush()
        argv = darshan.dump_command(copy.name)
        result = execute(argv, timeout_s=_TIMEOUT_S, output_limit_bytes=_LIMIT_BYTES)
    if result.timed_out or result.truncated or not result.stdout:
        problem = result.problem or "it printed nothing"
        raise DataError(
            f"PyDarshan cannot read this Darshan log: {problem}", code="format-unreadable"
        )
    return result.stdout
