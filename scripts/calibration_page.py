"""Make the tables of docs/calibration.md and of the report on other detectors.

What stands between ``<!-- calibration NAME -->`` and ``<!-- end -->`` is made from
benchmarks/results/calibration.json, judge_against_others.json and judge_on_tcpd.json. Without
arguments the pages are written; with ``--check`` they are only compared.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from scripts.page_blocks import names_of, remade, write_or_check  # noqa: E402
from tests.calibration import changes, intervals  # noqa: E402

PAGES = (ROOT / "docs" / "calibration.md", ROOT / "benchmarks/reports/other-detectors.md")
RESULTS = ROOT / "benchmarks" / "results"
ALL = "all noises"

Row = dict[str, Any]


def main(arguments: list[str]) -> int:
    """Write the pages, or return 1 if one is out of date."""
    blocks = {f"calibration {name}": made() for name, made in BLOCKS.items()}
    texts = {page: page.read_text() for page in PAGES}
    named = [name for text in texts.values() for name in names_of(text)]
    if sorted(named) != sorted(blocks):
        raise SystemExit("every block stands on one of the pages, once")
    made = {
        page: remade(text, {name: blocks[name] for name in names_of(text)})
        for page, text in texts.items()
    }
    return write_or_check(made, arguments)


def _section(name: str) -> Row:
    return json.loads((RESULTS / "calibration.json").read_text())[name]


def _rows(name: str) -> list[Row]:
    return _section(name)["rows"]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _measured(section: Row) -> str:
    return f"\nMeasured {section['at'][:10]} on {section['machine']}, Python {section['python']}.\n"


def _false_alarms() -> str:
    rows = [
        (
            row["kind"],
            "as it was" if row["phi"] is None else f"{row['phi']:g}",
            f"{row['series_years']:.0f}",
            _flag(row["confirmed_per_year"], 1, f"{row['confirmed_per_year']:.2f}"),
            f"{row['confirmed_per_year_most']:.2f}",
            _flag(row["suspects_per_year"], 12, f"{row['suspects_per_year']:.1f}"),
        )
        for row in _rows("false_alarms")
    ]
    head = ("noise", "phi", "series-years", "confirmed a year", "at most", "suspects a year")
    return _table(head, rows) + _measured(_section("false_alarms"))


def _flag(value: float, allowed: float, text: str) -> str:
    return text if value <= allowed else f"**{text}**"


def _power() -> str:
    rows = [
        (
            row["kind"],
            f"{row['phi']:g}",
            _step(row),
            f"{row['history_h'] // 168} weeks" if row["history_h"] > 168 else "1 week",
            _share(row, "suspect_36h"),
            _share(row, "confirmed_96h"),
            _share(row, "both"),
            _share(row, "confirmed_14d"),
            _hours(row["suspect_h_median"]),
            _hours(row["confirmed_h_median"]),
            _hours(row["off_h_median"]),
        )
        for row in _rows("power")
    ]
    head = (
        "noise",
        "phi",
        "step",
        "history",
        "suspected in 36 h",
        "confirmed in 96 h",
        "both",
        "confirmed in 14 d",
        "median to suspect",
        "to confirm",
        "off by (median)",
    )
    return _table(head, rows) + _measured(_section("power"))


def _step(row: Row) -> str:
    return f"{100 * row['step']:+.0f} %"


def _share(row: Row, key: str) -> str:
    return f"{100 * row[key] / row['series']:.0f} %"


def _hours(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f} h"


def _habit_alarms() -> str:
    rows = _rows("habit_alarms")
    calm = [row for row in rows if row["spiked"] == "nothing"]
    phis = sorted({row["phi"] for row in calm})
    spiked = list(dict.fromkeys(row["spiked"] for row in rows if row["spiked"] != "nothing"))
    (together,) = (group for group in changes.HABIT_PHIS if len(group) > 1)
    table = []
    for habit in dict.fromkeys(row["habit"] for row in rows):
        spikes = [row for row in rows if row["habit"] == habit and row["spiked"] in spiked]
        table.append(
            (
                habit,
                *(_beside_hourly(rows, habit, (phi,)) for phi in phis),
                *(f"{row['confirmed'] / row['series_years']:.2f}" for row in spikes),
                _beside_hourly(rows, habit, together),
            )
        )
    head = (
        "sampled",
        *(f"phi {phi:g}" for phi in phis),
        *(f"spikes of {kind}" for kind in spiked),
        f"phi {together[0]:g} to {together[-1]:g} together",
    )
    years = min(row["series_years"] for row in rows)
    measured = _measured(_section("habit_alarms")).strip()
    return _table(head, table) + f"\n{years} series-years in each cell. {measured}\n"


def _beside_hourly(rows: Sequence[Row], habit: str, phis: tuple[float, ...]) -> str:
    """Return false confirmed changes a year; in bold where they break the claim beyond chance."""
    count, years = pooled_alarms(rows, habit, phis)
    base = pooled_alarms(rows, "hourly", phis)
    exceeds = phis in changes.HABIT_PHIS and changes.speaks_against_ratio(count, years, *base)
    return f"**{count / years:.2f}**" if exceeds else f"{count / years:.2f}"


def pooled_alarms(rows: Sequence[Row], habit: str, phis: Sequence[float]) -> tuple[int, float]:
    """Return false confirmed changes of a habit, and in how many years, at these correlations."""
    of_habit = [
        row
        for row in rows
        if (row["habit"], row["spiked"]) == (habit, "nothing") and row["phi"] in phis
    ]
    return sum(row["confirmed"] for row in of_habit), sum(row["series_years"] for row in of_habit)


def _habit_steps() -> str:
    rows = [
        (
            row["habit"],
            _step(row),
            _share(row, "confirmed"),
            _share(row, "placed"),
            _share(row, "in_time"),
            _delay_of_habit(row),
            f"{row['others'] / row['series']:.2f}",
        )
        for row in _rows("habit_steps")
    ]
    head = (
        "sampled",
        "step",
        "confirmed",
        "date right",
        "in time",
        "median to confirm",
        "other changes a series",
    )
    return _table(head, rows) + _measured(_section("habit_steps"))


def _delay_of_habit(row: Row) -> str:
    if row["delay_h_median"] is None:
        return "never"
    return f"{row['delay_occasions_median']:.0f} occasions, {row['delay_h_median'] / 24:.0f} d"


def _coverage(name: str) -> str:
    rows = _rows(name)
    phis = sorted({row["phi"] for row in rows})
    made = []
    for kind in dict.fromkeys(row["kind"] for row in rows):
        for n in sorted({row["n"] for row in rows if row["kind"] == kind}):
            held = {row["phi"]: row["held"] for row in rows if (row["kind"], row["n"]) == (kind, n)}
            cells = [held[phi] for phi in phis]
            made.append((kind, str(n), *(_short(share) for share in cells)))
    head = ("noise", "runs", *(f"phi {phi:g}" for phi in phis))
    return _table(head, made) + _measured(_section(name))


def _short(share: float) -> str:
    text = f"{100 * share:.1f} %"
    return text if share >= 0.93 else f"**{text}**"


def _cov_power() -> str:
    rows = _rows("cov_power")
    covs = sorted({row["cov"] for row in rows})
    table = []
    for phi in sorted({row["phi"] for row in rows}):
        of_phi = {row["cov"]: row for row in rows if row["phi"] == phi}
        days = sum(row["window_days"] for row in of_phi.values()) / len(of_phi)
        for window, suffix in (("48 h", "_alone"), (f"{days:.1f} d", "")):
            cells = [_sided(of_phi[cov], suffix) for cov in covs]
            table.append((f"{phi:g}", window, *cells))
    head = ("phi", "window", *(f"true {100 * cov:g} %" for cov in covs))
    (count,) = {row["series"] for row in rows}
    measured = _measured(_section("cov_power")).strip()
    return _table(head, table) + f"\n{count} series in each cell. {measured}\n"


def _sided(row: Row, suffix: str) -> str:
    """Return the share on the true side of the goal; at the goal of both, which are errors."""
    met, missed = (row[name + suffix] / row["series"] for name in ("met", "missed"))
    if row["cov"] == intervals.GOAL:
        return f"{100 * met:.1f} % met, {100 * missed:.1f} % missed"
    return f"{100 * (met if row['cov'] < intervals.GOAL else missed):.0f} %"


def _against(tier: str, tuned: str, *, of_all: bool) -> Callable[[], str]:
    """Return what makes one table: every noise by itself, or all together."""

    def made() -> str:
        rows = [row for row in _others() if (row["noise"] == ALL) == of_all]
        ours = {
            (row["noise"], row["step"]): row
            for row in rows
            if row["detector"] == "trimtab" and row["tier"] == (tier or "confirmed")
        }
        cells = [_against_row(row, row) for row in ours.values()] + [
            _against_row(row, ours[row["noise"], row["step"]])
            for row in rows
            if (row["tier"] or "", row["tuned"]) == (tier, tuned)
        ]
        head = ("noise", "step", "detector", "threshold", "false alarms a year", "on this noise")
        tail = ("told in 14 d", "median delay", "against Trimtab")
        table = [(*head, *tail), *sorted(cells, key=lambda one: (one[0], one[1]))]
        if of_all:  # no noise to tell apart
            table = [(*row[1:5], *row[6:]) for row in table]
        return _table(table[0], table[1:])

    return made


def _against_row(row: Row, ours: Row) -> tuple[str, ...]:
    first = (row["noise"], _step(row))
    name = f"**{row['label']}**" if row is ours else row["label"]
    if "series" not in row:
        return (*first, name, "-", "-", "-", "-", "-", row["reason"])
    threshold = "" if row["threshold"] is None else f"{row['threshold']:g}"
    return (
        *first,
        name,
        threshold,
        f"{row['false_per_year']:.2f}",
        f"{row['false_per_year_here']:.2f}",
        f"{row['detected']} of {row['series']}",
        _delay(row),
        "" if row is ours or "p_value" not in row else _compared(row, ours),
    )


def _compared(row: Row, ours: Row) -> str:
    """Return where another detector did better or worse; in bold where it did better."""
    more, sooner_h = _more(row, ours), _sooner_h(row, ours)
    said = [("detects fewer", "detects alike", "**detects more**")[more + 1]]
    if more:
        said[0] += f" (p = {row['p_value']:g})" if row["p_value"] >= 1e-4 else " (p < 0.0001)"
    if sooner_h > 0:
        said.append("**sooner**" if math.isinf(sooner_h) else f"**sooner by {sooner_h:.0f} h**")
    elif sooner_h < 0:
        said.append("later")
    return ", ".join(said)


def _more(row: Row, ours: Row) -> int:
    """Return 1 where another detects more beyond chance, -1 where fewer, else 0."""
    if row["p_value"] >= 0.05:
        return 0
    return 1 if row["detected"] > ours["detected"] else -1


def _sooner_h(row: Row, ours: Row) -> float:
    """Return by how many hours another tells sooner in the median; under 0: later."""
    theirs, own = (one["delay_h_median"] or math.inf for one in (row, ours))
    return 0.0 if theirs == own else own - theirs


def _against_summary() -> str:
    """Return how often the others did better, alike or worse: all noises together, and each."""
    lines = []
    for tier in ("confirmed", "suspect"):
        for tuned, of_all, where in (
            ("all", True, "all noises together"),
            ("all", False, "each noise by itself"),
            ("this", False, "each noise by itself, the others tuned to it"),
        ):
            rows = [row for row in _others() if (row["noise"] == ALL) == of_all]
            ours = {
                (row["noise"], row["step"]): row
                for row in rows
                if row["detector"] == "trimtab" and row["tier"] == tier
            }
            held = [
                (row, ours[row["noise"], row["step"]])
                for row in rows
                if (row["tier"], row["tuned"]) == (tier, tuned) and "series" in row
            ]
            more = [_more(*pair) for pair in held]
            sooner = sum(_sooner_h(*pair) > 0 for pair in held)
            cells = (more.count(-1), more.count(0), more.count(1), sooner)
            lines.append((tier, where, str(len(held)), *map(str, cells)))
    return _table(
        ("against", "on", "comparisons", "other detects fewer", "alike", "more", "other sooner"),
        lines,
    )


def _others() -> list[Row]:
    return json.loads((RESULTS / "judge_against_others.json").read_text())["rows"]


def _delay(row: Row) -> str:
    delay = row["delay_h_median"]
    return "more than 14 d" if delay is None else f"{delay:.0f} h"


def _against_where() -> str:
    result = json.loads((RESULTS / "judge_against_others.json").read_text())
    return (
        f"{result['series_years_of_each_noise']} series-years of each noise, "
        f"{result['series_of_each_step']} series of each step. Measured {result['at'][:10]} on "
        f"{result['machine']}, Python {result['python']}.\n"
    )


def _tcpd() -> str:
    result = json.loads((RESULTS / "judge_on_tcpd.json").read_text())
    rows = result["rows"]
    head = (
        "detector",
        *(
            f"{name}, {rows[0][f'series_{key}']} series{where}"
            for key, where in (("all", ""), ("positive", " above 0"))
            for name in ("F1", "covering")
        ),
        "changes",
    )
    keys = ("f1_all", "covering_all", "f1_positive", "covering_positive")
    table = [
        (row["detector"], *(f"{row[key]:.3f}" for key in keys), str(row["changes"])) for row in rows
    ]
    named = "; ".join(
        f"{words}: {', '.join(result[key])}"
        for key, words in (
            ("not_positive", "with values at or below 0"),
            ("multivariate", "left out, of several dimensions"),
            ("absent", "absent, to be downloaded"),
        )
    )
    return _table(head, table) + f"\nSeries {named}.\n{_measured(result)}"


def _space_growth() -> str:
    rows = [
        (
            row["series"],
            f"{row['ahead_days']} d",
            str(row["forecasts"]),
            _held(row["forecasts"], row["above"] + row["below"]),
            str(row["above"]),
            str(row["below"]),
            f"{100 * row['half_width']:.1f} points",
        )
        for row in _rows("space")
        if "ahead_days" in row
    ]
    head = ("fullness", "ahead", "forecasts", "held", "above", "below", "half width, median")
    return _table(head, rows)


def _space_days() -> str:
    rows = [
        (
            row["series"],
            f"{100 * row['more']:.0f} points more",
            str(row["forecasts"]),
            _held(row["forecasts"], row["before"] + row["after"]),
            str(row["before"]),
            str(row["after"]),
        )
        for row in _rows("space")
        if "more" in row
    ]
    head = ("fullness", "day of", "forecasts", "held", "before the earliest", "after the latest")
    return _table(head, rows)


def _held(count: int, missed: int) -> str:
    return f"{100 * (1 - missed / count):.0f} %"


def _space_warnings() -> str:
    rows = [
        (
            row["series"],
            f"{100 * row['limit']:.0f} %",
            f"{row['warned']} of {row['passed']}",
            f"{row['true']} of {row['days']}",
        )
        for row in _rows("space")
        if "warned" in row
    ]
    head = ("fullness", "limit", "passages with a warning", "days with a warning that came true")
    return _table(head, rows) + _measured(_section("space"))


BLOCKS: dict[str, Callable[[], str]] = {
    "false-alarms": _false_alarms,
    "power": _power,
    "habit-alarms": _habit_alarms,
    "habit-steps": _habit_steps,
    "cov": lambda: _coverage("cov_intervals"),
    "cov-power": _cov_power,
    "ratio": lambda: _coverage("ratio_intervals"),
    "space-growth": _space_growth,
    "space-days": _space_days,
    "space-warnings": _space_warnings,
    "against-defaults": _against("", "default", of_all=True),
    "against-confirmed": _against("confirmed", "all", of_all=True),
    "against-suspect": _against("suspect", "all", of_all=True),
    "against-confirmed-each": _against("confirmed", "all", of_all=False),
    "against-suspect-each": _against("suspect", "all", of_all=False),
    "against-confirmed-this": _against("confirmed", "this", of_all=False),
    "against-suspect-this": _against("suspect", "this", of_all=False),
    "against-summary": _against_summary,
    "against-where": _against_where,
    "tcpd": _tcpd,
}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
