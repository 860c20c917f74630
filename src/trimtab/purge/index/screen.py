"""Output of commands on an index: itself, the answer to a query, and progress of long work."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trimtab.base.error import shell_text
from trimtab.base.text import sentences, utc_moment
from trimtab.base.units import format_bytes, format_duration, format_percent, plural
from trimtab.purge.index.manifest import IndexDocument, Manifest, Sizes, SizesMode, TimeTrust
from trimtab.show.document import Document, Section, facts, row, table
from trimtab.show.screen_document import Show, show_page

if TYPE_CHECKING:
    from trimtab._core import ScanProgress
    from trimtab.purge.index.index_query import QueryAnswer
    from trimtab.purge.index.scan import Progress as ScanShown
    from trimtab.purge.index.scan_workers import SpreadProgress
    from trimtab.purge.run.situation import RunProgress


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


STILL_S = 10.0
"""A count that has not changed for this long is reported: the file system may hang."""


@contextmanager
def watched(show: Show, *, every_s: float = 1.0) -> Iterator[Show]:
    """Yield a display that repeats the last text with the time since it came.

    The caller may be blocked in a file system call that does not return.
    """
    lock, over = threading.Lock(), threading.Event()
    last: list[tuple[str, float | None, float]] = []

    def shown(text: str, part: float | None) -> None:
        with lock:
            last[:] = [(text, part, time.monotonic())]
            show(text, part)

    def watch() -> None:
        while not over.wait(every_s):
            with lock:
                for text, part, since_s in last:
                    still_s = time.monotonic() - since_s
                    if still_s < STILL_S:
                        continue
                    with suppress(OSError):  # nothing reads it; the next caller gets the error
                        show(f"{text}, nothing for {still_s:.0f} s", part)

    watcher = threading.Thread(target=watch, name="progress", daemon=True)
    watcher.start()
    try:
        yield shown
    finally:
        over.set()
        watcher.join()


def scan_progress(show: Show, total: int, *, whole: bool) -> ScanShown:
    """Return a display for a scan: names, rate, and remaining time.

    Parameters
    ----------
    total
        Inodes in use; 0: unknown.
    whole
        Whether all of them are scanned; otherwise the estimate is an upper bound.
    """
    state, stillness = _Rate(), _Stillness()

    def shown(now: ScanProgress | SpreadProgress) -> None:
        rate = state.of(now.entries, now.elapsed_s)
        words = [plural(now.entries, "name", ",")]
        still_s = stillness.of(now.entries, now.elapsed_s)
        if still_s >= STILL_S:
            words.append(f"nothing for {still_s:.0f} s")
            rate = 0.0  # the earlier rate says nothing about the remaining time
        if rate > 0:
            words.append(f"{rate:,.0f}/s")
        words.append(f"{now.pending:,} directories waiting")
        if now.unread:
            words.append(f"{now.unread:,} not read")
        part = None
        if total and rate > 0:
            left_s = max(0.0, (total - now.entries) / rate)
            words.append(f"{'about' if whole else 'at most'} {format_duration(left_s)} left")
            part = min(1.0, now.entries / total) if whole else None
        show(", ".join(words), part)

    return shown


def import_progress(show: Show) -> Callable[[int], None]:
    """Return a display for an import: rows and rate. The total is unknown before the end."""
    start = time.monotonic()

    def shown(rows: int) -> None:
        elapsed = max(time.monotonic() - start, 1e-9)
        show(f"{plural(rows, 'row', ',')}, {rows / elapsed:,.0f}/s", None)

    return shown


def run_progress(show: Show) -> Callable[[RunProgress], None]:
    """Return a display for a run: files, bytes, and distance to the target or the plan's end."""
    state = _Rate()

    def shown(now: RunProgress) -> None:
        done = now.rows - now.rows_left
        rate = state.of(done, time.monotonic())
        words = [now.doing, plural(now.files, "file", ","), format_bytes(now.freed_bytes)]
        part = done / now.rows if now.rows else 1.0
        if rate > 0:
            words.append(f"{rate:,.0f} rows/s")
        if now.latency_s_p99 is not None:
            words.append(f"99 % within {format_duration(now.latency_s_p99)}")
        if now.needed_bytes is not None:
            words.append(f"{format_bytes(now.needed_bytes)} to the target")
            whole = now.freed_bytes + now.needed_bytes
            part = max(part, now.freed_bytes / whole if whole else 1.0)
        elif rate > 0:
            words.append(f"at most {format_duration(now.rows_left / rate)} left")
        show(", ".join(words), part)

    return shown


class _Rate:
    """Rate per second since the first call, excluding what was done before it."""

    def __init__(self) -> None:
        self._first: tuple[int, float] | None = None

    def of(self, entries: int, elapsed_s: float) -> float:
        if self._first is None:
            self._first = (entries, elapsed_s)
        before, since_s = self._first
        if elapsed_s - since_s < 0.1:
            return 0.0
        return (entries - before) / (elapsed_s - since_s)


class _Stillness:
    """How long a count has been unchanged, in seconds."""

    def __init__(self) -> None:
        self._last: tuple[int, float] | None = None

    def of(self, entries: int, elapsed_s: float) -> float:
        if self._last is None or self._last[0] != entries:
            self._last = (entries, elapsed_s)
        return elapsed_s - self._last[1]
