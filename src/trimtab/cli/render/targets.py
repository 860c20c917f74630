"""The targets of a site as text: a table, the most troubled first, or all that is known of one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from trimtab.cli.options import extent
from trimtab.cli.render.screen import Column, print_rows, print_screen, print_wrapped
from trimtab.cli.render.text import (
    GAP,
    fixed_table,
    moment,
    natural_width,
    print_indented,
    site_argument,
    taken_width,
)
from trimtab.explain.troubles import trim_state
from trimtab.model.finding import Severity
from trimtab.model.target import HostState, SiteState, TargetState, Trouble
from trimtab.model.telemetry import NotAvailable, Reading, Setting, TargetSnapshot
from trimtab.report.answers import target_answer
from trimtab.report.headline import targets_headline
from trimtab.units import enumerated, format_bytes, format_percent, format_value, plural
from trimtab.visible import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from trimtab.model.standing import SiteStanding

_STYLES: Final = {Severity.CRITICAL: "bold red", Severity.WARNING: "yellow", Severity.INFO: "dim"}
_UNKNOWN: Final = "?"
"""Not known: never a dash, which reads as none."""
_COLUMNS: Final = ("TARGET", "SERVER", "SIZE", "FULL", "INODES", "NEW FILES", "TRIM")
_NUMBERS: Final = frozenset({"SIZE", "FULL", "INODES"})
_DROPPED: Final = ("TRIM", "INODES", "SIZE")
"""What gives way first on a narrow terminal; one target's own page has all of it."""
_TROUBLE: Final = "TROUBLE"
_TROUBLE_MINIMUM: Final = 30
"""Characters: in fewer no sentence can be read."""
_TROUBLE_COMFORTABLE: Final = 60
_BESIDE_MINIMUM: Final = 70
_TRIM_WIDTH: Final = 20
_NAME_MINIMUM: Final = 12
_ROWS: Final = 25
_SHARED_LEAST: Final = 4
"""A trouble of so many targets is written once, above them."""
_LABELS: Final = 2
_SHORT_ID: Final = 13
_NOT_AVAILABLE: Final = "not available"
_MACHINES: Final = 5
"""Targets, and troubles of machines, on a screen."""


def print_targets(standing: SiteStanding) -> None:
    """Print the targets in trouble first, and the machines that have troubles of their own."""
    more = [f"trimtab targets {site_argument(standing.site)} TARGET shows all that is known of one"]
    print_screen(targets_headline(standing), partial(_print_targets, standing), more=more)


def _print_targets(standing: SiteStanding, out: Console) -> None:
    if standing.state is not None:
        print_target_rows(standing.state, out, answer=targets_headline(standing))


def print_target_rows(state: SiteState, out: Console, *, answer: str = "") -> None:
    """Print the machines in trouble, and a line for each target.

    Parameters
    ----------
    answer
        What stands above them: a trouble that it names is not repeated.
    """
    _print_head(out, state)
    requested = extent()
    troubled = [(host, trouble) for host in state.hosts for trouble in host.troubles]
    shown = troubled if requested.everything else troubled[:_MACHINES]
    for host, trouble in shown:
        print_wrapped(out, _host_line(host, trouble))
    if len(troubled) > len(shown):
        out.print(f"... {len(troubled) - len(shown):,} more machines: --all", style="dim")
    shared = _shared(state.targets)
    for trouble, count in shared.items():
        if visible(trouble.text) in answer:
            continue
        style = _STYLES[trouble.severity]
        print_wrapped(out, f"{trouble.id} ({count:,} targets): {visible(trouble.text)}", style)
    rows = requested.rows(_ROWS)
    _print_table(out, _shortened(replace(state, targets=state.targets[:rows]), shared))
    if (hidden := len(state.targets) - rows) > 0:
        calm = not any(target.troubles for target in state.targets[rows:])
        out.print(
            f"... {hidden:,} more targets{', none of them in trouble' if calm else ''}: --all",
            style="dim",
        )


def _shared(targets: Sequence[TargetState]) -> dict[Trouble, int]:
    """Return the troubles that many targets have in the same words, with how many.

    Of each kind one: rows name it by its kind.
    """
    alike = Counter(
        replace(trouble, source=None) for target in targets for trouble in target.troubles
    )
    shared: dict[str, Trouble] = {}
    for trouble, count in alike.most_common():
        if count >= _SHARED_LEAST:
            shared.setdefault(trouble.id, trouble)
    return {trouble: alike[trouble] for trouble in shared.values()}


