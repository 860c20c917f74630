"""What the twin found, as text."""

from __future__ import annotations

from trimtab.cli.render.text import console
from trimtab.twin.amplification import Amplification
from trimtab.twin.drives import Preset
from trimtab.units import format_percent


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
