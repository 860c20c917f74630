"""Goldens as files, and what differs between two of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

Goldens = Mapping[str, Any]
"""Name, with a folder before it, to a value of JSON."""
_LINE = 140


def read(directory: Path) -> Goldens:
    """Return the goldens of a directory."""
    paths = sorted(directory.rglob("*.json"))
    return {
        path.relative_to(directory).with_suffix("").as_posix(): json.loads(path.read_text())
        for path in paths
    }


def write(directory: Path, goldens: Goldens) -> None:
    """Write goldens, and remove those that are no more."""
    for path in directory.rglob("*.json"):
        if path.relative_to(directory).with_suffix("").as_posix() not in goldens:
            path.unlink()
    for name, value in goldens.items():
        path = directory / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(_lines(value)) + "\n")


def _lines(value: Any, indent: str = "", key: str = "", comma: str = "") -> Iterator[str]:
    """Yield a value as JSON, what is short on one line: what changed is a line of a diff."""
    written = f"{indent}{key}{json.dumps(value)}{comma}"
    if len(written) <= _LINE or not value or not isinstance(value, (dict, list)):
        yield written
        return
    parts = list(value.items()) if isinstance(value, dict) else [(None, part) for part in value]
    brackets = "{}" if isinstance(value, dict) else "[]"
    yield f"{indent}{key}{brackets[0]}"
    for at, (name, part) in enumerate(parts):
        named = "" if name is None else f"{json.dumps(name)}: "
        yield from _lines(part, f"{indent} ", named, "," if at + 1 < len(parts) else "")
    yield f"{indent}{brackets[1]}{comma}"


def differences(before: Goldens, after: Goldens) -> list[str]:
    """Return a line for each difference: golden, path, before, after."""
    return [
        f"{name} {path}: {_shown(old)} -> {_shown(new)}"
        for name in sorted({*before, *after})
        for path, old, new in _differing("$", before.get(name, ABSENT), after.get(name, ABSENT))
    ]


ABSENT = object()


def _differing(path: str, old: Any, new: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys([*old, *new]):
            yield from _differing(f"{path}.{key}", old.get(key, ABSENT), new.get(key, ABSENT))
    elif isinstance(old, list) and isinstance(new, list):
        for at in range(max(len(old), len(new))):
            pair = (rows[at] if at < len(rows) else ABSENT for rows in (old, new))
            yield from _differing(f"{path}[{at}]", *pair)
    elif type(old) is not type(new) or old != new:
        yield path, old, new


def _shown(value: Any) -> str:
    if value is ABSENT:
        return "absent"
    written = json.dumps(value)
    return written if len(written) <= 160 else f"{written[:157]}..."