def _shortened(state: SiteState, shared: Mapping[Trouble, int]) -> SiteState:
    """Return a state in whose targets a trouble that is shared is named by its kind alone."""

    def short(trouble: Trouble) -> Trouble:
        named = replace(trouble, source=None) in shared
        return replace(trouble, text=trouble.id) if named else trouble

    return replace(
        state,
        targets=tuple(
            replace(target, troubles=tuple(map(short, target.troubles))) for target in state.targets
        ),
    )


def print_target(state: SiteState, target_state: TargetState) -> None:
    """Print what is known of one target: what is wrong first."""
    print_screen(target_answer(state, target_state), partial(_print_target, state, target_state))


def _print_target(state: SiteState, target_state: TargetState, out: Console) -> None:
    _print_head(out, state)
    seen = target_state.seen
    telemetry, settings = list(_reading_rows(seen.readings)), list(_setting_rows(seen.settings))
    sources = {source for _, _, source in telemetry + settings}
    for trouble in target_state.troubles:
        if trouble.source and trouble.source != trouble.text and len(sources) > 1:
            line = f"{trouble.id} ({trouble.severity.value}) is read from {visible(trouble.source)}"
            print_wrapped(out, line, _STYLES[trouble.severity])
    _print_facts(out, "telemetry", telemetry)
    _print_facts(out, "setting", settings)


def print_kept(identifier: str, store: str, standing: SiteStanding) -> None:
    """Print that a snapshot is kept, and what it shows."""
    state = standing.state
    assert state is not None  # it was kept just now
    answered = sum(host.answered for host in state.snapshot.hosts)
    silent = [host for host in state.snapshot.hosts if not host.answered]
    hosts = f"; {answered} of {plural(len(state.snapshot.hosts), 'machine')} answered"
    answer = f"Snapshot kept. {targets_headline(standing).rstrip('.')}{hosts if silent else ''}."

    def body(out: Console) -> None:
        print_wrapped(out, f"snapshot {identifier[:_SHORT_ID]}, {moment(state.snapshot.at)}", "dim")
        out.print(f"stored in {visible(store)}", style="dim", soft_wrap=True)

    more = [f"trimtab targets {site_argument(state.site)} lists each target"]
    print_screen(answer, body, more=more)


def _print_head(out: Console, state: SiteState) -> None:
    origin = "kept snapshot" if state.kept else "now"
    out.print(f"{moment(state.snapshot.at)} ({origin})", style="dim")


def _print_table(out: Console, state: SiteState) -> None:
    """Print a line for each target: its troubles beside it, or below where there is no room."""
    rows = [_row(target) for target in state.targets]
    plain = [_troubles(target.troubles).plain for target in state.targets]
    requested = natural_width((_TROUBLE, *plain))
    # A parameter's name is not broken where a line has room for it: half of it sets nothing.
    longest = max((len(word) for text in plain for word in text.split()), default=0)
    room = max(min(requested, _TROUBLE_MINIMUM), longest)
    widths = _columns(rows, out.width - room - GAP)
    beside = out.width - GAP - taken_width(widths.values())
    if out.width < _BESIDE_MINIMUM or beside < room:
        _print_troubles_below(out, state, rows)
        return
    if "TRIM" in widths:
        # It is folded where troubles are long, and has what they leave free.
        free = max(beside - min(requested, _TROUBLE_COMFORTABLE), 0)
        widths["TRIM"] = min(widths["TRIM"] + free, _natural(rows, "TRIM"))
    table = _table(widths, out.width - GAP - taken_width(widths.values()))
    for target, row in zip(state.targets, rows, strict=True):
        table.add_row(*(row[name] for name in widths), _troubles(target.troubles))
    out.print(table)


def _print_troubles_below(
    out: Console, state: SiteState, rows: Sequence[Mapping[str, str]]
) -> None:
    widths = _columns(rows, out.width)
    _fold_names(widths, out.width)
    out.print(_table(widths))
    for target, row in zip(state.targets, rows, strict=True):
        # Tables of one row each, of the same widths: a table has no lines across its columns.
        table = _table(widths, header=False)
        table.add_row(*(row[name] for name in widths))
        out.print(table)
        for trouble in target.troubles:
            print_indented(out, _troubles((trouble,)))


def _table(widths: Mapping[str, int], beside: int = 0, *, header: bool = True) -> Table:
    columns = [(f"{name}>" if name in _NUMBERS else name, width) for name, width in widths.items()]
    return fixed_table(columns, _TROUBLE, beside, header_style="bold", show_header=header)


