"""The answer to a question as a table."""

from __future__ import annotations

from datetime import date, datetime
from typing import TYPE_CHECKING

from trimtab.cli.render.text import console, print_sentences, print_table, table
from trimtab.units import format_bytes, format_percent
from trimtab.visible import visible

if TYPE_CHECKING:
    from trimtab.purge.index.query import Answer


def print_answer(found: Answer) -> None:
    """Print an answer; bytes and shares of known columns in people's units."""
    out = console()
    frame = found.frame
    numbers = {name for name, kind in frame.schema.items() if kind.is_numeric()}
    made = table(
        *(f"{visible(name)}>" if name in numbers else visible(name) for name in frame.columns)
    )
    for row in frame.iter_rows(named=True):
        made.add_row(*(_shown(name, value) for name, value in row.items()))
    print_table(out, made)
    if not frame.height:
        print_sentences(out, ["nothing fits"], "dim")
    if found.cut_off:
        print_sentences(out, [f"only the first {frame.height:,} rows are shown"], "yellow")
    print_sentences(out, found.notes, "yellow")


def _shown(name: str, value: object) -> str:
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
        return ", ".join(str(one) for one in value)
    return visible(str(value))
