"""The targets of a site as text: a table, the most troubled first, or all that is known of one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from trimtab.cli.options import extent
from trimtab.cli.render.screen import print_screen, print_wrapped
from trimtab.cli.render.text import (
    GAP,
    console,
    fixed_table,
    moment,
    natural_width,
    print_indented,
    table,
    taken_width,
)
from trimtab.explain.troubles import trim_state
from trimtab.model.finding import Severity
from trimtab.model.target import HostState, SiteState, TargetState, Trouble
from trimtab.model.telemetry import NotAvailable, Reading, Setting, TargetSnapshot
from trimtab.report.answers import targets_answer
from trimtab.units import format_bytes, format_percent, format_value, plural
from trimtab.visible import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

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
_MACHINES: Final = 5
"""Targets, and troubles of machines, on a screen."""


def print_targets(state: SiteState) -> None:
    """Print the targets in trouble first, and the machines that have troubles of their own."""
    more = [f"trimtab targets {visible(state.site)} TARGET shows all that is known of one"]
    print_screen(targets_answer(state), partial(print_target_rows, state), more=more)


def print_target_rows(state: SiteState, out: Console) -> None:
    """Print the machines in trouble, and a line for each target."""
    _print_head(out, state)
    requested = extent()
    troubled = [(host, trouble) for host in state.hosts for trouble in host.troubles]
    shown = troubled if requested.everything else troubled[:_MACHINES]
    for host, trouble in shown:
        print_wrapped(out, _host_line(host, trouble))
    if len(troubled) > len(shown):
        out.print(f"... {len(troubled) - len(shown):,} more machines: --all", style="dim")
    rows = requested.rows(_ROWS)
    _print_table(out, replace(state, targets=state.targets[:rows]))
    if (hidden := len(state.targets) - rows) > 0:
        calm = not any(target.troubles for target in state.targets[rows:])
        out.print(
            f"... {hidden:,} more targets{', none of them in trouble' if calm else ''}: --all",
            style="dim",
        )


def print_target(state: SiteState, target_state: TargetState) -> None:
    """Print everything that is known of one target."""
    out = console()
    target = target_state.seen.target
    where = visible(target.server or "server not known")
    out.print(f"{visible(target_state.name)} ({target.kind}) on {where}", style="bold")
    out.print(f"  of {visible(state.site)}, {moment(state.snapshot.at)}")
    for trouble in target_state.troubles:
        line = f"  {trouble.severity.value}: {visible(trouble.text)}"
        source = "" if trouble.source in (None, trouble.text) else f" [{visible(trouble.source)}]"
        out.print(line + source, style=_STYLES[trouble.severity], soft_wrap=True)
    out.print()
    out.print(_facts("telemetry", _reading_rows(target_state.seen.readings)))
    out.print()
    out.print(_facts("settings", _setting_rows(target_state.seen.settings)))


def print_kept(identifier: str, store: str, state: SiteState) -> None:
    """Print that a snapshot is kept, and in one line what it shows."""
    out = console()
    answered = sum(host.answered for host in state.snapshot.hosts)
    whole = "complete" if state.snapshot.complete else "not complete"
    hosts = f", {answered} of {len(state.snapshot.hosts)} machines answered"
    out.print(
        f"snapshot {identifier} of {visible(state.site)}: {plural(len(state.targets), 'target')}"
        f"{hosts if state.snapshot.hosts else ''}, {whole}"
    )
    troubled = [target for target in state.targets if target.troubles]
    if troubled or state.hosts:
        names = ", ".join(visible(target.name) for target in troubled[:6])
        more = f" and {len(troubled) - 6} more" if len(troubled) > 6 else ""
        machines = f"; {plural(len(state.hosts), 'machine')}" if state.hosts else ""
        out.print(f"  in trouble: {names or 'no target'}{more}{machines}", soft_wrap=True)
    out.print(f"  stored in {visible(store)}", style="dim", soft_wrap=True)


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


def _facts(title: str, rows: Iterator[tuple[str, str, str]]) -> Table:
    made = table(f"{title.upper()}!", "VALUE", "FROM", header_style="bold")
    made.columns[-1].style = "dim"
    for row in rows:
        made.add_row(*(visible(cell) for cell in row))
    return made


def _reading_rows(readings: tuple[Reading, ...]) -> Iterator[tuple[str, str, str]]:
    for reading in sorted(readings, key=lambda target: target.value is None):
        label = "" if reading.label is None else f" {reading.label}"
        if reading.value is None:
            yield f"{reading.name}{label}", "not available", reading.reason or ""
        else:
            value = format_value(reading.value, reading.unit)
            yield f"{reading.name}{label}", value, reading.source or ""


def _setting_rows(
    settings: Mapping[str, Setting | NotAvailable],
) -> Iterator[tuple[str, str, str]]:
    for name, setting in sorted(
        settings.items(), key=lambda item: (isinstance(item[1], NotAvailable), item[0])
    ):
        if isinstance(setting, NotAvailable):
            yield name, "not available", setting.reason
        else:
            yield name, setting.value, setting.source
