"""Read ``manifest.json`` strictly, and write it atomically.

Paths are percent-encoded bytes (``/scratch/a%0Ab``), so the file is plain ASCII for any names. The
schema follows from the dataclasses of `trimtab.purge.index.manifest`.
"""

from __future__ import annotations

import functools
import json
import os
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trimtab.base.error import DataError, UnreadableError, system_errors, unreleased, visible
from trimtab.base.trusted_file import synchronise
from trimtab.purge.index.manifest import SCHEMA_VERSION, Manifest, Shard, Superseded

if TYPE_CHECKING:
    from pydantic import TypeAdapter

MANIFEST: Final = "manifest.json"
_SIZE_MAX_BYTES: Final = 64 * 1024**2
"""Enough for a hundred thousand unread subtrees and shards; a larger file is not a manifest."""


def save_manifest(manifest: Manifest, directory: Path) -> Path:
    """Write a manifest to stable storage and return its file.

    Raises
    ------
    UnreadableError
        Writing failed; the earlier manifest is unchanged.
    """
    file = directory / MANIFEST
    aside = directory / f".{MANIFEST}.{os.getpid()}"
    with system_errors(f"cannot write {visible(file)}", code="index-unwritable"):
        write_synchronised(aside, to_json(manifest).encode("ascii"))
        aside.rename(file)
        synchronise(directory)
    return file


