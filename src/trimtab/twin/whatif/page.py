"""The page of ``trimtab whatif``: the best policy, a table of all, and its cost."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from trimtab.base import text
from trimtab.base.units import format_duration, format_value, plural
from trimtab.show.chart import (
    ACCENT,
    INK,
    MUTED,
    SECOND,
    Chart,
    Key,
    Scale,
    data,
    layered,
    size_scale,
    value_scale,
)
from trimtab.show.document import Cell, Document, Row, Section, Table, row, table
from trimtab.twin.whatif.whatif_figure import KINDS, FigureKind
from trimtab.twin.whatif.whatif_sweep import (
    NEVER_RECOMMENDED,
    SEEDS_LEAST,
    Best,
    SummedFigure,
    Swept,
    best_of,
    run_table,
    varying,
)

if TYPE_CHECKING:
    import altair

    from trimtab.base.verdict import Interval

_COLUMNS_MOST: Final = 5
_COSTS: Final = (
    "fullness",
    "flash_drive_writes_per_day",
    "write_amplification",
    "purged",
    "ior_cov",
)
"""Possible costs of higher speed: the first that differs is drawn with it."""
_FULL_MOST: Final = 12


def runs_parquet(swept: Swept) -> bytes:
    """Return the table of all runs of a sweep as a Parquet file (`run_table`)."""
    file = io.BytesIO()
    run_table(swept).write_parquet(file)
    return file.getvalue()


def whatif_document(scenario: str, swept: Swept, assumptions: Sequence[str] = ()) -> Document:
    """Return the page of a sweep over a scenario: the best policy first.

    Parameters
    ----------
    assumptions
        Assumptions of the scenario, one sentence each.
    """
    best = best_of(swept)
    first, *rest = whatif_answers(swept)
    hidden = max(0, len(swept.rows) - _FULL_MOST)
    more = f"{hidden} more policies: --json has all figures."
    return Document(
        kind="whatif",
        heading=scenario,
        subtitle=f"{format_duration(swept.until_s)} simulated, "
        f"{plural(len(swept.rows), 'combination')}, {plural(swept.seeds, 'seed')} each",
        tone="info" if best is not None else "unclear",
        answer=first,
        details=(*rest, "All of it is simulation: confirm it on one real target first."),
        sections=(
            Section(
                "Policies",
                charts=(partial(trade_off_chart, swept, best),),
                tables=(policies_table(swept, best),),
            ),
            Section(
                "All figures",
                lines=(more,) if hidden else (),
                folds=tuple(
                    (entry.combination.title, _figures_table(entry.figures, first=number == 0))
                    for number, entry in enumerate(swept.rows[:_FULL_MOST])
                ),
            ),
            Section("Assumed", notes=(*swept.assumptions, *assumptions)),
        ),
    )


def whatif_answers(swept: Swept) -> list[str]:
    """Return the best policy, and the settings without effect, one sentence each."""
    best = best_of(swept)
    if best is None:
        lines = [f"No policy of {plural(len(swept.rows), 'combination')} can be called the best."]
    else:
        chosen = swept.rows[best.row]
        figure = chosen.figure(best.goal.name)
        words = f"{best.goal.title} is highest with {chosen.combination.title}"
        words += f": {value_text(figure.median or 0.0, best.goal.unit)}"
        if best.row and figure.difference is not None:
            words += f", {_difference_text(figure, best.goal.unit)} compared with the first"
        if best.tied:
            words += f"; statistically tied with {plural(len(best.tied), 'other')}"
        if not best.tested:
            words += f"; not tested: {plural(swept.seeds, 'seed')}, {SEEDS_LEAST} are needed"
        lines = [f"{words}."]
    names = {name for entry in swept.rows for name, _ in entry.combination.settings}
    if secure := sorted(names & NEVER_RECOMMENDED):
        lines.append(f"{', '.join(secure)}: only the cost is shown; never recommended off.")
    return [
        *lines,
        *(f"{name} has no effect in any run: {why}." for name, why in swept.without_effect.items()),
    ]


def policies_table(swept: Swept, best: Best | None) -> Table | None:
    """Return a row per combination with the figures that differ, the best marked."""
    kinds = policy_kinds(swept, best)
    return table(
        ("policy", "", *(f"{kind.title}>" for kind in kinds)),
        (
            row(
                f"{number + 1}. {entry.combination.title}",
                _standing(number, best),
                *(_figure_cell(entry.figure(kind.name), kind.unit) for kind in kinds),
                marked=best is not None and number == best.row,
            )
            for number, entry in ((place, swept.rows[place]) for place in ranked(swept, best))
        ),
        "Medians over seeds, with their intervals below. Figures that differ between the policies.",
    )


def policy_kinds(swept: Swept, best: Best | None) -> list[FigureKind]:
    """Return the figures of a table of policies: the goal, then those that differ."""
    kinds = list(varying(swept))
    if best is not None:
        kinds = [best.goal, *(kind for kind in kinds if kind != best.goal)]
    return kinds[:_COLUMNS_MOST] or [kind for kind in KINDS if _is_known(swept, kind)][:1]


def ranked(swept: Swept, best: Best | None) -> list[int]:
    """Return the indices of all policies, best first, by the figure that decides."""
    places = list(range(len(swept.rows)))
    if best is None:
        return places
    figures = [swept.rows[place].figure(best.goal.name).median for place in places]
    # No figure ranks below any; for every goal more is better.
    return sorted(
        places,
        key=lambda place: (place != best.row, figures[place] is None, -(figures[place] or 0.0)),
    )


def _is_known(swept: Swept, kind: FigureKind) -> bool:
    return any(entry.figure(kind.name).median is not None for entry in swept.rows)


def _standing(number: int, best: Best | None) -> Cell:
    if best is None:
        return Cell("")
    if number == best.row:
        return Cell("best", tone="healthy")
    return Cell("tied", tone="info") if number in best.tied else Cell("")


def _figure_cell(figure: SummedFigure, unit: str) -> Cell:
    if figure.median is None:
        return Cell("-")
    interval = figure.interval
    if interval is None or interval.high == interval.low:
        return Cell(value_text(figure.median, unit))
    return Cell(value_text(figure.median, unit), _range(interval, unit))


def _range(interval: Interval, unit: str) -> str:
    if unit == "B/B":
        return f"{value_text(interval.low, unit)} to {value_text(interval.high, unit)}"
    return text.range_text(interval, unit)


def _figures_table(figures: Sequence[SummedFigure], *, first: bool) -> Table | None:
    by_name: Mapping[str, SummedFigure] = {figure.name: figure for figure in figures}
    rows: list[Row] = []
    for kind in KINDS:
        figure = by_name[kind.name]
        if figure.median is None:
            continue
        change = "-"
        if not first and figure.difference is not None and not is_nothing(figure):
            change = _difference_text(figure, kind.unit)
        rows.append(row(kind.title, _figure_cell(figure, kind.unit), change))
    return table(("figure", "median over seeds>", "against the first>"), rows)


def trade_off_chart(swept: Swept, best: Best | None) -> Chart | None:
    """Return what the best figure costs, one point per policy; ``None`` if nothing differs."""
    import altair as alt

    kinds = {kind.name: kind for kind in varying(swept)}
    cost = next((kinds[name] for name in _COSTS if name in kinds), None)
    if best is None or cost is None:
        return None
    rows = _points(swept, best, cost)
    x_scale, y_scale = (
        _scale_of(rows, kind, axis) for kind, axis in ((cost, "x"), (best.goal, "y"))
    )
    for entry in rows:
        for axis, scale in (("x", x_scale), ("y", y_scale)):
            for name in (axis, f"{axis}_low", f"{axis}_high"):
                entry[name] = entry[name] / scale.divisor
    x = alt.X("x:Q", title=_axis(cost, x_scale), scale=alt.Scale(zero=False, padding=24),
              axis=alt.Axis(tickCount=5))  # fmt: skip
    y = alt.Y("y:Q", title=_axis(best.goal, y_scale), scale=alt.Scale(zero=False, padding=24),
              axis=alt.Axis(tickCount=5))  # fmt: skip
    points = data(rows).encode(x=x, y=y)
    is_best = alt.datum.best == 1
    layers: list[altair.Chart] = [
        data(rows).mark_rule(color=MUTED).encode(x=x, y="y_low:Q", y2="y_high:Q"),
        data(rows).mark_rule(color=MUTED).encode(x="x_low:Q", x2="x_high:Q", y=y),
        points.transform_filter(~is_best).mark_point(size=60, color=ACCENT),
        points.transform_filter(is_best).mark_point(size=110, shape="diamond", color=SECOND),
        points.mark_text(dx=9, dy=-9, color=INK, align="left").encode(text="number:N"),
    ]
    return Chart(
        name="trade-off",
        title=f"{best.goal.title}, and {cost.title}",
        caption="One point per policy, numbered as in the table; lines are intervals over "
        "seeds. The axes do not begin at 0.",
        specification=layered(layers, height=230),
        legend=(Key("dot", "second", "best (diamond)"), Key("dot", "accent", "other policies")),
    )


def _points(swept: Swept, best: Best, cost: FigureKind) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for number, entry in enumerate(swept.rows):
        figures = entry.figure(cost.name), entry.figure(best.goal.name)
        if any(figure.median is None for figure in figures):
            continue
        point: dict[str, Any] = {
            "number": str(number + 1),
            "policy": entry.combination.title,
            "best": int(number == best.row),
        }
        for axis, figure in zip("xy", figures, strict=True):
            point[axis] = figure.median
            interval = figure.interval
            point[f"{axis}_low"] = figure.median if interval is None else interval.low
            point[f"{axis}_high"] = figure.median if interval is None else interval.high
        rows.append(point)
    return rows


def _scale_of(rows: Sequence[Mapping[str, Any]], kind: FigureKind, axis: str) -> Scale:
    largest = max((entry[f"{axis}_high"] for entry in rows), default=0.0)
    if kind.unit == "1":
        return Scale(0.01, "%")
    if kind.unit == "B/B":
        return Scale(1.0, "")
    if kind.unit == "B":
        return size_scale(largest)
    return value_scale(largest, kind.unit)


def _axis(kind: FigureKind, scale: Scale) -> str:
    return f"{kind.title}, {scale.unit}" if scale.unit else kind.title


def value_text(value: float, unit: str) -> str:
    """Return a figure of the twin in readable units."""
    return f"{value:.3f}" if unit == "B/B" else format_value(value, unit)


def is_nothing(figure: SummedFigure) -> bool:
    """Return whether a difference is only rounding."""
    assert figure.median is not None
    return figure.difference is None or abs(figure.difference) <= 1e-9 * abs(figure.median)


def _difference_text(figure: SummedFigure, unit: str) -> str:
    """Return the difference of a figure from that of the first combination."""
    assert figure.difference is not None
    assert figure.median is not None
    size, reference = abs(figure.difference), figure.median - figure.difference
    words = "+" if figure.difference > 0 else "-"
    words += f"{100 * size:.1f} points" if unit == "1" else value_text(size, unit)
    if unit != "1" and reference > 0:
        words += f" ({100 * figure.difference / reference:+.1f} %)"
    interval = figure.difference_interval
    if interval is not None and interval.low <= 0 <= interval.high:
        words += ", within chance"
    return words
