"""A site file and what reality says of it, as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from trimtab.cli.render.text import console, print_facts, table
from trimtab.model.site import Checked, Site
from trimtab.units import format_bytes, format_duration, format_percent
from trimtab.visible import visible

if TYPE_CHECKING:
    from trimtab.loop.initialise import Discovery
    from trimtab.loop.installing.install import InstalledFile


def print_site(site: Site, warnings: Sequence[str], checked: Sequence[Checked]) -> None:
    """Print a site as it was read, its warnings, and what was held against reality."""
    out = console()
    out.print(visible(site.name), style="bold")
    print_facts(out, _facts(site))
    for warning in warnings:
        out.print(f"  warning: {visible(warning)}", style="yellow", soft_wrap=True)
    if not checked:
        return
    out.print()
    made = table("what", "holds", "detail", show_header=False)
    for statement in checked:
        word = "not known" if statement.ok is None else "yes" if statement.ok else "NO"
        made.add_row(visible(statement.what), word, visible(statement.detail))
    out.print(made)


def print_discovery(
    name: str, text: str, out: str | None, discovered: Sequence[str], not_found: Sequence[str]
) -> None:
    """Print a new site file, or where it was written with what was found."""
    page = console(to_error=out is None)
    for line in discovered:
        page.print(f"found: {visible(line)}", soft_wrap=True)
    for line in not_found:
        page.print(f"not found: {visible(line)}", style="yellow", soft_wrap=True)
    if out is None:
        # To standard output as it is: `trimtab init PATH > site.toml` gives the same file.
        print(text, end="")
        return
    page.print(f"site {visible(name)} written to {visible(out)}", style="bold")
    page.print(f"next: read it, then trimtab site {visible(out)} --validate")


def print_installation(planned: Sequence[InstalledFile], discovery: Discovery) -> None:
    """Print every file that is to be put in place, whole, and what is there now."""
    page = console(to_error=True)
    for line in discovery.facts:
        page.print(f"found: {visible(line)}", soft_wrap=True)
    for line in discovery.not_found:
        page.print(f"not found: {visible(line)}", style="yellow", soft_wrap=True)
    for file in planned:
        page.print(f"\n{visible(file.path)} ({_STATES[file.state.value]})", style="bold")
        if file.state.value != "same":
            page.print(visible(file.text, keep="\n"), soft_wrap=True, highlight=False, markup=False)


def print_installed(written: Sequence[str], following: Sequence[str]) -> None:
    """Print what was put in place, and the commands that come next."""
    out = console()
    for path in written or ("nothing: all was in place",):
        out.print(f"written: {visible(path)}", soft_wrap=True)
    out.print("next:")
    for line in following:
        out.print(f"  {visible(line)}", soft_wrap=True)


_STATES = {"absent": "new", "same": "is there already", "differs": "another one is there"}


def _facts(site: Site) -> Iterator[tuple[str, str]]:
    yield "file", site.source or "made up for the path"
    yield "driver", site.driver
    yield "path", site.path
    if site.file_system is not None:
        yield "lustre", site.file_system
    servers = site.servers
    if servers.names:
        from trimtab.config.nodes import fold_nodes

        for name, nodes in (("mds", servers.mds), ("oss", servers.oss)):
            yield name, fold_nodes(nodes) if nodes else "none"
        yield (
            "reached by",
            "this host itself" if servers.reach == "local" else " ".join(servers.ssh.command),
        )
    limits = site.limits
    yield (
        "limits",
        f"fullness {format_percent(limits.fullness)}, COV {format_percent(limits.cov)} over "
        f"{format_duration(limits.window_s)}",
    )
    yield "snapshots", site.snapshot_schedule or "before and after probes only"
    for probe in site.probes:
        size = format_bytes(probe.block_size_bytes)
        yield (
            f"probe {probe.name}",
            f"{probe.benchmark}, {probe.schedule or 'when asked'}, block size {size}, "
            f"{format_duration(probe.duration_s)} x {probe.repetitions}",
        )
    yield "store", site.store.url or "the default"