def write_synchronised(file: Path, content: bytes) -> None:
    """Write a file of an index to stable storage, in place of what has its name."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())


def load_manifest(directory: Path) -> Manifest:
    """Return the manifest of an index after checking that its shards exist.

    Raises
    ------
    UnreadableError
        There is no index, or it is unreadable.
    DataError
        The manifest is invalid, or a shard is missing or of another size.
    """
    file = directory / MANIFEST
    shown = visible(file)
    try:
        with file.open("rb") as source:
            content = source.read(_SIZE_MAX_BYTES + 1)
    except FileNotFoundError as error:
        raise UnreadableError(
            f"{visible(directory)} is not an index: it has no {MANIFEST}",
            code="index-missing",
            hint="trimtab purge scan ROOT --index DIR creates or continues one; to import another "
            "tool's list, see trimtab purge import --help",
        ) from error
    except OSError as error:
        raise UnreadableError(
            f"cannot read {shown}: {error.strerror}", code="unreadable-file"
        ) from error
    if len(content) > _SIZE_MAX_BYTES:
        raise DataError("too large for a manifest", code="manifest-too-large", file=shown)
    try:
        manifest = from_json(content)
    except DataError as error:
        raise error.of(shown) from error
    for shard in manifest.shards:
        _check_shard(directory / shard.name, shard)
        if shard.superseded is not None:
            _check_shard(directory / shard.superseded.name, shard.superseded)
    return manifest


def to_json(manifest: Manifest) -> str:
    """Return a manifest as JSON: ASCII, keys in the order of `_KEYS`."""
    return json.dumps(_document(manifest), indent=1) + "\n"


def from_json(content: bytes | str) -> Manifest:
    """Return the manifest from JSON text.

    Raises
    ------
    DataError
        It is not JSON, a key is unknown or missing, or a value is invalid; the message names the
        key.
    """
    try:
        document = json.loads(content, parse_constant=_no_number, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise DataError(f"not JSON: {visible(str(error))}", code="manifest-malformed") from error
    if not isinstance(document, dict):
        raise DataError("not a JSON object", code="manifest-malformed")
    version = document.get("schema_version")
    if type(version) is int and version < SCHEMA_VERSION:
        again = "create a new one in another directory: trimtab purge scan ROOT --index DIR"
        raise unreleased("the index", again)
    if type(version) is not int or version != SCHEMA_VERSION:
        raise DataError(
            f"the index has version {visible(str(version)[:40])}, this program reads "
            f"{SCHEMA_VERSION}",
            code="schema-version-unknown",
            hint="scan or import again",
        )
    unknown = {*document} - {*_KEYS, *_OPTIONAL}
    for keys, problem in (({*_KEYS} - {*document}, "missing"), (unknown, "unknown")):
        if keys:
            raise DataError(f"{visible(min(keys))} is {problem}", code="manifest-malformed")
    manifest = _read(document)
    for problem in _contradictions(manifest):
        raise DataError(problem, code="manifest-contradictory")
    return manifest


_KEYS: Final = (
    "schema_version", "index_id", "root", "filesystem", "source", "tool", "started_ns", "ended_ns",
    "times", "time_resolution_ns", "lacking", "complete", "can_delete", "unread", "refused",
    "refused_examples", "vanished", "notes", "atime_settings", "sizes", "rows", "size_bytes",
    "shards",
)  # fmt: skip
_OPTIONAL: Final = ("followed", "incremental")
"""Keys only of indexes whose shards may have replaced rows."""


@functools.cache
def _adapter() -> TypeAdapter[Manifest]:
    from pydantic import TypeAdapter

    return TypeAdapter(Manifest)


def _document(manifest: Manifest) -> dict[str, Any]:
    plain = _with_paths(manifest, lambda path: urllib.parse.quote_from_bytes(path, "/").encode())
    values = _adapter().dump_python(plain, mode="json")
    values["lacking"].sort()
    if values["filesystem"] is not None:
        # Omitted if unknown.
        for word in ("uuid", "mount"):
            if values["filesystem"][word] is None:
                del values["filesystem"][word]
    for shard in values["shards"]:
        for word in ("superseded", "read_ns"):
            if shard[word] is None:
                del shard[word]
    for name in ("can_delete", "rows", "size_bytes"):
        values[name] = getattr(manifest, name)
    present = (key for key in _OPTIONAL if values[key] is not None)
    return {key: values[key] for key in (*_KEYS, *present)}


def _read(document: dict[str, Any]) -> Manifest:
    """Return the manifest of a document, which must be identical when written again."""
    from pydantic import ValidationError

    try:
        plain = _adapter().validate_json(json.dumps(document), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        message = visible(f"{place}: {first['msg']}"[:200])
        raise DataError(message, code="manifest-malformed") from error
    manifest = _with_paths(plain, urllib.parse.unquote_to_bytes)
    if not isinstance(document["can_delete"], bool):
        raise DataError("can_delete is neither true nor false", code="manifest-malformed")
    # Today's rules decide whether it can delete; the value in the file is for other readers.
    stated = {**document, "lacking": sorted(document["lacking"]), "can_delete": manifest.can_delete}
    for key, value in _document(manifest).items():
        if json.dumps(value, sort_keys=True) != json.dumps(stated[key], sort_keys=True):
            raise DataError(
                f"{key} is not in Trimtab's form, or contradicts other values",
                code="manifest-contradictory",
            )
    return manifest


def _with_paths(manifest: Manifest, change: Callable[[bytes], bytes]) -> Manifest:
    unread = tuple(replace(subtree, path=change(subtree.path)) for subtree in manifest.unread)
    return replace(manifest, root=change(manifest.root), unread=unread)


def _contradictions(manifest: Manifest) -> Iterator[str]:
    """Yield contradictions between valid values."""
    if manifest.time_resolution_ns < 1:
        yield "time_resolution_ns is not positive"
    if not manifest.root.startswith(b"/"):
        yield "root is not an absolute path"
    if manifest.complete and (manifest.unread or manifest.refused):
        yield "complete is true although parts could not be read"
    if len(manifest.refused_examples) > manifest.refused:
        yield "there are more refused_examples than refused"
    if manifest.started_ns is not None and manifest.started_ns > manifest.ended_ns:
        yield "started_ns is later than ended_ns"
    if any(shard.rows_in_force < 0 for shard in manifest.shards):
        yield "a shard has fewer rows than were replaced"
    names = [shard.name for shard in manifest.shards]
    names += [shard.superseded.name for shard in manifest.shards if shard.superseded is not None]
    if len(set(names)) != len(names):
        yield "a shard is listed twice: its rows would count twice"
    for name in names:
        if "/" in name or name in ("", ".", "..") or "\0" in name:
            yield f"shards: {visible(name)!r} is not a file name in the index"


def _check_shard(file: Path, shard: Shard | Superseded) -> None:
    shown = visible(file)
    hint = "the index was damaged or changed: scan or import again"
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb"):
            size_bytes = os.fstat(descriptor).st_size
    except OSError as error:
        raise DataError(
            f"the shard cannot be read: {error.strerror}",
            code="shard-unreadable",
            file=shown,
            hint=hint,
        ) from error
    if size_bytes != shard.size_bytes:
        message = f"the shard has {size_bytes} bytes instead of {shard.size_bytes}"
        raise DataError(message, code="shard-changed", file=shown, hint=hint)


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is not a number")


def _once(pairs: list[tuple[str, Any]]) -> Mapping[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise ValueError("an object has a key twice")
    for key, value in pairs:
        if isinstance(value, int) and value < 0:
            raise ValueError(f"{key} is negative")
    return document
