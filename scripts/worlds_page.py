"""The scores on records of sites (`scripts.score_worlds`) as a table of a page."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

RESULTS: Final = Path(__file__).resolve().parent.parent / "benchmarks" / "results" / "worlds.json"
BINS: Final = (0.2, 0.5, 0.65, 0.8, 0.9, 1.01)


def as_text(kept: dict[str, dict[str, Any]]) -> str:
    """Return the sections of the results on the present version side by side, as Markdown."""
    names = [name for name in kept if name.startswith("now")]
    lines = [f"| | {' | '.join(names)} |", f"|---|{'---|' * len(names)}"]
    for title, figure in _ROWS:
        lines.append(f"| {title} | {' | '.join(figure(kept[name]) for name in names)} |")
    for index, (low, high) in enumerate(pairwise(BINS)):
        cells = [kept[name]["calibration"][index] for name in names]
        shown = " | ".join(f"{cell['true']} of {cell['n']}" for cell in cells)
        lines.append(f"| true of what is listed at {low:.0%} to {min(high, 1):.0%} | {shown} |")
    last = kept[names[-1]]
    ranges = {name: kept[name]["seeds"] for name in names}
    seeds = "; ".join(f"{name}: {first} to {end - 1}" for name, (first, end) in ranges.items())
    return "\n".join(lines) + f"\n\nSeeds of {seeds}. {last['machine']}, {last['date']}.\n"


def _share(part: int, of: int) -> str:
    return f"{part} of {of}" + (f" ({part / of:.0%})" if of else "")


def _middle(figure: dict[str, float] | None, unit: str) -> str:
    return "none" if figure is None else f"{figure['median']:g}{unit}, {figure['p90']:g}{unit}"


_ROWS: Final[tuple[tuple[str, Callable[[dict[str, Any]], str]], ...]] = (
    ("sites, days", lambda r: f"{r['worlds']}, {r['days']:,}"),
    ("faults found of those that an instrument notices",
     lambda r: _share(r["found"], r["noticed"])),
    ("first cause right, of found ones that the record tells of",
     lambda r: _share(r["first"], r["told"])),
    ("without a cause, and none named", lambda r: _share(r["unknown_unexplained"], r["unknown"])),
    ("delay, median and 90 %", lambda r: _middle(r["delay_h"], " h")),
    ("error of the effect (log), median and 90 %", lambda r: _middle(r["effect_error"], "")),
    ("intervals of effects that hold the true one", lambda r: _share(*r["effect_covered"])),
    ("incidents without a fault, a quiet month",
     lambda r: f"{r['quiet']['a_month']:.2f} ({r['quiet']['incidents']} in "
               f"{r['quiet']['months']:.0f} months)"),
    ("of them with a cause named", lambda r: str(r["quiet"]["named"])),
)  # fmt: skip
