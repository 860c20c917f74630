"""The score of a sample of mutants, whichever tool judged them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any


def score_of(verdicts: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Return the counts of each file, and the share that was noticed.

    Parameters
    ----------
    verdicts
        File and verdict of each mutant. Only ``killed`` and ``survived`` count for the share:
        tests that do not end, and mutants that do not compile, say nothing.
    """
    counts: dict[str, Counter[str]] = {}
    for file, verdict in verdicts:
        counts.setdefault(file, Counter())[verdict] += 1
    total = sum(counts.values(), Counter[str]())
    decided = total["killed"] + total["survived"]
    return {
        "sample": total.total(),
        "killed_share": round(total["killed"] / decided, 3) if decided else None,
        "total": dict(total),
        "files": {name: dict(count) for name, count in sorted(counts.items())},
    }