def _columns(rows: Sequence[Mapping[str, str]], room: int) -> dict[str, int]:
    """Return the columns that have room, or that never give way, and their widths in characters."""
    widths = {name: _natural(rows, name) for name in _COLUMNS}
    widths["TRIM"] = min(widths["TRIM"], _TRIM_WIDTH)
    for name in _DROPPED:
        if taken_width(widths.values()) <= room:
            break
        del widths[name]
    return widths


def _fold_names(widths: dict[str, int], room: int) -> None:
    """Narrow names that are too long for any line: they are folded, never cut."""
    for name in ("SERVER", "TARGET"):
        excess = max(taken_width(widths.values()) - room, 0)
        widths[name] = max(widths[name] - excess, min(widths[name], _NAME_MINIMUM))


def _natural(rows: Sequence[Mapping[str, str]], name: str) -> int:
    return natural_width((name, *(row[name] for row in rows)))


def _row(target_state: TargetState) -> dict[str, str]:
    seen = target_state.seen
    return {
        "TARGET": visible(target_state.name),
        "SERVER": visible(seen.target.server or _UNKNOWN),
        "SIZE": _UNKNOWN if (size := seen.number("capacity_bytes")) is None else format_bytes(size),
        "FULL": _percent(seen.fullness()),
        "INODES": _percent(_inodes(seen)),
        "NEW FILES": _creation(seen),
        "TRIM": visible(trim_state(seen)),
    }


def _percent(fraction: float | None) -> str:
    return _UNKNOWN if fraction is None else format_percent(fraction)


def _inodes(seen: TargetSnapshot) -> float | None:
    total, free = seen.number("inodes_total"), seen.number("inodes_free")
    return None if not total or free is None else 1 - free / total


def _creation(seen: TargetSnapshot) -> str:
    """Return whether new files may come: a local file system is never closed to them alone."""
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


def _troubles(troubles: tuple[Trouble, ...]) -> Text:
    from rich.text import Text

    text = Text(overflow="fold")
    for trouble in troubles:
        text.append("; " if text else "")
        text.append(visible(trouble.text), style=_STYLES[trouble.severity])
    return text


def _host_line(host: HostState, trouble: Trouble) -> Text:
    from rich.text import Text

    text = Text(f"{visible(host.name)}: ")
    text.append(visible(trouble.text), style=_STYLES[trouble.severity])
    return text


def _print_facts(out: Console, title: str, facts: Sequence[tuple[str, str, str]]) -> None:
    """Print names with their values; what is not available is only named, unless all is wanted."""
    everything = extent().everything
    known = [fact for fact in facts if fact[1] != _NOT_AVAILABLE]
    lacking = list(dict.fromkeys(fact[0] for fact in facts if fact[1] == _NOT_AVAILABLE))
    shown = facts if everything else known
    sources = {source for _, _, source in shown}
    (only, *others) = sources or {""}
    columns = (
        Column(title, wraps=True),
        Column("value", wraps=True),
        Column("from", wraps=True, drop=0 if everything else 1),
    )
    rows = [
        (visible(name), visible(value), visible(source) if others else "")
        for name, value, source in shown
    ]
    print_rows(out, columns, rows)
    if only and not others:
        out.print(f"all from: {visible(only)}", style="dim", soft_wrap=True)
    if lacking and not everything:
        names = ", ".join(map(visible, lacking))
        print_wrapped(out, f"{title} not available (--all says why): {names}", "dim")


def _reading_rows(readings: Iterable[Reading]) -> Iterator[tuple[str, str, str]]:
    """Yield name, value and source; labels of one name that have the same value share a row."""
    labels: dict[tuple[str, str, str], list[str]] = {}
    for reading in sorted(readings, key=lambda target: target.value is None):
        if reading.value is None:
            fact = reading.name, _NOT_AVAILABLE, reading.reason or ""
        else:
            value = format_value(reading.value, reading.unit)
            fact = reading.name, value, reading.source or ""
        labels.setdefault(fact, []).extend([] if reading.label is None else [reading.label])
    for (name, value, source), names in labels.items():
        folded = enumerated(names, _LABELS)
        yield f"{name} {folded}".rstrip(), value, source


def _setting_rows(
    settings: Mapping[str, Setting | NotAvailable],
) -> Iterator[tuple[str, str, str]]:
    for name, setting in sorted(
        settings.items(), key=lambda item: (isinstance(item[1], NotAvailable), item[0])
    ):
        if isinstance(setting, NotAvailable):
            yield name, _NOT_AVAILABLE, setting.reason
        else:
            yield name, setting.value, setting.source
