"""The pages of the targets of a site, most troubled first, and of one of them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from trimtab.explain.troubles import trim_state
from trimtab.model.telemetry import NotAvailable, Reading, Setting, TargetSnapshot
from trimtab.report.headline import targets_headline, tone_of
from trimtab.report.kit import SEVERITY_TONES, Cell, Row, Table, row, table
from trimtab.report.sections import Document, Section
from trimtab.report.text import joined_sentences, minute_text
from trimtab.units import enumerated, format_bytes, format_percent, format_value, plural
from trimtab.visible import visible

if TYPE_CHECKING:
    from trimtab.model.standing import SiteStanding
    from trimtab.model.target import SiteState, TargetState

_UNKNOWN: Final = "?"
"""Not known: never a dash, which reads as none."""
_LABELS: Final = 2
_ROWS: Final = 25
"""Rows of targets, or of readings of one, on a screen."""
_NOT_AVAILABLE: Final = "not available"


def targets_document(standing: SiteStanding) -> Document:
    """Return the troubled targets first, and the machines with troubles of their own."""
    state = standing.state
    assert state is not None  # a look and a recall both have it
    machines = [f"{host.name}: {trouble.text}" for host in state.hosts for trouble in host.troubles]
    return Document(
        kind="targets",
        heading=state.site,
        subtitle=_seen(state),
        tone=tone_of(standing),
        answer=targets_headline(standing),
        sections=(
            Section("Machines", notes=tuple(machines)),
            Section("Targets", tables=(targets_table(state.targets),)),
        ),
    )


def _seen(state: SiteState) -> str:
    return f"{minute_text(state.snapshot.at)} ({'stored snapshot' if state.kept else 'now'})"


def targets_table(
    targets: Iterable[TargetState], link: Callable[[str], str] = lambda name: ""
) -> Table | None:
    """Return a row per target.

    Parameters
    ----------
    link
        Address of a target's own page.
    """
    columns = ("target", "full>", "inodes>", "new files", "trim?", "trouble")
    return table(columns, (_row(each, link(each.name)) for each in targets), first=_ROWS)


def chosen_targets(
    whole: Table | None, numbers: Iterable[int], trimmed: Mapping[int, str]
) -> Table | None:
    """Return some rows of a table of targets, each with the age of its last trim as text."""
    if whole is None:
        return None
    trim = whole.columns.index("trim?")

    def chosen(number: int) -> Row:
        cells = list(whole.rows[number].cells)
        cells[trim] = replace(cells[trim], small=trimmed.get(number, ""))
        return replace(whole.rows[number], cells=tuple(cells))

    return table(whole.columns, map(chosen, numbers), first=whole.first)


def _row(target_state: TargetState, link: str) -> Row:
    seen, name, troubles = target_state.seen, target_state.name, target_state.troubles
    size = seen.number("capacity_bytes")
    return row(
        Cell(name, seen.target.server or _UNKNOWN, link=link),
        Cell(_percent(seen.fullness()), "" if size is None else f"of {format_bytes(size)}"),
        _percent(_inodes(seen)),
        _creation(seen),
        Cell(trim_state(seen)),
        Cell(
            ", ".join(dict.fromkeys(trouble.id for trouble in troubles)),
            tone=SEVERITY_TONES[troubles[0].severity] if troubles else None,
        ),
        note="; ".join(trouble.text for trouble in troubles),
    )


def _percent(fraction: float | None) -> str:
    return _UNKNOWN if fraction is None else format_percent(fraction)


def _inodes(seen: TargetSnapshot) -> float | None:
    total, free = seen.number("inodes_total"), seen.number("inodes_free")
    return None if not total or free is None else 1 - free / total


def _creation(seen: TargetSnapshot) -> str:
    """Return whether new files are accepted: a local file system is never closed to them alone."""
    match seen.value("create_enabled"):
        case True if seen.value("read_only") is True:
            return "read-only"
        case True:
            readings = [r for r in seen.readings if r.name == "create_enabled"]
            closed = sum(reading.value is False for reading in readings)
            return f"not {plural(closed, 'MDT')}" if closed else "open"
        case False:
            return "closed"
        case _:
            local = seen.target.kind == "file-system"
            return "open" if local and seen.value("read_only") is False else _UNKNOWN


def target_document(state: SiteState, target_state: TargetState) -> Document:
    """Return everything known about one target, problems first."""
    troubles = target_state.troubles
    sources = tuple(
        f"{trouble.id} ({trouble.severity.value}) is read from {trouble.source}"
        for trouble in troubles
        if trouble.source is not None
    )
    return Document(
        kind="target",
        heading=target_state.name,
        subtitle=_seen(state),
        tone=SEVERITY_TONES[troubles[0].severity] if troubles else "healthy",
        answer=target_answer(state, target_state),
        sections=(
            Section("Troubles", notes=sources),
            Section("Telemetry", tables=(_facts(_reading_rows(target_state.seen.readings)),)),
            Section("Settings", tables=(_facts(_setting_rows(target_state.seen.settings)),)),
        ),
    )  # fmt: skip


def _facts(facts: Iterable[tuple[str, str, str]]) -> Table | None:
    """Return names with their values; unavailable ones come last, with their reason."""
    known_first = sorted(facts, key=lambda fact: fact[1] == _NOT_AVAILABLE)
    return table(("name", "value>", "from"), (row(*fact) for fact in known_first), first=_ROWS)


def _reading_rows(readings: Iterable[Reading]) -> Iterator[tuple[str, str, str]]:
    """Yield name, value and source; labels of one name with equal values share a row."""
    labels: dict[tuple[str, str, str], list[str]] = {}
    for reading in readings:
        if reading.value is None:
            fact = reading.name, _NOT_AVAILABLE, reading.reason or ""
        else:
            value = format_value(reading.value, reading.unit)
            fact = reading.name, value, reading.source or ""
        labels.setdefault(fact, []).extend([] if reading.label is None else [reading.label])
    for (name, value, source), names in labels.items():
        yield f"{name} {enumerated(names, _LABELS)}".rstrip(), value, source


def _setting_rows(
    settings: Mapping[str, Setting | NotAvailable],
) -> Iterator[tuple[str, str, str]]:
    for name, setting in sorted(settings.items()):
        if isinstance(setting, NotAvailable):
            yield name, _NOT_AVAILABLE, setting.reason
        else:
            yield name, setting.value, setting.source


def target_answer(state: SiteState, target_state: TargetState) -> str:
    """Return what is wrong with one target of a site, if anything."""
    target = target_state.seen.target
    where = visible(target.server or "an unknown server")
    words = "; ".join(visible(trouble.text) for trouble in target_state.troubles) or "no trouble"
    return joined_sentences(
        f"{visible(target_state.name)} of {visible(state.site)}, on {where}: {words}"
    )
