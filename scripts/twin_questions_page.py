"""Make the tables of benchmarks/reports/twin-questions.md from results/twin_questions.json.

Without arguments the page is written; with ``--check`` it is only compared.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.twin_questions import layouts, positions  # noqa: E402
from benchmarks.twin_questions.positions import Case, Kind  # noqa: E402
from scripts.page_blocks import remade, text_of, write_or_check  # noqa: E402

PAGE = ROOT / "benchmarks" / "reports" / "twin-questions.md"
RESULT = ROOT / "benchmarks" / "results" / "twin_questions.json"
Result = dict[str, Any]
KEPT = (
    *((trim, False) for trim in ("never", "weekly", "nightly", "discard")),
    *((trim, True) for trim in ("never", "nightly")),
)
FLOOR_BYTES_PER_S = 15e9
THRESHOLDS = ((layouts.DEFAULT, "25/15/5"), (layouts.NERSC, "25/25/5"), (layouts.LOW, "10/10/5"))


def main(arguments: list[str]) -> int:
    """Write the page, or return 1 if it is not what it would be."""
    result = json.loads(RESULT.read_text())
    blocks = {name: text_of(table(result)) for name, table in TABLES.items()}
    return write_or_check({PAGE: remade(PAGE.read_text(), blocks)}, arguments)


def machine(result: Result) -> Iterator[str]:
    """Yield what the figures are of."""
    small, whole = result["layouts"], result["lives"]
    kernel = small["machine"]
    yield (
        f"Measured on {small['date']} with {small['seeds']} seeds each "
        f"({kernel['processors']} processors, {kernel['architecture']}; {small['processor_s']} s "
        f"and {whole['processor_s']} s of one); versions {small['version']} and {whole['version']}."
    )


def routes(result: Result) -> Iterator[str]:
    """Yield what an OST writes by fullness, by each route alone and by both."""
    kind = _first(result)
    both = kind.find(thresholds=list(layouts.DEFAULT))
    untrimmed, nightly = _trimmed(kind, "never"), _trimmed(kind, "nightly")
    yield (
        "| full | WA, never trimmed | WA, nightly | drives, never | drives, nightly | "
        "useless loops a 1,000, 25/15/5 | never, with the searches |"
    )
    yield "|---|---|---|---|---|---|---|"
    drives, of_nights = (positions.writes(one, searching=False) for one in (untrimmed, nightly))
    with_searches = positions.writes(both, searching=True)
    for place, case in enumerate(both):
        yield _row(
            _percent(case["fullness"]),
            _mean(untrimmed[place], "write_amplification"),
            _mean(nightly[place], "write_amplification"),
            _rate(drives[place]),
            _rate(of_nights[place]),
            _mean(case, "useless_per_1000", ".0f"),
            _rate(with_searches[place]),
        )


def limits(result: Result) -> Iterator[str]:
    """Yield the fullness from which an OST writes under nine tenths of what it does at 60 %."""
    yield from _by_kind(result, _limit)


def floors(result: Result) -> Iterator[str]:
    """Yield the fullness up to which an OST writes 15 GB/s."""
    yield from _by_kind(result, _floor)


def _by_kind(result: Result, told: Callable[[list[Case]], str]) -> Iterator[str]:
    titles = [
        kind.title
        for kind in positions.kinds(result, spare=0.127, family="classic")
        if kind.scale["groups"] < 256
    ]
    yield _row("drive", "trim", "purge", *titles)
    yield "|---|---|---|" + "---|" * len(titles)
    for spare, name in ((0.127, "1 DWPD"), (0.272, "3 DWPD")):
        of_drive = {
            kind.title: kind for kind in positions.kinds(result, spare=spare, family="classic")
        }
        for trim, purge in KEPT:
            said = {"thresholds": list(layouts.NERSC), "trim": trim, "purge": purge}
            found = [of_drive[title].find(**said) for title in titles]
            if any(found):
                cells = (told(cases) if cases else "-" for cases in found)
                yield _row(name, trim, "daily" if purge else "-", *cells)


def equal_bytes(result: Result) -> Iterator[str]:
    """Yield write amplification where the same bytes lie on either drive."""
    yield "| trim | 1 DWPD, 75 % | 3 DWPD, 90 % | 1 DWPD, 75 %, mixed | 3 DWPD, 90 %, mixed |"
    yield "|---|---|---|---|---|"
    for trim in ("never", "weekly", "nightly", "discard"):
        cells = []
        for separate in (True, False):
            for spare, full in ((0.127, 0.75), (0.272, 0.90)):
                (kind,) = positions.kinds(
                    result, spare=spare, separate=separate, groups=64, family="classic"
                )
                cells.append(_mean(_at(_trimmed(kind, trim), full), "write_amplification"))
        yield _row(trim, *cells)


def substitutes(result: Result) -> Iterator[str]:
    """Yield write amplification with trims and resets, alone and together."""
    yield "| miniature | full | reset | never trimmed | trimmed once | nightly |"
    yield "|---|---|---|---|---|---|"
    for kind in positions.kinds(result, spare=0.127, family="classic"):
        for full in (0.60, 0.75, 0.85):
            for resets, name in (
                (0.0, "never"),
                (layouts.SELDOM, "4 h"),
                (layouts.OFTEN, "15 min"),
            ):
                cells = [
                    _mean(case, "write_amplification")
                    for trim in ("never", "once", "nightly")
                    for case in kind.find(
                        fullness=full, thresholds=list(layouts.NERSC), resets=resets, trim=trim
                    )
                ]
                if cells:
                    yield _row(kind.title, _percent(full), name, *cells)


def fresh(result: Result) -> Iterator[str]:
    """Yield what resets do from the first file on."""
    yield "| miniature | full | no reset | 4 h | 15 min |"
    yield "|---|---|---|---|---|"
    for one in result["layouts"]["fresh"]:
        kind = Kind(one["scale"], one["cases"])
        for full in (0.60, 0.75):
            cells = [
                _mean(case, "write_amplification")
                for resets in (0.0, layouts.SELDOM, layouts.OFTEN)
                for case in kind.find(fullness=full, resets=resets)
            ]
            yield _row(kind.title, _percent(full), *cells)


def probing(result: Result) -> Iterator[str]:
    """Yield what hourly probes change of it."""
    yield "| full | reset | never trimmed | with the probe | nightly | with the probe |"
    yield "|---|---|---|---|---|---|"
    kind = _first(result)
    for full in (0.60, 0.75, 0.85):
        for resets, name in ((0.0, "never"), (layouts.OFTEN, "15 min")):
            cells = [
                _mean(case, "write_amplification")
                for trim in ("never", "nightly")
                for probe in (False, True)
                for case in kind.find(
                    fullness=full, thresholds=list(layouts.NERSC), resets=resets, trim=trim,
                    probe=probe,
                )
            ]  # fmt: skip
            yield _row(_percent(full), name, *cells)


def thresholds(result: Result) -> Iterator[str]:
    """Yield searches and layout by thresholds, with and without resets."""
    yield (
        "| full | thresholds | useless a 1,000 | groups a request | extents a request | "
        "free extent | useless, reset | groups, reset | extents, reset | free extent, reset |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for full in (0.75, 0.80, 0.85, 0.90, 0.92):
        for values, name in THRESHOLDS:
            cells = [
                text
                for resets in (0.0, layouts.OFTEN)
                for case in _first(result).find(
                    fullness=full, thresholds=list(values), resets=resets
                )
                for text in (
                    _mean(case, "useless_per_1000", ".0f"),
                    _mean(case, "groups_per_request", ".1f"),
                    _mean(case, "extents_per_request"),
                    f"{case['free_extent_units'][0] * 64:.0f} KiB",
                )
            ]
            yield _row(_percent(full), name, *cells)


def ages(result: Result) -> Iterator[str]:
    """Yield useless loops in each capacity that is written after the filling."""
    yield "| groups | full | " + " | ".join(f"{one + 1}." for one in range(layouts.AGES)) + " |"
    yield "|---|---|" + "---|" * layouts.AGES
    for kind in result["layouts"]["ages"]:
        for case in kind["cases"]:
            cells = [f"{mean:.0f}" for mean, *_ in case["useless_per_1000"]]
            yield _row(str(kind["scale"]["groups"]), _percent(case["fullness"]), *cells)


def families(result: Result) -> Iterator[str]:
    """Yield groups looked at by the allocators of other kernels."""
    names = ("classic", "optimize-scan", "el9", "ordered")
    yield "| full | " + " | ".join(f"`{name}`" for name in names) + " |"
    yield "|---|" + "---|" * len(names)
    found = [
        next(positions.kinds(result, family=name, groups=16, separate=True, spare=0.127)).find(
            thresholds=list(layouts.DEFAULT)
        )
        for name in names
    ]
    for cases in zip(*found, strict=True):
        if cases[0]["fullness"] >= 0.70:
            groups = [_mean(case, "groups_per_request", ".1f") for case in cases]
            loops = [_mean(case, "useless_per_1000", ".0f") for case in cases]
            both = [f"{one}, {other}" for one, other in zip(groups, loops, strict=True)]
            yield _row(_percent(cases[0]["fullness"]), *both)


def variability(result: Result) -> Iterator[str]:
    """Yield the hourly probe of whole file systems."""
    yield (
        "| full | trim | thresholds | gating | COV over 48 h | windows over 8 % | IOR write | "
        "OST write | least | WA | closed |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|---|"
    for one in result["lives"]["combinations"]:
        said = one["settings"]
        yield _row(
            said["fullness"].replace("%", " %"),
            said["trim"],
            said["thresholds"],
            said.get("gating", "off").replace("%", " %"),
            _interval(one["ior_cov"], 100, ".0f", " %"),
            _interval(one["ior_cov_missed"], 100, ".0f", " %"),
            _interval(one["ior_write"], 1e-9, ".0f", " GB/s"),
            _interval(one["ost_write"], 1e-9, ".1f", " GB/s"),
            _interval(one["ost_write_least"], 1e-9, ".1f", ""),
            f"{one['write_amplification'][0]:.2f}",
            f"{100 * one['closed'][0]:.0f} %",
        )


TABLES: dict[str, Callable[[Result], Iterator[str]]] = {
    "machine": machine,
    "routes": routes,
    "ages": ages,
    "families": families,
    "substitutes": substitutes,
    "fresh": fresh,
    "probing": probing,
    "thresholds": thresholds,
    "limits": limits,
    "floors": floors,
    "equal-bytes": equal_bytes,
    "variability": variability,
}


def _first(result: Result) -> Kind:
    """Return the larger of the two miniatures in which everything was measured."""
    return next(positions.kinds(result, groups=64, separate=True, spare=0.127, family="classic"))


def _trimmed(kind: Kind, trim: str) -> list[Case]:
    return kind.find(thresholds=list(layouts.NERSC), trim=trim)


def _at(cases: list[Case], full: float) -> Case:
    return next(case for case in cases if case["fullness"] == full)


def _floor(cases: list[Case]) -> str:
    found = positions.crossing(cases, FLOOR_BYTES_PER_S)
    if found is None:
        return f"over {_percent(cases[-1]['fullness'])}"
    return f"under {_percent(found)}" if found == cases[0]["fullness"] else _percent(found)


def _limit(cases: list[Case]) -> str:
    found = positions.limit(cases, searching=False)
    return f"over {_percent(cases[-1]['fullness'])}" if found is None else _percent(found)


def _mean(case: Case, name: str, form: str = ".2f") -> str:
    mean, low, high = case[name]
    spread = (high - low) / 2
    return f"{mean:{form}}" + (
        f" ± {spread:{form}}" if spread and f"{spread:{form}}".strip("0.") else ""
    )


def _interval(values: list[float | None], factor: float, form: str, unit: str) -> str:
    mean, low, high = values
    if mean is None:
        return "-"
    text = f"{mean * factor:{form}}"
    if low is not None and high is not None:
        text += f" ({low * factor:{form}} to {high * factor:{form}})"
    return text + unit


def _percent(value: float) -> str:
    return f"{100 * value:.0f} %"


def _rate(value: float) -> str:
    return f"{value / 1e9:.1f} GB/s"


def _row(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
