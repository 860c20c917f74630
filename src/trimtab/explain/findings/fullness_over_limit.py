"""`fullness-over-limit`: less free space than flash and allocator need."""

from __future__ import annotations

from collections.abc import Iterator

from trimtab.explain.observed import Observed
from trimtab.model.finding import Finding, Fix, Seen, Severity
from trimtab.units import format_bytes, format_percent

CRITICAL_FULLNESS = 0.95
"""From here jobs fail with ENOSPC within hours on a busy system, whatever the medium."""

_WHY_FLASH = (
    "From about 75 % on, garbage collection inside the drives takes a growing share of write "
    "bandwidth (source S2), and the block allocator searches many groups before it finds room "
    "(sources S1, S2: useless loops from about 75 %). NERSC keeps its file system there."
)
_WHY_ALLOCATOR = (
    "The block allocator finds less and less contiguous space as a file system fills up; the "
    "sources saw its useless loops grow from about 75 % on (S1, S2)."
)


def find(observed: Observed) -> Iterator[Finding]:
    """Yield a finding when used / (used + available) is over the limit."""
    fullness = observed.now.fullness()
    # An image is always full: nobody will write to it.
    if fullness is None or fullness <= observed.limits.fullness or observed.read_only:
        return
    trims = observed.is_flash and observed.can_be_trimmed
    used = observed.now.number("used_bytes") or 0.0
    available = observed.now.number("available_bytes") or 0.0
    to_free = used - observed.limits.fullness * (used + available)
    yield Finding(
        id="fullness-over-limit",
        severity=_severity(observed, fullness),
        title=(
            f"{format_percent(fullness)} full, over the limit of "
            f"{format_percent(observed.limits.fullness, 0)}"
        ),
        target=observed.target,
        seen=Seen(fullness, "1", "used / (used + available)"),
        source=observed.now.source("used_bytes"),
        why=_WHY_FLASH if observed.is_flash else _WHY_ALLOCATOR,
        fix=Fix(
            f"Free {format_bytes(to_free)} to reach the limit: purge or move data."
            + (" Then trim, so that the drives know." if trims else ""),
            ("fstrim", "-v", observed.path.mount_point) if trims else (),
        ),
        confidence=0.9 if observed.is_flash else 0.6,
    )


def _severity(observed: Observed, fullness: float) -> Severity:
    if fullness >= CRITICAL_FULLNESS:
        return Severity.CRITICAL
    return Severity.WARNING if observed.is_flash else Severity.INFO
