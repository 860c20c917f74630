"""A site file and what reality says of it, as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from trimtab.cli.options import extent
from trimtab.cli.render.screen import Column, print_rows, print_screen, print_wrapped
from trimtab.cli.render.text import console, print_facts, site_argument
from trimtab.model.site import Checked, Site
from trimtab.units import enumerated, format_bytes, format_duration, format_percent, plural
from trimtab.visible import shell_text, visible

if TYPE_CHECKING:
    from rich.console import Console

    from trimtab.loop.initialise import Discovery
    from trimtab.loop.installing.install import InstalledFile


def print_site(site: Site, warnings: Sequence[str], checked: Sequence[Checked]) -> None:
    """Print a site as it was read, its warnings, and what was held against reality."""
    more = (
        () if checked else (f"trimtab site {site_argument(site.name)} --validate asks the system",)
    )
    print_screen(
        _site_answer(site, warnings, checked),
        partial(_print_site, site, warnings, checked),
        more=more,
    )


def _site_answer(site: Site, warnings: Sequence[str], checked: Sequence[Checked]) -> str:
    name = visible(site.name)
    warned = f", {plural(len(warnings), 'warning')}" if warnings else ""
    wrong = [visible(statement.what) for statement in checked if statement.ok is False]
    unknown = sum(statement.ok is None for statement in checked)
    rest = f", {unknown} not known" if unknown else ""
    if wrong:
        count = plural(len(checked), "statement")
        return f"{name}: {len(wrong)} of {count} wrong{rest}{warned}: {enumerated(wrong, 3)}."
    if checked:
        good = len(checked) - unknown
        return f"{name}: {good} of {plural(len(checked), 'statement')} hold{rest}{warned}."
    probes = plural(len(site.probes), "probe")
    return f"{name}: {site.driver} at {visible(site.path)}, {probes}{warned}."


def _print_site(
    site: Site, warnings: Sequence[str], checked: Sequence[Checked], out: Console
) -> None:
    for warning in warnings:
        print_wrapped(out, f"warning: {visible(warning)}", "yellow")
    order = (False, None, True)
    rows = [
        (
            visible(statement.what),
            "not known" if statement.ok is None else "yes" if statement.ok else "NO",
            visible(statement.detail),
        )
        for statement in sorted(checked, key=lambda statement: order.index(statement.ok))
    ]
    columns = (Column("statement", wraps=True), Column("holds"), Column("detail", wraps=True))
    print_rows(out, columns, rows)
    if not checked or extent().everything:
        print_facts(out, _facts(site))


def print_discovery(
    name: str, text: str, out: str | None, discovered: Sequence[str], not_found: Sequence[str]
) -> None:
    """Print a new site file, or where it was written with what was found."""
    page = console(to_error=out is None)
    if out is None:
        # To standard output as it is: `trimtab init PATH > site.toml` gives the same file.
        _print_found(page, discovered, not_found)
        print(text, end="")
        return
    print_screen(
        f"Site {visible(name)} written to {visible(out)}.",
        lambda page: _print_found(page, discovered, not_found),
        more=["Read it, then compare it with the live system:"],
        command=shell_text(["trimtab", "site", out, "--validate"]),
    )


def _print_found(page: Console, discovered: Sequence[str], not_found: Sequence[str]) -> None:
    for line in discovered:
        print_wrapped(page, f"found: {visible(line)}")
    for line in not_found:
        print_wrapped(page, f"not found: {visible(line)}", "yellow")


def print_installation(planned: Sequence[InstalledFile], discovery: Discovery) -> None:
    """Print which files are to be put in place, then every one whole."""
    page = console(to_error=True)
    states = Counter(_STATES[file.state.value] for file in planned)
    each = ", ".join(f"{count} {state}" for state, count in states.items())
    name = visible(discovery.site.name)
    print_wrapped(
        page, f"The watch of {name} needs {plural(len(planned), 'file')}: {each}.", "bold"
    )
    for file in planned:
        page.print(f"  {visible(file.path)} ({_STATES[file.state.value]})", soft_wrap=True)
    _print_found(page, discovery.facts, discovery.not_found)
    for file in planned:
        if file.state.value != "same":
            page.print(f"\n{visible(file.path)}", style="bold", soft_wrap=True)
            page.print(visible(file.text, keep="\n"), soft_wrap=True, highlight=False, markup=False)


def print_installed(name: str, written: Sequence[str], following: Sequence[str]) -> None:
    """Print what was put in place, and the commands that come next."""
    count = plural(len(written), "file")
    done = f"{count} written" if written else "every file was in place"

    def body(out: Console) -> None:
        for path in written:
            out.print(f"  {visible(path)}", soft_wrap=True)
        out.print("next:")
        for line in following:
            out.print(f"  {visible(line)}", soft_wrap=True)

    print_screen(f"Site {visible(name)}: {done}.", body)


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
