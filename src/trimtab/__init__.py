"""Trimtab keeps an all-flash parallel file system fast and predictable.

As a library::

    import trimtab

    with trimtab.open("scratch") as site:
        print(site.judge().judgement.series[0].verdict.status)

Names are loaded when they are used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from trimtab.base.code_version import __version__

if TYPE_CHECKING:
    from trimtab.answers.library import SiteRecord, chart, judge_csv, to_pandas
    from trimtab.answers.library import open_site as open

_HOMES: Final = {
    "SiteRecord": "SiteRecord",
    "chart": "chart",
    "judge_csv": "judge_csv",
    "open": "open_site",
    "to_pandas": "to_pandas",
}

__all__ = ["SiteRecord", "__version__", "chart", "judge_csv", "open", "to_pandas"]


def __getattr__(name: str) -> object:
    """Return a public name, loading the module that holds it."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("trimtab.answers.library"), _HOMES[name])
