"""Importing in one line, for the tests of every format."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import polars as pl

from trimtab.purge.index.importing import ListDescription, import_list
from trimtab.purge.index.manifest import FileSystemIdentity, Manifest, Source
from trimtab.purge.index.manifest_file import load_manifest
from trimtab.purge.index.views import scanned

NOW = datetime(2026, 11, 22, 9, tzinfo=UTC)
LATER = datetime(2100, 1, 1, tzinfo=UTC)
SYSTEM = FileSystemIdentity("ext4", "/dev/sda1", 7, 8)


def imported(
    tmp_path: Path,
    content: bytes,
    source: Source,
    *,
    root: bytes = b"/scratch",
    told: Mapping[str, Any] = MappingProxyType({}),
    now: datetime = LATER,
    **how: Any,
) -> tuple[Manifest, list[dict[str, Any]]]:
    """Return the manifest and the rows that a list becomes, in the order of the index."""
    file, index = tmp_path / "list", tmp_path / "index"
    file.write_bytes(content)
    described = ListDescription(source, root, **told, **how)
    manifest = import_list(file, index, described, now=now)
    assert load_manifest(index, verify=True) == manifest
    rows = scanned(index, manifest).collect()
    assert rows.height == manifest.rows
    _check_required(rows)
    return manifest, rows.to_dicts()


def _check_required(rows: pl.DataFrame) -> None:
    from trimtab.purge.index.schema import required

    assert [name for name in required() if rows[name].null_count()] == []


def only(rows: list[dict[str, Any]], *columns: str) -> list[tuple[Any, ...]]:
    """Return some columns of rows."""
    return [tuple(row[column] for column in columns) for row in rows]


def reasons(manifest: Manifest) -> list[str]:
    """Return why records were refused."""
    return [example.reason for example in manifest.refused_examples]
