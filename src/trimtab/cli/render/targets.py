"""The targets of a site as text: a table, the most troubled first, or all that is known of one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from trimtab.cli.render.text import console, moment
from trimtab.explain.troubles import trim_state
from trimtab.model.finding import Severity
from trimtab.model.target import HostState, SiteState, TargetState, Trouble
from trimtab.model.telemetry import NotAvailable, Reading, Setting, TargetSnapshot
from trimtab.units import format_bytes, format_percent, format_value
from trimtab.visible import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

_STYLES: Final = {Severity.CRITICAL: "bold red", Severity.WARNING: "yellow", Severity.INFO: "dim"}
_UNKNOWN: Final = "?"
"""Not known: never a dash, which reads as none."""


def print_targets(state: SiteState) -> None:
    """Print a line for each target, and the machines that have troubles of their own."""
    out = console()
    _print_head(out, state)
    out.print(_table(state))
    for host in state.hosts:
        for trouble in host.troubles:
            out.print(_host_line(host, trouble), soft_wrap=True)


def print_target(state: SiteState, one: TargetState) -> None:
    """Print everything that is known of one target."""
    out = console()
    target = one.seen.target
    where = visible(target.server or "server not known")
    out.print(f"{visible(one.name)} ({target.kind}) on {where}", style="bold")
    out.print(f"  of {visible(state.site)}, {moment(state.snapshot.at)}")
    for trouble in one.troubles:
        line = f"  {trouble.severity.value}: {visible(trouble.text)}"
        source = "" if trouble.source in (None, trouble.text) else f" [{visible(trouble.source)}]"
        out.print(line + source, style=_STYLES[trouble.severity], soft_wrap=True)
    out.print()
    out.print(_facts("telemetry", _reading_rows(one.seen.readings)))
    out.print()
    out.print(_facts("settings", _setting_rows(one.seen.settings)))


def print_kept(identifier: str, store: str, state: SiteState) -> None:
    """Print that a snapshot is kept, and in one line what it shows."""
    out = console()
    answered = sum(host.answered for host in state.snapshot.hosts)
    whole = "complete" if state.snapshot.complete else "not complete"
    hosts = f", {answered} of {len(state.snapshot.hosts)} machines answered"
    out.print(
        f"snapshot {identifier} of {visible(state.site)}: {_plural(len(state.targets), 'target')}"
        f"{hosts if state.snapshot.hosts else ''}, {whole}"
    )
    troubled = [one for one in state.targets if one.troubles]
    if troubled or state.hosts:
        names = ", ".join(visible(one.name) for one in troubled[:6])
        more = f" and {len(troubled) - 6} more" if len(troubled) > 6 else ""
        machines = f"; {_plural(len(state.hosts), 'machine')}" if state.hosts else ""
        out.print(f"  in trouble: {names or 'no target'}{more}{machines}", soft_wrap=True)
    out.print(f"  kept in {visible(store)}", style="dim", soft_wrap=True)


def _plural(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def _print_head(out: Console, state: SiteState) -> None:
    kept = "kept snapshot" if state.kept else "now"
    out.print(f"{visible(state.site)}, {moment(state.snapshot.at)} ({kept})", style="bold")
    if not state.snapshot.complete:
        out.print("Not complete: what did not answer is named below.", style="yellow")


def _table(state: SiteState) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("TARGET", "SERVER"):
        table.add_column(name, no_wrap=True)
    for name in ("SIZE", "FULL", "INODES"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in ("NEW FILES", "TRIM"):
        table.add_column(name, no_wrap=name == "NEW FILES")
    table.add_column("TROUBLE", overflow="fold")
    for one in state.targets:
        seen = one.seen
        table.add_row(
            visible(one.name),
            visible(seen.target.server or _UNKNOWN),
            _bytes(seen),
            _percent(seen.fullness()),
            _percent(_inodes(seen)),
            _creation(seen),
            visible(trim_state(seen)),
            _troubles(one.troubles),
        )
    return table


def _bytes(seen: TargetSnapshot) -> str:
    size = seen.number("capacity_bytes")
    return _UNKNOWN if size is None else format_bytes(size)


def _percent(fraction: float | None) -> str:
    return _UNKNOWN if fraction is None else format_percent(fraction)


def _inodes(seen: TargetSnapshot) -> float | None:
    total, free = seen.number("inodes_total"), seen.number("inodes_free")
    return None if not total or free is None else 1 - free / total


def _creation(seen: TargetSnapshot) -> str:
    """Return whether new files may come: a local file system is never closed to them alone."""
    match seen.value("create_enabled"):
        case True:
            closed = [
                reading
                for reading in seen.readings
                if reading.name == "create_enabled" and reading.value is False
            ]
            return f"not {len(closed)} MDT{'s' if len(closed) > 1 else ''}" if closed else "open"
        case False:
            return "closed"
        case _:
            local = seen.target.kind == "file-system"
            return "open" if local and seen.value("read_only") is False else _UNKNOWN


def _troubles(troubles: tuple[Trouble, ...]) -> Text:
    from rich.text import Text

    text = Text()
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
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(title.upper(), no_wrap=True)
    table.add_column("VALUE", overflow="fold")
    table.add_column("FROM", style="dim", overflow="fold")
    for row in rows:
        table.add_row(*(visible(cell) for cell in row))
    return table


def _reading_rows(readings: tuple[Reading, ...]) -> Iterator[tuple[str, str, str]]:
    for reading in sorted(readings, key=lambda one: one.value is None):
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
