"""What the system refuses while files of a purge are read or written, as an error of Trimtab."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from trimtab.errors import UnreadableError


@contextmanager
def system_errors(problem: str, *, code: str, hint: str | None = None) -> Iterator[None]:
    """Raise an `OSError` of the block as an `UnreadableError`.

    Parameters
    ----------
    problem
        What failed and where; what the system says is added.

    Raises
    ------
    UnreadableError
        A call to the system failed.
    """
    try:
        yield
    except OSError as error:
        message = f"{problem}: {error.strerror or error}"
        raise UnreadableError(message, code=code, hint=hint) from error
