"""Write the tables of docs/scenarios.md from the schema of scenarios and the known drives.

What stands between ``<!-- made: TABLE -->`` and ``<!-- end -->`` is made; without arguments the
page is written, with ``--check`` it is only compared.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import MISSING
from pathlib import Path

from trimtab.twin.scenario import schema
from trimtab.twin.scenario.drives import PRESETS
from trimtab.twin.scenario.keys import DRIVE, known_keys
from trimtab.twin.scenario.kinds import OPERATIONS, RATE, SIZE
from trimtab.twin.scenario.load import load_scenario, preset_names

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from scripts.page_blocks import remade, text_of, write_or_check  # noqa: E402

PAGE = ROOT / "docs" / "scenarios.md"
TABLES = {
    "scenario": schema.ScenarioTable,
    "resolution": schema.ResolutionTable,
    "osts": schema.OstsTable,
    "osts.drive": schema.DriveTable,
    "osts.raid": schema.RaidTable,
    "mdts": schema.MdtsTable,
    "server": schema.ServerTable,
    "clients": schema.ClientsTable,
    "allocator": schema.AllocatorTable,
    "queue": schema.QueueTable,
    "trim": schema.TrimTable,
    "placement": schema.PlacementTable,
    "users": schema.UsersTable,
    "users.lifetimes": schema.LifetimeTable,
    "purge": schema.PurgeTable,
    "gating": schema.GatingTable,
    "probe": schema.ProbeTable,
    "change": schema.ChangeTable,
    "fault": schema.FaultTable,
}


def main(arguments: list[str]) -> int:
    """Write the page, or return 1 if it is not what it would be."""
    tables = {name: _keys(name, table) for name, table in TABLES.items()}
    tables |= {"drives": _drives(), "presets": _presets()}
    blocks = {f"made: {name}": text_of(lines) for name, lines in tables.items()}
    return write_or_check({PAGE: remade(PAGE.read_text(), blocks)}, arguments)


def _keys(name: str, table: type[schema.Table]) -> Iterator[str]:
    yield "| key | value | default | changes | |"
    yield "|---|---|---|---|---|"
    for key, field in table.model_fields.items():
        if schema.subtable(table, key) is not None and key != "drive":
            continue
        known = known_keys().get(f"{name}.{key}")
        changes = "yes" if known is not None and known.changes else ""
        value, default = _value(table, key), _default(table, key)
        yield f"| `{key}` | {value} | {default} | {changes} | {field.description} |"


def _value(table: type[schema.Table], key: str) -> str:
    if key == "drive":
        return f"name of a drive: `{DRIVE.example}`; or a table, below"
    kind = schema.kind_of(table, key)
    if kind is None:
        return {
            "inherit": 'list of `"probes"`, `"changes"`, `"faults"`',
            "lifetimes": "list of tables, below",
            "set": "table of dotted keys",
        }[key]
    word = "" if kind.absent is None else f', or `"{kind.absent}"`'
    shown = kind.example.replace(" or ", "` or `")
    return f"{kind.noun}: `{shown}`{word}" if "one of" not in kind.noun else kind.noun


def _default(table: type[schema.Table], key: str) -> str:
    value = schema.default(table, key)
    if key in ("like", "extends", "inherit"):
        return "none"
    if value is MISSING:
        return "**required**"
    if key == "lifetimes":
        return "50 % 2 d, 30 % 30 d, 20 % until purged"
    kind = schema.kind_of(table, key)
    if kind is None or value in ((), "") or (value is None and kind.absent is None):
        return "none"
    return f"`{kind.write(value)}`"


def _drives() -> Iterator[str]:
    yield "| name | capacity | read | write | 4 KiB reads | 4 KiB writes | spare | DWPD | from |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for name, preset in PRESETS.items():
        drive = preset.model
        cells = [
            f"`{name}`",
            SIZE.write(drive.capacity_bytes).strip('"'),
            RATE.write(drive.read_bytes_per_s).strip('"'),
            RATE.write(drive.write_bytes_per_s).strip('"'),
            OPERATIONS.write(round(drive.read_iops, -3)).strip('"'),
            OPERATIONS.write(round(drive.write_iops, -3)).strip('"'),
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
