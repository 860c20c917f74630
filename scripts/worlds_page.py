"""What the page on explaining is made of: every cause, and the scores on records of sites."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from scripts.page_blocks import remade
from tests.explain.contexts import plain_context

from trimtab.base.incident import NAMED, Found, Route
from trimtab.explain.causes import TABLE

ROOT = Path(__file__).resolve().parent.parent
RESULTS: Final = ROOT / "benchmarks" / "results" / "worlds.json"
PAGE: Final = ROOT / "docs" / "explaining.md"


def made_page(page: str) -> str:
    """Return the page with its causes and scores made anew."""
    made = {
        "named": NAMED_TEXT,
        "causes": causes_text(),
        "worlds": as_text(json.loads(RESULTS.read_text())),
    }
    return remade(page, made)


NAMED_TEXT: Final = f"""\
From {NAMED:.0%} on a cause is named; below, the incident is **unexplained**, and what is left is a
leading suspicion without a figure. How much is true of what is listed at which confidence stands
under the table of [accuracy](#accuracy).
"""


def causes_text() -> str:
    """Return every cause with what is looked for and what would decide, as Markdown.

    What is looked for is what it says that it cannot have of a record that holds nothing.
    """
    lines = ["| cause | looked for | what would decide |", "|---|---|---|"]
    for cause in TABLE:
        pieces = cause.evidence(plain_context())
        wanted = [piece.what for piece in pieces if piece.found is Found.NOT_AVAILABLE]
        wanted += ["the log book"] if any(piece.route is Route.LOG for piece in pieces) else []
        lines.append(
            f"| {cause.title} (`{cause.id}`) | {'; '.join(wanted)} | {cause.measurement} |"
        )
    return "\n".join(lines) + "\n"


def as_text(sections: dict[str, dict[str, Any]]) -> str:
    """Return the table of every section of the results, and how much is true of what is listed."""
    parts = []
    for name, section in sections.items():
        seeds = f"{section['each']} worlds of each variant, seeds from {section['first_seed']}"
        parts.append(f"**{name}** ({section['date']}, {seeds}, {section['machine']}):\n\n"
                     f"{table(section)}\n\n{_calibration(section)}\n")  # fmt: skip
    return "\n".join(parts)


def table(results: dict[str, Any]) -> str:
    """Return one row a family, as Markdown."""
    rows = {**results["families"], "**all**": results["all"]}
    titles = ["family", *(title for title, _ in _COLUMNS)]
    lines = ["| " + " | ".join(titles) + " |", "|---" * len(titles) + "|"]
    lines += [
        "| " + " | ".join([name, *(cell(row) for _, cell in _COLUMNS)]) + " |"
        for name, row in rows.items()
    ]
    return "\n".join(lines)


def _calibration(section: dict[str, Any]) -> str:
    cells = [f"{row['from']:.0%} to {row['to']:.0%}: {row['true']} of {row['n']}"
             for row in section["calibration"] if row["n"]]  # fmt: skip
    return "True of what is listed at " + "; ".join(cells) + "."


def _share(part: str, of: str) -> Callable[[dict[str, Any]], str]:
    def cell(row: dict[str, Any]) -> str:
        return f"{row[part]}/{row[of]} ({row[part] / row[of]:.0%})" if row[of] else ""

    return cell


def _pair(name: str) -> Callable[[dict[str, Any]], str]:
    return lambda row: "" if row[name] is None else "{:.3g}, {:.3g}".format(*row[name])


_COLUMNS: Final[tuple[tuple[str, Callable[[dict[str, Any]], str]], ...]] = (
    ("worlds", lambda row: str(row["worlds"])),
    ("found of noticed", _share("found", "noticed")),
    ("told once", _share("once", "found")),
    ("first cause of knowable", _share("first", "knowable")),
    ("simple rule", _share("simple", "knowable")),
    ("unexplained though knowable", _share("silent", "knowable")),
    ("of unknowable left open", _share("unknown_left", "unknown")),
    ("named wrongly", _share("named_wrongly", "named")),
    ("calibration error", lambda row: "" if row["calibration_error"] is None
     else f"{row['calibration_error']:.3f}"),
    ("delay h: median, 90 %", _pair("delay_h")),
    ("effect error: median, 90 %", _pair("effect_error")),
    ("false incidents a month", lambda row: f"{row['false'] / max(row['months'], 1e-9):.2f}"),
)  # fmt: skip
