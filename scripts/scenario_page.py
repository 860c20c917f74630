"""Write the tables of docs/scenarios.md from the schema of scenarios and the known drives.

What stands between ``<!-- made: TABLE -->`` and ``<!-- end -->`` is made; without arguments the
page is written, with ``--check`` it is only compared.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from trimtab.base.toml_kind import OPERATIONS, RATE, SIZE
from trimtab.base.toml_schema import Entry, Group, SchemaTable
from trimtab.twin.scenario_file import load_scenario, preset_names
from trimtab.twin.scenario_key import PRESETS, file_schema

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from scripts.page_blocks import remade, text_of, write_or_check  # noqa: E402

PAGE = ROOT / "docs" / "scenarios.md"


def main(arguments: list[str]) -> int:
    """Write the page, or return 1 if it is not what it would be."""
    blocks = {
        f"made: {name}": text_of(lines)
        for name, lines in {**dict(_tables()), "drives": _drives(), "presets": _presets()}.items()
    }
    return write_or_check({PAGE: remade(PAGE.read_text(), blocks)}, arguments)


def _tables() -> Iterator[tuple[str, Iterator[str]]]:
    schema = file_schema()
    for table in schema.every_table():
        if table.location:
            yield ".".join(table.location), _keys(table)
        for entry in table.entries.values():
            if isinstance(entry, Group):
                yield ".".join(entry.location), _keys(entry.item.root)


def _keys(table: SchemaTable) -> Iterator[str]:
    yield "| key | value | default | changes | |"
    yield "|---|---|---|---|---|"
    if table.like is not None:
        yield _row(table.like, _value(table.like), "none")
    for name, entry in table.entries.items():
        if isinstance(entry, Entry):
            yield _row(entry, _value(entry), _default(entry))
        elif isinstance(entry, Group):
            default = "50 % 2 d, 30 % 30 d, 20 % until purged"
            yield f"| `{name}` | list of tables, below | {default} |  | {entry.comment} |"
        elif entry.like is not None:
            value = f"name of a drive: `{entry.like.kind.example}`; or a table, below"
            yield f"| `{name}` | {value} | **required** |  | {entry.comment} |"


def _row(entry: Entry, value: str, default: str) -> str:
    changes = "yes" if entry.changes else ""
    return f"| `{entry.name}` | {value} | {default} | {changes} | {entry.comment} |"


def _value(entry: Entry) -> str:
    kind = entry.kind
    word = "" if kind.absent is None else f', or `"{kind.absent}"`'
    example = kind.example.replace(" or ", "` or `")
    return f"{kind.noun}: `{example}`{word}" if "one of" not in kind.noun else kind.noun


def _default(entry: Entry) -> str:
    if entry.is_required:
        return "**required**"
    if entry.default in ((), "") or (entry.default is None and entry.kind.absent is None):
        return "none"
    return f"`{entry.kind.write(entry.default)}`"


def _drives() -> Iterator[str]:
    yield "| name | capacity | read | write | 4 KiB reads | 4 KiB writes | spare | DWPD | from |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for name, preset in PRESETS.items():
        drive = preset.model
        cells = [
            f"`{name}`",
            str(SIZE.write(drive.capacity_bytes)).strip('"'),
            str(RATE.write(drive.read_bytes_per_s)).strip('"'),
            str(RATE.write(drive.write_bytes_per_s)).strip('"'),
            str(OPERATIONS.write(round(drive.read_iops, -3))).strip('"'),
            str(OPERATIONS.write(round(drive.write_iops, -3))).strip('"'),
            f"{drive.spare:g}",
            f"{drive.drive_writes_per_day:g}",
            "; ".join(preset.sources),
        ]
        yield f"| {' | '.join(cells)} |"


def _presets() -> Iterator[str]:
    yield "| name | |"
    yield "|---|---|"
    for name in preset_names():
        yield f"| `{name}` | {load_scenario(name).title} |"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
