"""What the watch asks of that which runs its probes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from trimtab.loop.probing.probe import ProbeOutcome, Progress
from trimtab.model.site import SiteProbe


@dataclass(frozen=True, slots=True)
class RunContext:
    """One run that is to be made.

    Attributes
    ----------
    run_id
        The id that the run is to have; a run of the same slot that was broken off had it too.
    at
        When it starts.
    progress
        To be called now and then, with what is being done and the fraction that is done.
    """

    run_id: str
    at: datetime
    progress: Progress


class ProbeRunner(Protocol):
    """Runs the probes of a site: for real, or in a test."""

    def __call__(self, probe: SiteProbe, context: RunContext) -> ProbeOutcome:
        """Return what came of a probe; what it left behind when it was broken off is gone.

        Raises
        ------
        TrimtabError
            It could not be started.
        """
        ...

    def clean_up(self, probe: SiteProbe, run_id: str) -> None:
        """Remove what a run left behind that was broken off; nothing is fine too."""
        ...
