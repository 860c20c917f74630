"""An index and a policy as text."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from trimtab.cli.render.text import console, print_facts, print_sentences, utc_moment
from trimtab.purge.index.manifest import Manifest, Sizes, SizesMode, TimeTrust
from trimtab.purge.policy_file import LoadedPolicy
from trimtab.units import format_bytes, format_duration, plural
from trimtab.visible import shell_text, visible

_SHOWN = 10
_NS = 10**9
_TIMES = {
    TimeTrust.EXACT_NS: "as stat says",
    TimeTrust.SECONDS: "as stat says, in whole seconds",
    TimeTrust.MDS_ONLY: "the metadata server's; files may be younger, never older",
}


def print_index(manifest: Manifest, directory: Path) -> None:
    """Print what an index is, and why nothing may be deleted by it, where that is so."""
    out = console()
    names = plural(manifest.rows, "name", ",")
    out.print(f"index of {_shown(manifest.root)}: {names}", style="bold")
    print_facts(out, _facts(manifest, directory))
    for subtree in manifest.unread[:_SHOWN]:
        print_sentences(
            out, [f"not read: {_shown(subtree.path) or '.'}: {subtree.reason}"], "yellow"
        )
    if len(manifest.unread) > _SHOWN:
        print_sentences(out, [f"... and {len(manifest.unread) - _SHOWN} more"], "yellow")
    for refused_example in manifest.refused_examples[:_SHOWN]:
        where = "" if refused_example.record is None else f" {refused_example.record}"
        print_sentences(
            out,
            [f"refused record{where}: {refused_example.reason}: {refused_example.text}"],
            "yellow",
        )
    print_sentences(out, manifest.notes, "dim")
    if manifest.obstacles:
        out.print("\nno plan can be carried out that is made from it", style="bold yellow")
        print_sentences(out, manifest.obstacles)
    else:
        out.print(
            f"\nnext: trimtab purge horizon --index {shell_text([str(directory)])} --target 70%",
            style="dim",
            soft_wrap=True,
        )


def print_policy(loaded: LoadedPolicy, file: Path, *, written: bool) -> None:
    """Print that a policy was written, or read and found good."""
    out = console()
    policy, shown = loaded.policy, visible(str(file))
    done = "written to" if written else "is good:"
    out.print(f"policy {policy.name} of {visible(policy.root)} {done} {shown}", soft_wrap=True)
    print_sentences(out, loaded.warnings, "yellow")


def _facts(manifest: Manifest, directory: Path) -> Iterator[tuple[str, str]]:
    yield "stored in", visible(str(directory))
    yield "id", manifest.index_id
    yield "made by", visible(manifest.tool)
    system = manifest.filesystem
    if system is not None:
        yield "file system", visible(f"{system.kind} {system.name or ''}".strip())
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
        yield "vanished", f"{plural(manifest.vanished, 'name', ',')} went while it was read"


def _sizes(sizes: Sizes) -> str:
    """Return how sizes were learned, and what a sample cost a file."""
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
    return visible(path.decode("utf-8", "surrogateescape"))
