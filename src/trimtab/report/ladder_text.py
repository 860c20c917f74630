"""The words and figures of a ladder, for terminal, page and Markdown alike."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from trimtab.model.hardware import Figure
from trimtab.model.ladder import (
    LEVEL_NAMES,
    NOMINAL_LEVELS,
    Absent,
    Basis,
    CheckedClaim,
    Efficiency,
    Estimate,
    Ladder,
    Limit,
    LimitKind,
    Loss,
    Match,
    Step,
    Track,
)
from trimtab.units import format_bytes_per_s, format_percent, parse_unit

_PRINTED: Final = re.compile(r"\s*[0-9]+(?:\.([0-9]+))?[0-9.\s+±-]*(?:to[0-9.\s]+)?(\S*)")
TRACK_NAMES: Final = {
    "write_bandwidth": "write bandwidth",
    "read_bandwidth": "read bandwidth",
    "write_iops": "write IOPS",
    "read_iops": "read IOPS",
}
TRACK_TITLES: Final = {metric: name[:1].upper() + name[1:] for metric, name in TRACK_NAMES.items()}
PARITY_SIGN: Final = "*"
DOUBT_SIGN: Final = "?"
MATCH_WORDS: Final = {
    Match.GIVEN: "given",
    Match.GIVEN_IF_ROUNDED: "only if zeros are filling",
    Match.ASSUMED: "only with an assumption",
    Match.NOT_GIVEN: "NOT given",
    Match.NO_INPUTS: "no inputs printed",
}


def rate_text(value: float, unit: str) -> str:
    """Return a rate: ``38.4 GB/s``, ``1,600 kIOPS``; always decimal units."""
    if unit == "B/s":
        return format_bytes_per_s(value)
    return f"{value / 1000:,.4g} kIOPS" if value >= 1000 else f"{value:,.4g} IOPS"


def interval_text(rate: Estimate, unit: str) -> str:
    """Return the interval of a rate, ``-`` where there is none."""
    if rate.low is None or rate.high is None:
        return "-"
    if rate.low == rate.high:
        return "exact"
    low, high = rate_text(rate.low, unit), rate_text(rate.high, unit)
    if low == high:
        return "to all digits"
    number, unit_of_low = low.split(" ")
    return f"{number if unit_of_low == high.split(' ')[1] else low} .. {high}"


def efficiency_text(efficiency: Efficiency, *, named: bool = True) -> str:
    """Return ``102.0 %* of drive``, with its signs, or why there is none."""
    name = f" of {LEVEL_NAMES[efficiency.of]}" if named else ""
    if efficiency.value is None:
        return f"-{name}"
    signs = (PARITY_SIGN if efficiency.parity_counted else "") + (
        DOUBT_SIGN if efficiency.doubts else ""
    )
    return f"{format_percent(efficiency.value)}{signs}{name}"


def answer_text(track: Track) -> str:
    """Return what limits one metric, and where most is lost, in one sentence."""
    # What limits is said of the system: an application is as slow as it asks for little.
    system = [step for step in track.steps if step.rung.layer != "application"]
    top = (system or track.steps or [None])[-1]
    rate = ""
    if top is not None:
        rate = f" {shown_text(top, track.unit)} at the {LEVEL_NAMES[top.rung.layer]}"
    loss = ""
    if track.loss.layer is not None and track.loss.efficiency is not None:
        efficiency = efficiency_text(track.loss.efficiency)
        loss = f"; most is lost at the {LEVEL_NAMES[track.loss.layer]}, {efficiency}"
    limit = track.limit
    kind = limit.kind.value
    if limit.kind is LimitKind.CANNOT_TELL:
        kind = "its limit is not known"
    if limit.kind is LimitKind.LAYER and limit.layer is not None:
        kind = f"lost in the {LEVEL_NAMES[limit.layer]}"
    return f"{TRACK_TITLES[track.metric]}{rate}: {kind}{loss}."


def limit_text(limit: Limit) -> str:
    """Return what holds the topmost rate down in one line."""
    kind = limit.kind.value
    if limit.kind is LimitKind.LAYER and limit.layer is not None:
        kind = f"bottleneck: {LEVEL_NAMES[limit.layer]}"
    return f"{kind} ({limit.reason})"


def loss_text(loss: Loss) -> str:
    """Return where most is lost in one line."""
    name = "no layer can be named" if loss.layer is None else LEVEL_NAMES[loss.layer]
    return f"{name} ({loss.reason})"


def what_text(step: Step) -> str:
    """Return what measured, where it stands, and the figure as it was printed."""
    rung = step.rung
    parts = [part for part in (rung.tool, rung.source, rung.printed) if part]
    return ", ".join(parts)


def shown_text(step: Step, unit: str) -> str:
    """Return the rate at the ladder's scale; as measured, in brackets, where it has none."""
    if step.shown is None:
        return f"({rate_text(step.rung.rate.value, unit)})"
    return rate_text(step.shown.value, unit)


