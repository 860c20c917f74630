"""A purge index as its commands show it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from trimtab.cli.render.document import show_page
from trimtab.loop import documents
from trimtab.purge.index.manifest import Manifest, Sizes, SizesMode, TimeTrust
from trimtab.report.kit import facts
from trimtab.report.sections import Document, Section
from trimtab.report.text import sentences, utc_moment
from trimtab.units import format_bytes, format_duration, plural
from trimtab.visible import shell_text

_SHOWN = 10
_NS = 10**9
_TIMES = {
    TimeTrust.EXACT_NS: "as stat says",
    TimeTrust.SECONDS: "as stat says, in whole seconds",
    TimeTrust.MDS_ONLY: "the metadata server's; files may be younger, never older",
}


def show_index(manifest: Manifest, directory: Path) -> None:
    """Print a new index, as JSON or text."""
    show_page(
        lambda: documents.purged.IndexDocument(str(directory), manifest),
        lambda: index_document(manifest, directory),
    )


def index_document(manifest: Manifest, directory: Path) -> Document:
    """Return the page of an index, with why no file may be deleted by it, if so."""
    obstacles = manifest.obstacles
    argv = ["trimtab", "purge", "horizon", "--index", str(directory), "--target", "70%"]
    return Document(
        f"index of {_shown(manifest.root)}: {plural(manifest.rows, 'name', ',')}",
        (
            Section(tables=(facts(_facts(manifest, directory)),)),
            Section(lines=sentences(_gaps(manifest)), tone="warning"),
            Section(lines=sentences(manifest.notes)),
            Section(
                "a plan made from it cannot be carried out",
                lines=sentences(obstacles),
                tone="warning",
            ),
        ),
        more=() if obstacles else ("next:",),
        command="" if obstacles else shell_text(argv),
    )


def _gaps(manifest: Manifest) -> Iterator[str]:
    for subtree in manifest.unread[:_SHOWN]:
        yield f"not read: {_shown(subtree.path) or '.'}: {subtree.reason}"
    if len(manifest.unread) > _SHOWN:
        yield f"... and {len(manifest.unread) - _SHOWN} more"
    for refused in manifest.refused_examples[:_SHOWN]:
        where = "" if refused.record is None else f" {refused.record}"
        yield f"refused record{where}: {refused.reason}: {refused.text}"


def _facts(manifest: Manifest, directory: Path) -> Iterator[tuple[str, str]]:
    yield "stored in", str(directory)
    yield "id", manifest.index_id
    yield "made by", manifest.tool
    system = manifest.filesystem
    if system is not None:
        yield "file system", f"{system.kind} {system.name or ''}".strip()
    yield "taken", _taken(manifest)
    if manifest.followed is not None:
        marks = (f"{mdt.mdt} to record {mdt.mark:,}" for mdt in manifest.followed.mdts)
        yield "followed", ", ".join(marks)
    if (scan := manifest.incremental) is not None:
        yield (
            "incremental",
            f"{plural(scan.carried, 'name', ',')} carried over, directories not read: "
            f"{scan.unchanged:,}; the last full scan began "
            f"{utc_moment(datetime.fromtimestamp(scan.read_since_ns // _NS, UTC))}",
        )
    yield "times", _TIMES[manifest.times]
    if manifest.sizes is not None:
        yield "sizes", _sizes(manifest.sizes)
    shards = plural(len(manifest.shards), "shard")
    yield "size", f"{format_bytes(manifest.size_bytes)} in {shards}"
    if manifest.lacking:
        yield "lacking", ", ".join(sorted(lack.value for lack in manifest.lacking))
    if manifest.refused:
        yield "refused", plural(manifest.refused, "record", ",")
    if manifest.vanished:
        yield "vanished", f"{plural(manifest.vanished, 'name', ',')} disappeared during the scan"


def _sizes(sizes: Sizes) -> str:
    """Return how sizes were determined, and the cost of a sample per file."""
    if sizes.mode is not SizesMode.SAMPLED:
        return {
            SizesMode.LAZY: "as the MDS has them: they can be far too small",
            SizesMode.EXACT: "exact",
        }[sizes.mode]
    files_drawn = sizes.looked_at + sizes.unknown
    each = f", {format_duration(sizes.elapsed_s / files_drawn)} each" if files_drawn else ""
    unknown = f"; {sizes.unknown:,} unknown" if sizes.unknown else ""
    return f"corrected by a sample of {plural(sizes.looked_at, 'file', ',')}{each}{unknown}"


def _taken(manifest: Manifest) -> str:
    ended = utc_moment(datetime.fromtimestamp(manifest.as_of_s, UTC))
    if manifest.started_ns is None:
        return f"until {ended}"
    if manifest.followed is not None:
        scanned = utc_moment(datetime.fromtimestamp(manifest.started_ns // _NS, UTC))
        return f"until {ended}; scanned from {scanned} on"
    took_s = (manifest.ended_ns - manifest.started_ns) / _NS
    rate = f", {manifest.rows / took_s:,.0f} names/s" if took_s > 0.05 else ""
    return f"until {ended}, in {format_duration(took_s)}{rate}"


def _shown(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")
