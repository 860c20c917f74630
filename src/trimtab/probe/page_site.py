"""Pages of a site file: as read, compared with the live system, newly written, and installed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from trimtab.base.site import Checked, Site
from trimtab.base.units import enumerated, format_bytes, format_duration, format_percent, plural
from trimtab.base.visible import shell_text
from trimtab.show import command_options, document
from trimtab.show.document import Document, Section
from trimtab.show.screen_document import console, print_section

if TYPE_CHECKING:
    from trimtab.probe.site_draft import Discovery
    from trimtab.watch.install import InstalledFile


def site_document(site: Site, warnings: Sequence[str], checked: Sequence[Checked]) -> Document:
    """Return a site as read, its warnings, and the comparison with the live system."""
    order = (False, None, True)
    rows = (
        document.row(
            statement.what,
            "not known" if statement.ok is None else "yes" if statement.ok else "NO",
            statement.detail,
        )
        for statement in sorted(checked, key=lambda statement: order.index(statement.ok))
    )
    ask = (
        f"trimtab site {command_options.site_argument(site.name)} --validate checks the live system"
    )
    return Document(
        _answer(site, warnings, checked),
        (
            Section(lines=tuple(f"warning: {warning}" for warning in warnings), tone="warning"),
            Section(
                tables=(document.table(("statement", "holds", "detail"), rows, first=document.ALL),)
            ),
            Section(
                "What the site file says" if checked else "",
                tables=(document.facts(_facts(site)),),
                folded=bool(checked),
            ),
        ),
        more=() if checked else (ask,),
    )


def _answer(site: Site, warnings: Sequence[str], checked: Sequence[Checked]) -> str:
    warned = f", {plural(len(warnings), 'warning')}" if warnings else ""
    wrong = [statement.what for statement in checked if statement.ok is False]
    unknown = sum(statement.ok is None for statement in checked)
    rest = f", {unknown} not known" if unknown else ""
    if wrong:
        count = plural(len(checked), "statement")
        return f"{site.name}: {len(wrong)} of {count} wrong{rest}{warned}: {enumerated(wrong, 3)}."
    if checked:
        good = len(checked) - unknown
        return f"{site.name}: {good} of {plural(len(checked), 'statement')} hold{rest}{warned}."
    probes = plural(len(site.probes), "probe")
    return f"{site.name}: {site.driver} at {site.path}, {probes}{warned}."


def _facts(site: Site) -> Iterator[tuple[str, str]]:
    yield "file", site.source or "made up for the path"
    yield "driver", site.driver
    yield "path", site.path
    if site.file_system is not None:
        yield "lustre", site.file_system
    servers = site.servers
    if servers.names:
        from trimtab.base.name_set import fold_nodes

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


def print_file(discovery: Discovery, text: str) -> None:
    """Print a site file on standard output, and what was found on standard error."""
    print_aside(*found_sections(discovery))
    print(text, end="")


def print_aside(*sections: Section) -> None:
    """Print sections on standard error."""
    page = console(to_error=True)
    for section in sections:
        print_section(page, section)


def found_sections(discovery: Discovery) -> tuple[Section, Section]:
    """Return what was found of a file system, and what was not."""
    return (
        Section(lines=tuple(f"found: {line}" for line in discovery.facts)),
        Section(lines=tuple(f"not found: {line}" for line in discovery.not_found), tone="warning"),
    )


def written_document(out: str, name: str, sections: tuple[Section, ...]) -> Document:
    """Return the page of a new site file, with how to check it."""
    return Document(
        f"Site {name} written to {out}.",
        sections,
        more=("Read it, then compare it with the live system:",),
        command=shell_text(["trimtab", "site", out, "--validate"]),
    )


_STATES = {"absent": "new", "same": "already there", "differs": "differs from the existing one"}


def planned_sections(discovery: Discovery, planned: Sequence[InstalledFile]) -> Iterator[Section]:
    """Yield which files to install, then each in full."""
    states = [_STATES[file.state.value] for file in planned]
    each = ", ".join(f"{count} {state}" for state, count in Counter(states).items())
    paths = (f"{file.path} ({state})" for file, state in zip(planned, states, strict=True))
    yield Section(
        f"The watch of {discovery.site.name} needs {plural(len(planned), 'file')}: {each}.",
        tuple(paths),
    )
    yield from found_sections(discovery)
    for file in planned:
        if file.state.value != "same":
            yield Section(file.path, commands=tuple(file.text.splitlines()))


def installed_document(name: str, written: Sequence[str], following: Sequence[str]) -> Document:
    """Return the installed files and the commands that come next."""
    done = f"{plural(len(written), 'file')} written" if written else "every file was already there"
    sections = Section(lines=tuple(written)), Section("next:", commands=tuple(following))
    return Document(f"Site {name}: {done}.", sections)
