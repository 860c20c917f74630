"""`probe-files-left`: an earlier probe was killed and its files still take space."""

from __future__ import annotations

from collections.abc import Iterator

from trimtab.explain.observed import Observed
from trimtab.model.finding import Finding, Fix, Seen, Severity


def find(observed: Observed) -> Iterator[Finding]:
    """Yield a finding that names the directories which killed probes left."""
    left = observed.left_behind
    if not left:
        return
    yield Finding(
        id="probe-files-left",
        severity=Severity.INFO,
        title=f"{len(left)} director{'y' if len(left) == 1 else 'ies'} of a killed probe remain",
        target=observed.target,
        seen=Seen(len(left), "directories", "left by probes that no longer run"),
        source=left[0],
        why=(
            "A probe that is killed outright (SIGKILL, power loss) cannot remove its files; they "
            "take space until someone removes them."
        ),
        fix=Fix("Remove them; no probe uses them.", ("rm", "-r", "--", *left)),
        confidence=0.9,
    )
