"""What the twin found, as text."""

from __future__ import annotations

from collections.abc import Iterable

from trimtab.cli.render.text import console
from trimtab.twin.amplification import Amplification
from trimtab.twin.kept import TwinRun
from trimtab.twin.scenario import facts
from trimtab.twin.scenario.drives import Preset
from trimtab.twin.scenario.geometry import capacity_bytes
from trimtab.twin.scenario.model import Scenario
from trimtab.units import format_bytes, format_duration, format_percent
from trimtab.visible import visible


def print_amplification(found: Amplification, preset: Preset | None) -> None:
    """Print the write amplification of a drive, the formula beside it."""
    out, terms = console(), found.terms
    what = f"{format_percent(terms.spare)} usable spare, {terms.superblocks:,} superblocks of "
    what += f"{terms.units:,} units, {terms.policy}"
    if terms.separate:
        what += ", copies kept apart"
    out.print(f"write amplification of a simulated drive: {what}")
    if preset is not None:
        out.print(f"  {preset.name}: {preset.reason}", style="dim")
    out.print(f"  writes to {_workload(found)}")
    out.print(f"  simulated  {found.simulated:.3f} (standard error {found.error:.3f})")
    if found.formula is not None and found.relative_error is not None:
        off = format_percent(found.relative_error, 2)
        out.print(f"  formula    {found.formula:.3f}, the simulation is {off} off it")
    elif found.bound is not None:
        out.print(f"  bound      {found.bound:.3f}, with hot and cold data kept wholly apart")
    else:
        out.print("  formula    none for this policy")
    out.print(
        f"  {found.warm} drive writes until it was settled, {found.measured} measured", style="dim"
    )
    if not found.settled:
        out.print("  not settled: it still changes from one drive write to the next")


def _workload(found: Amplification) -> str:
    terms = found.terms
    data = "all units" if terms.live == 1 else f"{format_percent(terms.live)} of the units"
    if terms.hot is None:
        return f"{data} at random" + ("" if terms.live == 1 else ", the rest trimmed")
    part, share = terms.hot
    return (
        f"{data}: {format_percent(share, 0)} of the writes to {format_percent(part, 0)} of them, "
        "the hot ones"
    )


def print_scenarios(scenarios: Iterable[Scenario]) -> None:
    """Print the scenarios that come with Trimtab, one a row."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in ("name", "OSTs", "capacity", "length", "what"):
        table.add_column(heading, justify="right" if heading in ("OSTs", "capacity") else "left")
    for one in scenarios:
        table.add_row(
            visible(one.name),
            str(one.osts.count),
            format_bytes(capacity_bytes(one)),
            format_duration(one.length_s),
            visible(one.title),
        )
    console().print(table)


def print_scenario(scenario: Scenario) -> None:
    """Print what a scenario is built of, what happens to it, and what of it is assumed."""
    out = console()
    out.print(visible(scenario.title), style="bold", soft_wrap=True)
    span = f"{facts.local(scenario.start, scenario)} to {facts.local(scenario.end, scenario)}"
    out.print(f"  {visible(scenario.name)}, {span} {scenario.timezone}, seed {scenario.seed}")
    for title, rows in (
        ("built of", facts.built_of(scenario)),
        ("at the start", facts.used_by(scenario)),
        ("probes", [(one.name, facts.told_probe(one, scenario)) for one in scenario.probes]),
    ):
        _print_rows(title, rows)
    moments = facts.timeline(scenario)
    if moments:
        _print_rows("what happens", [(_when(scenario, one), one.what) for one in moments])
    _print_rows("assumed, as no source says it", scenario.assumptions.items())
    out.print()
    out.print("a simulation is worth what these are worth", style="dim")


def _when(scenario: Scenario, moment: facts.Moment) -> str:
    until = "" if moment.until is None else f" to {facts.local(moment.until, scenario)}"
    return f"{facts.local(moment.at, scenario)}{until}"


def _print_rows(title: str, rows: Iterable[tuple[str, str]]) -> None:
    from rich.table import Table

    told = list(rows)
    if not told:
        return
    out = console()
    out.print()
    out.print(title, style="bold")
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    table.add_column("", no_wrap=True)
    table.add_column("", overflow="fold")
    for name, value in told:
        table.add_row(f"  {visible(name)}", visible(value))
    out.print(table)


def print_run(kept: TwinRun) -> None:
    """Print what was kept of a simulated stretch, and how to go on."""
    out = console()
    scenario = kept.scenario
    title = f"simulated: {visible(scenario.title)}"
    out.print(title, style="bold", soft_wrap=True)
    span = f"{facts.local(kept.start, scenario)} to {facts.local(kept.end, scenario)}"
    out.print(f"  {span} {scenario.timezone}, seed {scenario.seed}")
    runs = ", ".join(f"{count:,} {status.value}" for status, count in kept.statuses.items())
    rows = [
        ("runs", runs or "none"),
        ("surveys", f"{kept.surveys:,}"),
        ("snapshots", f"{kept.snapshots:,}"),
        ("events", f"{kept.events:,}"),
        ("store", kept.store),
        *(("truth", str(path)) for path in kept.truth),
        ("site file", str(kept.site_file)),
    ]
    _print_rows("kept", rows)
    out.print()
    out.print(f"go on with: trimtab status {visible(str(kept.site_file))}", soft_wrap=True)
