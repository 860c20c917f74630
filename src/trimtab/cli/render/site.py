"""A site file as it is read, and how it compares with the live system."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trimtab.cli import options
from trimtab.model.site import Checked, Site
from trimtab.report import kit
from trimtab.report.sections import Document, Section
from trimtab.units import enumerated, format_bytes, format_duration, format_percent, plural


def site_document(site: Site, warnings: Sequence[str], checked: Sequence[Checked]) -> Document:
    """Return a site as read, its warnings, and the comparison with the live system."""
    order = (False, None, True)
    rows = (
        kit.row(
            statement.what,
            "not known" if statement.ok is None else "yes" if statement.ok else "NO",
            statement.detail,
        )
        for statement in sorted(checked, key=lambda statement: order.index(statement.ok))
    )
    ask = f"trimtab site {options.site_argument(site.name)} --validate checks the live system"
    return Document(
        _answer(site, warnings, checked),
        (
            Section(lines=tuple(f"warning: {warning}" for warning in warnings), tone="warning"),
            Section(tables=(kit.table(("statement", "holds", "detail"), rows, first=kit.ALL),)),
            Section(
                "What the site file says" if checked else "",
                tables=(kit.facts(_facts(site)),),
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
