"""Causes of a file system that is slow or unsteady: one file each, listed in this one table.

A cause is a pure function from a context to every piece of evidence that was looked for; see
`trimtab.explain.causes.cause.Cause`. To add one, copy the shortest file here and add its line.
"""

from __future__ import annotations

from typing import Final

from trimtab.explain.causes.cause import Cause

TABLE: Final[tuple[Cause, ...]] = ()
