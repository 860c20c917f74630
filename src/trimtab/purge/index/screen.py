"""An index, and the answer to a query, as their commands show them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trimtab.base.units import format_bytes, format_duration, format_percent, plural
from trimtab.base.visible import shell_text
from trimtab.purge.index.manifest import IndexDocument, Manifest, Sizes, SizesMode, TimeTrust
from trimtab.show.document import Document, Section, facts, row, table
from trimtab.show.screen_document import show_page
from trimtab.show.text import sentences, utc_moment

if TYPE_CHECKING:
    from trimtab.purge.index.index_query import QueryAnswer

_SHOWN: Final = 10
_ROWS: Final = 30
"""Rows of an answer that are printed unless ``--all`` or ``--top`` is given."""
_NS: Final = 10**9
_TIMES: Final = {
    TimeTrust.EXACT_NS: "as stat says",
    TimeTrust.SECONDS: "as stat says, in whole seconds",
    TimeTrust.MDS_ONLY: "the metadata server's; files may be younger, never older",
}


def show_index(manifest: Manifest, directory: Path) -> None:
    """Print a new index, as JSON or text."""
    show_page(
        lambda: IndexDocument(str(directory), manifest),
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


def answer_document(answer: QueryAnswer) -> Document:
    """Return an answer; bytes and shares of known columns in readable units."""
    frame = answer.frame
    columns = [
        # A name may itself end in one of the marks of `trimtab.show.document.Table.columns`.
        f"{name}{' ' * name.endswith(('>', '?'))}{'>' * kind.is_numeric()}"
        for name, kind in frame.schema.items()
    ]
    rows = (
        row(*(_value_text(name, value) for name, value in named.items()))
        for named in frame.iter_rows(named=True)
    )
    return Document(
        _answer_text(answer),
        (
            Section(tables=(table(columns, rows, first=_ROWS),)),
            Section(lines=sentences(answer.notes), tone="warning"),
        ),
    )


def _answer_text(answer: QueryAnswer) -> str:
    frame = answer.frame
    if not frame.height:
        return "No row matches."
    count = plural(frame.height, "row", ",")
    if answer.cut_off:
        count = f"the first {count}, there are more"
    if "share" not in frame.columns:
        return f"{count[:1].upper()}{count[1:]}."
    largest = max(frame.iter_rows(named=True), key=lambda row: row["share"] or 0.0)
    name, value = next(iter(largest.items()))
    held = format_bytes(largest.get("allocated_bytes") or 0)
    share = format_percent(largest["share"] or 0.0)
    return f"{name} {_value_text(name, value)} holds {held}, {share} of all; {count}."


def _value_text(name: str, value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)) and name.endswith("_bytes"):
        return format_bytes(value)
    if isinstance(value, float):
        return format_percent(value) if name == "share" else f"{value:,.1f}"
    if isinstance(value, int):
        return f"{value:,}" if name not in ("uid", "gid", "project") else str(value)
    if isinstance(value, (datetime, date)):
        return value.isoformat(sep=" ") if isinstance(value, datetime) else value.isoformat()
    if isinstance(value, list):
        return ", ".join(str(cell) for cell in value)
    return str(value)
