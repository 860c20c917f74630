"""A snapshot that was stored, on the screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trimtab.cli import options
from trimtab.report.headline import targets_headline
from trimtab.report.sections import Document
from trimtab.report.text import local_moment
from trimtab.units import plural

if TYPE_CHECKING:
    from trimtab.model.standing import SiteStanding


_SHORT_ID: Final = 13


def snapshot_document(identifier: str, store: str, standing: SiteStanding) -> Document:
    """Return the page of a stored snapshot."""
    state = standing.state
    assert state is not None  # it was stored just now
    answered = sum(host.answered for host in state.snapshot.hosts)
    count = plural(len(state.snapshot.hosts), "machine")
    hosts = "" if answered == len(state.snapshot.hosts) else f"; {answered} of {count} answered"
    return Document(
        f"Snapshot kept. {targets_headline(standing).rstrip('.')}{hosts}.",
        more=(
            f"snapshot {identifier[:_SHORT_ID]}, {local_moment(state.snapshot.at)}",
            f"stored in {store}",
            f"trimtab targets {options.site_argument(state.site)} lists each target",
        ),
    )
