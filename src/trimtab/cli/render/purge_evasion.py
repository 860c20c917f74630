"""Signs that files are kept alive, as text: who, what, and what it may be instead."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from trimtab.cli.render.purge_tables import owner
from trimtab.cli.render.text import console, print_sentences, print_table, table, utc_moment
from trimtab.purge.signs import KINDS, MAY_BE, Signs, statement
from trimtab.units import format_bytes, plural
from trimtab.visible import shell_text, visible


def print_evasion(signs: Signs, directory: Path, *, top: int) -> None:
    """Print the ``top`` signs, what they may be, and what was not looked for."""
    out = console()
    root = visible(signs.manifest.root.decode("utf-8", "surrogateescape"))
    as_of = _moment(signs.manifest.as_of_s)
    count = plural(len(signs.found), "sign") if signs.found else "no sign"
    out.print(f"{root}, as of {as_of}: {count} that files are kept alive unused", style="bold")
    if signs.found and top:
        made = table("", "owner", "files>", "hold>", "from", "to")
        for one in signs.found[:top]:
            made.add_row(
                one.kind,
                owner(one.uid),
                f"{one.files:,}",
                format_bytes(one.allocated_bytes),
                _moment(one.first_s),
                _moment(one.last_s),
            )
        print_table(out, made)
        if len(signs.found) > top:
            print_sentences(out, [f"... and {len(signs.found) - top:,} more"], "dim")
    print_sentences(out, _meanings(signs))
    over = (f"not looked for: {kind}: {why}" for kind, why in signs.passed_over.items())
    print_sentences(out, over, "dim")
    print_sentences(out, signs.notes, "yellow")
    if signs.found:
        argv = ["trimtab", "purge", "query", "--index", str(directory), statement(signs.found[0])]
        out.print(f"\n  the files of the first: {shell_text(argv)}", style="dim", soft_wrap=True)


def _meanings(signs: Signs) -> Iterator[str]:
    there = {one.kind for one in signs.found}
    for kind in KINDS:
        if kind in there:
            example = next(one for one in signs.found if one.kind == kind)
            yield f"{kind}, of {owner(example.uid)}: {example.words}. It may be {MAY_BE[kind]}"
    if there:
        yield "None of this is proof, and no plan or run goes by it: ask the owner."


def _moment(at_s: int) -> str:
    try:
        return utc_moment(datetime.fromtimestamp(at_s, UTC))
    except (ValueError, OverflowError, OSError):
        return "beyond all dates"
