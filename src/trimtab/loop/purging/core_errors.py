"""What goes wrong in the core, in Trimtab's own words."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from trimtab.errors import DataError, ToolError, TrimtabError, UsageError
from trimtab.visible import visible


@contextmanager
def core_errors(doing: str, *, hint: str | None = None) -> Iterator[None]:
    """Raise what the core raises as an error of Trimtab.

    Parameters
    ----------
    doing
        What is done, as a noun: ``the scan``.
    hint
        What to do next where a call to the system failed, or a file is damaged.

    Raises
    ------
    ToolError
        A call to the system failed.
    UsageError
        A number or a path that cannot be.
    DataError
        A file is not what it should be.
    """
    try:
        yield
    except TrimtabError:
        raise
    except OSError as error:
        named = "" if error.filename is None else f" at {visible(os.fsdecode(error.filename))}"
        why = error.strerror or str(error)
        raise ToolError(
            f"{doing} failed{named}: {visible(why)}", code="system-call-failed", hint=hint
        ) from error
    except ValueError as error:
        raise UsageError(
            f"{doing} cannot be done so: {visible(str(error))}", code="value-refused"
        ) from error
    except RuntimeError as error:
        raise DataError(
            f"{doing} failed: {visible(str(error))}", code="core-data-damaged", hint=hint
        ) from error