def absent_text(absent: Absent) -> str:
    """Return which layer was not measured, and how it would be."""
    metrics = ", ".join(TRACK_NAMES[metric] for metric in absent.metrics)
    noun = "" if absent.layer == "data_sheet" else " rung"
    return f"no {LEVEL_NAMES[absent.layer]}{noun} ({metrics}): {absent.hint}"


def explanations(ladder: Ladder) -> Iterator[str]:
    """Yield what the signs mean, each doubt, and what is to be known of single rungs."""
    steps = [step for track in ladder.tracks for step in track.steps]
    efficiencies = [(step, efficiency) for step in steps for efficiency in step.beneath]
    if any(efficiency.parity_counted for _, efficiency in efficiencies):
        parity = ladder.hardware.parity
        factor = "" if parity is None else f"{parity.written_per_byte:g} "
        yield f"{PARITY_SIGN} parity counted ({parity}): a byte written is {factor}bytes to drives"
    lines: list[str] = []
    for step, efficiency in efficiencies:
        pair = f"{LEVEL_NAMES[step.rung.layer]} of {LEVEL_NAMES[efficiency.of]}"
        lines += [f"{DOUBT_SIGN} {pair}: {doubt}" for doubt in efficiency.doubts]
        lines += [f"- {pair}: {efficiency.reason}"] if efficiency.value is None else []
    for step in steps:
        name = LEVEL_NAMES[step.rung.layer]
        if step.shown_reason is not None:
            lines.append(f"({name}) as measured: {step.shown_reason}")
        lines += [f"{name}: {note}" for note in step.rung.notes]
    yield from dict.fromkeys(lines)
    bases = {step.rung.rate.basis for step in steps if step.rung.layer not in NOMINAL_LEVELS}
    if Basis.ROUNDING in bases:
        yield "intervals of printed figures are of their rounding; scatter is not printed"
    if Basis.REPETITIONS in bases:
        yield "intervals of repetitions say nothing about other days"


def printed_text(checked: CheckedClaim) -> str:
    """Return what was printed."""
    return f"{'> ' if checked.claim.at_least else ''}{checked.claim.printed.text}"


def claim_text(checked: CheckedClaim) -> str:
    """Return what a printed value is of, and what was taken for granted to come to it."""
    return "; ".join(filter(None, (checked.claim.what, checked.claim.assumes)))


def computed_text(checked: CheckedClaim) -> tuple[str, str]:
    """Return what the inputs give in the unit that was printed: value, and interval of rounding.

    The interval is the one that the match rests on.
    """
    if checked.value is None or checked.low is None or checked.high is None:
        return "-", "-"
    printed = checked.claim.printed
    factor, unit, digits = _as_printed(printed)
    bounds = (checked.low, checked.high)
    if (
        checked.match is Match.GIVEN_IF_ROUNDED
        and checked.loose_low is not None
        and checked.loose_high
    ):
        bounds = (checked.loose_low, checked.loose_high)
    value, low, high = (f"{x / factor:,.{digits}f}" for x in (checked.value, *bounds))
    return f"{value} {unit}", f"{low} .. {high}" if low != high else low


def _as_printed(printed: Figure) -> tuple[float, str, int]:
    """Return the factor and the unit of a printed text, and one digit more than it has."""
    match = _PRINTED.match(printed.text or "")
    if match is None:
        return 1.0, printed.unit, 1
    decimals, unit = match.groups()
    return float(parse_unit(unit)[0]), unit, len(decimals or "") + 1
