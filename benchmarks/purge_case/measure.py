"""A purge of 36 PB walked as a site would walk it, over an index of files that do not exist.

`make purge-case` runs it and writes its figures into ``benchmarks/reports/purge-case.md``. It needs
root, some 120 bytes of disk for each name, and for 10^8 names half an hour.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.measured import measured_on  # noqa: E402 (the tree is on the path now)
from benchmarks.purge_case import case, index, places, small, walk  # noqa: E402

RESULT = ROOT / "benchmarks" / "results" / "purge_case.json"


def main() -> None:
    """Walk through the case and write what came out, after each part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000_000, help="Of the index.")
    parser.add_argument("--mix-rows", type=int, default=10_000_000, help="Of each other mix.")
    parser.add_argument("--dir", type=Path, default=Path("/var/tmp"), help="Where there is room.")
    parser.add_argument("--result", type=Path, default=RESULT)
    parser.add_argument("--only", choices=("case", "mixes", "small"), help="The rest stays.")
    asked = parser.parse_args()
    places.enter_own_namespace()
    work = Path(tempfile.mkdtemp(dir=asked.dir, prefix="purge-case-"))
    try:
        places.mount(work)
        for name, part in parts(asked.only, asked.rows, asked.mix_rows):
            write(asked.result, name, part)
    finally:
        places.unmount()
        shutil.rmtree(work, ignore_errors=True)


def parts(only: str | None, rows: int, mix_rows: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the parts of the result, each when it is there."""
    if only in (None, "small"):
        yield "small", measured_on() | small.small()
    if only == "small":
        return
    program, told = index.build(), places.Places()
    told.prepare()
    growth = index.keep_growth(told)
    if only in (None, "mixes"):
        found = walk.mixes(told, program, mix_rows)
        yield "mixes", measured_on() | {"rows": mix_rows, "mixes": found}
    if only in (None, "case"):
        begun = measured_on() | assumed() | {"growth": growth}
        for found in large(told, program, rows):
            yield "case", begun | found


def large(told: places.Places, program: Path, rows: int) -> Iterator[dict[str, Any]]:
    """Yield the walk over the large index, a step longer each time."""
    found: dict[str, Any] = {"mix": asdict(case.MIXES[0])}
    found["index"] = index.make_index(program, told, told.index, rows, case.MIXES[0])
    for name, step in (
        ("horizons", walk.horizons),
        ("holdings", walk.holdings),
        ("plan", walk.plan),
        ("notices", walk.notices),
    ):
        if name == "notices":
            shutil.rmtree(told.index)  # the lists are longer than the index, and need its room
        say(name)
        found[name] = step(told)
        yield found


def assumed() -> dict[str, Any]:
    """Return the figures that the case begins with."""
    return {
        "capacity_bytes": case.CAPACITY_BYTES,
        "used_bytes": case.USED_BYTES,
        "users": case.USERS,
        "even_users": case.EVEN_USERS,
    }


def say(what: str) -> None:
    """Say how far it is."""
    print(what, file=sys.stderr, flush=True)


def write(path: Path, name: str, part: dict[str, Any]) -> None:
    """Replace one part of the result."""
    result = json.loads(path.read_text()) if path.exists() else {}
    result["what"] = "a purge of 36 PB over a synthetic index; times of whole processes, once each"
    result[name] = part
    path.write_text(json.dumps(result, indent=1) + "\n")
    say(name)


if __name__ == "__main__":
    main()
