"""Importing in one line, for the tests of every format; an index whose shards are verified."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import polars as pl

from trimtab.base.error import shell_text
from trimtab.purge.index.index_view import scanned
from trimtab.purge.index.list_import import ListDescription, import_list
from trimtab.purge.index.manifest import FileSystemIdentity, IndexSource, Manifest
from trimtab.purge.index.manifest_file import load_manifest

NOW = datetime(2026, 11, 22, 9, tzinfo=UTC)
LATER = datetime(2100, 1, 1, tzinfo=UTC)
SYSTEM = FileSystemIdentity("ext4", "/dev/sda1", 7, 8)
PAGE = Path(__file__).parents[3] / "docs" / "purge-import.md"


def page_script(tool: str, root: bytes) -> str:
    """Return the commands that the manual has for a complete list of a root."""
    blocks = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (text,) = (block for block in blocks if f"\n{tool} /scratch " in block)
    return text.replace("/scratch", shell_text([os.fsdecode(root)]))


def load_verified(index: Path) -> Manifest:
    """Return the manifest of an index whose shards are as they were written."""
    manifest = load_manifest(index)
    for shard in manifest.shards:
        for part in (shard, shard.superseded):
            if part is not None and part.sha256 is not None:
                content = (index / part.name).read_bytes()
                assert hashlib.sha256(content).hexdigest() == part.sha256, part.name
    return manifest


def imported(
    tmp_path: Path,
    content: bytes,
    source: IndexSource,
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
    assert load_verified(index) == manifest
    rows = scanned(index, manifest).collect()
    assert rows.height == manifest.rows
    _check_required(rows)
    return manifest, rows.to_dicts()


def _check_required(rows: pl.DataFrame) -> None:
    from trimtab.purge.index.shard import required

    assert [name for name in required() if rows[name].null_count()] == []


def only(rows: list[dict[str, Any]], *columns: str) -> list[tuple[Any, ...]]:
    """Return some columns of rows."""
    return [tuple(row[column] for column in columns) for row in rows]


def reasons(manifest: Manifest) -> list[str]:
    """Return why records were refused."""
    return [example.reason for example in manifest.refused_examples]
