"""``manifest.json``: strict when it is read, whole or not there when it is written.

Paths are percent-encoded bytes (``/scratch/a%0Ab``), so that the file is plain ASCII whatever the
names are. The schema follows from the dataclasses of `trimtab.purge.index.manifest`.
"""

from __future__ import annotations

import hashlib
import json
import os
import urllib.parse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from trimtab.errors import DataError, UnreadableError
from trimtab.purge.index.manifest import (
    SCHEMA_VERSION,
    FileSystemIdentity,
    Lack,
    Manifest,
    Refused,
    Shard,
    Source,
    TimeTrust,
    Unread,
)
from trimtab.visible import visible

MANIFEST: Final = "manifest.json"
_SIZE_MAX_BYTES: Final = 64 * 1024**2
"""A hundred thousand unread subtrees and shards; more is no manifest."""


def save_manifest(manifest: Manifest, directory: Path) -> Path:
    """Return the file that holds a manifest from now on; it is on stable storage.

    Raises
    ------
    UnreadableError
        It could not be written; what was there before still is.
    """
    file = directory / MANIFEST
    aside = directory / f".{MANIFEST}.{os.getpid()}"
    try:
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as out:
            out.write(to_json(manifest).encode("ascii"))
            out.flush()
            os.fsync(out.fileno())
        aside.rename(file)
        synchronise_directory(directory)
    except OSError as error:
        raise UnreadableError(f"cannot write {visible(str(file))}: {error.strerror}") from error
    return file


def load_manifest(directory: Path, *, verify: bool = False) -> Manifest:
    """Return the manifest of an index, whose shards are all there.

    Parameters
    ----------
    verify
        Also read every shard and compare its hash: minutes for a large index.

    Raises
    ------
    UnreadableError
        There is no index, or it cannot be read.
    DataError
        The manifest is not what it should be, or a shard is missing or of another size.
    """
    file = directory / MANIFEST
    shown = visible(str(file))
    try:
        with file.open("rb") as source:
            content = source.read(_SIZE_MAX_BYTES + 1)
    except FileNotFoundError as error:
        raise UnreadableError(
            f"{visible(str(directory))} is no index: it has no {MANIFEST}",
            hint="make one with `trimtab purge scan` or `trimtab purge import`; "
            "a scan that was broken off can be continued",
        ) from error
    except OSError as error:
        raise UnreadableError(f"cannot read {shown}: {error.strerror}") from error
    if len(content) > _SIZE_MAX_BYTES:
        raise DataError("it is too large for a manifest", file=shown)
    try:
        manifest = from_json(content)
    except DataError as error:
        raise error.of(shown) from error
    for shard in manifest.shards:
        _check_shard(directory / shard.name, shard, verify=verify)
    return manifest


def to_json(manifest: Manifest) -> str:
    """Return a manifest as JSON: ASCII, keys in the order of the dataclass."""
    system, settings = manifest.filesystem, manifest.atime_settings
    document = {
        "schema_version": manifest.schema_version,
        "index_id": manifest.index_id,
        "root": _quoted(manifest.root),
        "filesystem": None
        if system is None
        else {
            "kind": system.kind,
            "name": system.name,
            "fsid": system.fsid,
            "device": system.device,
        },
        "source": manifest.source.value,
        "tool": manifest.tool,
        "started_ns": manifest.started_ns,
        "ended_ns": manifest.ended_ns,
        "times": manifest.times.value,
        "time_resolution_ns": manifest.time_resolution_ns,
        "lacking": sorted(lack.value for lack in manifest.lacking),
        "complete": manifest.complete,
        "can_delete": manifest.can_delete,
        "unread": [{"path": _quoted(one.path), "reason": one.reason} for one in manifest.unread],
        "refused": manifest.refused,
        "refused_examples": [
            {
                "record": refused_example.record,
                "offset_bytes": refused_example.offset_bytes,
                "reason": refused_example.reason,
                "text": refused_example.text,
            }
            for refused_example in manifest.refused_examples
        ],
        "vanished": manifest.vanished,
        "notes": list(manifest.notes),
        "atime_settings": None if settings is None else dict(settings),
        "rows": manifest.rows,
        "size_bytes": manifest.size_bytes,
        "shards": [
            {
                "name": shard.name,
                "rows": shard.rows,
                "size_bytes": shard.size_bytes,
                "sha256": shard.sha256,
            }
            for shard in manifest.shards
        ],
    }
    return json.dumps(document, indent=1) + "\n"


def from_json(content: bytes | str) -> Manifest:
    """Return the manifest that a JSON text holds.

    Raises
    ------
    DataError
        It is no JSON, has a key that is not known, lacks one, or a value is not what it should be;
        the message names the key.
    """
    try:
        document = json.loads(content, parse_constant=_no_number, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise DataError(f"it is no JSON: {visible(str(error))}") from error
    at = _Object(document, "")
    version = at.whole("schema_version", lowest=1)
    if version != SCHEMA_VERSION:
        raise DataError(
            f"the index is of version {version}, this program knows {SCHEMA_VERSION}",
            hint="scan or import again",
        )
    manifest = _manifest(at)
    for key, value in (("rows", manifest.rows), ("size_bytes", manifest.size_bytes)):
        if at.take(key) != value:
            raise DataError(f"{key} does not fit the rest: {value} follows from it")
    at.yes("can_delete")  # for other readers; here it is worked out anew, by today's rules
    at.end()
    _check(manifest)
    return manifest


def synchronise_directory(directory: Path) -> None:
    """Make the names in a directory stable."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class _Object:
    """One object of the document, which complains of what is missing, wrong or left over."""

    def __init__(self, value: object, where: str) -> None:
        if not isinstance(value, dict):
            raise DataError(f"{where or 'it'} is not an object")
        self._rest: dict[str, Any] = dict(value)
        self._where = where

    def take(self, key: str) -> Any:
        if key not in self._rest:
            raise DataError(f"{self._name(key)} is missing")
        return self._rest.pop(key)

    def text(self, key: str) -> str:
        value = self.take(key)
        if not isinstance(value, str):
            raise DataError(f"{self._name(key)} is not text")
        return value

    def text_or_none(self, key: str) -> str | None:
        return self._or_none(key, self.text)

    def whole(self, key: str, *, lowest: int = 0) -> int:
        value = self.take(key)
        if isinstance(value, bool) or not isinstance(value, int) or value < lowest:
            raise DataError(f"{self._name(key)} is not a whole number of {lowest} or more")
        return value

    def whole_or_none(self, key: str) -> int | None:
        return self._or_none(key, self.whole)

    def yes(self, key: str) -> bool:
        value = self.take(key)
        if not isinstance(value, bool):
            raise DataError(f"{self._name(key)} is neither true nor false")
        return value

    def path(self, key: str) -> bytes:
        text = self.text(key)
        path = urllib.parse.unquote_to_bytes(text.encode("utf-8", "surrogatepass"))
        if _quoted(path) != text:  # one way to write it, so that nothing reads it differently
            raise DataError(f"{self._name(key)} is not percent-encoded as it should be")
        return path

    def choice(self, key: str, kind: Callable[[str], Any]) -> Any:
        return _chosen(kind, self.text(key), self._name(key))

    def objects(self, key: str) -> list[_Object]:
        return [_Object(one, f"{self._name(key)}[{i}]") for i, one in enumerate(self._list(key))]

    def texts(self, key: str) -> list[str]:
        values = self._list(key)
        if not all(isinstance(value, str) for value in values):
            raise DataError(f"{self._name(key)} holds something that is not text")
        return values

    def texts_by_name_or_none(self, key: str) -> dict[str, str] | None:
        def read(key: str) -> dict[str, str]:
            values = self.take(key)
            if not isinstance(values, dict):
                raise DataError(f"{self._name(key)} is not an object")
            if not all(isinstance(value, str) for value in values.values()):
                raise DataError(f"{self._name(key)} holds something that is not text")
            return dict(values)

        return self._or_none(key, read)

    def end(self) -> None:
        if self._rest:
            raise DataError(f"{self._name(visible(min(self._rest)))} is not known")

    def _or_none(self, key: str, read: Callable[[str], Any]) -> Any:
        if key in self._rest and self._rest[key] is None:
            del self._rest[key]
            return None
        return read(key)

    def _list(self, key: str) -> list[Any]:
        value = self.take(key)
        if not isinstance(value, list):
            raise DataError(f"{self._name(key)} is not a list")
        return value

    def _name(self, key: str) -> str:
        return f"{self._where}.{key}" if self._where else key


def _manifest(at: _Object) -> Manifest:
    return Manifest(
        index_id=at.text("index_id"),
        root=at.path("root"),
        filesystem=_filesystem(at.take("filesystem")),
        source=at.choice("source", Source),
        tool=at.text("tool"),
        started_ns=at.whole_or_none("started_ns"),
        ended_ns=at.whole("ended_ns"),
        times=at.choice("times", TimeTrust),
        time_resolution_ns=at.whole("time_resolution_ns", lowest=1),
        lacking=frozenset(_chosen(Lack, text, "lacking") for text in at.texts("lacking")),
        complete=at.yes("complete"),
        unread=tuple(_each(at, "unread", lambda o: Unread(o.path("path"), o.text("reason")))),
        refused=at.whole("refused"),
        refused_examples=tuple(_each(at, "refused_examples", _refused)),
        vanished=at.whole("vanished"),
        notes=tuple(at.texts("notes")),
        atime_settings=at.texts_by_name_or_none("atime_settings"),
        shards=tuple(_each(at, "shards", _shard)),
    )


def _filesystem(value: object) -> FileSystemIdentity | None:
    if value is None:
        return None
    at = _Object(value, "filesystem")
    system = FileSystemIdentity(
        kind=at.text("kind"),
        name=at.text_or_none("name"),
        fsid=at.whole_or_none("fsid"),
        device=at.whole_or_none("device"),
    )
    at.end()
    return system


def _refused(at: _Object) -> Refused:
    return Refused(
        record=at.whole_or_none("record"),
        offset_bytes=at.whole_or_none("offset_bytes"),
        reason=at.text("reason"),
        text=at.text("text"),
    )


def _shard(at: _Object) -> Shard:
    return Shard(
        name=at.text("name"),
        rows=at.whole("rows"),
        size_bytes=at.whole("size_bytes"),
        sha256=at.text_or_none("sha256"),
    )


def _each(at: _Object, key: str, read: Callable[[_Object], Any]) -> list[Any]:
    found = []
    for one in at.objects(key):
        found.append(read(one))
        one.end()
    return found


def _check(manifest: Manifest) -> None:
    """Raise where values are each right and do not fit together."""
    if not manifest.root.startswith(b"/"):
        raise DataError("root is not an absolute path")
    if manifest.complete and (manifest.unread or manifest.refused):
        raise DataError("complete is true though something could not be read")
    if len(manifest.refused_examples) > manifest.refused:
        raise DataError("there are more refused_examples than refused")
    if manifest.started_ns is not None and manifest.started_ns > manifest.ended_ns:
        raise DataError("started_ns is later than ended_ns")
    names = [shard.name for shard in manifest.shards]
    if len(set(names)) != len(names):
        raise DataError("a shard is named twice: its rows would count twice")
    for name in names:
        if "/" in name or name in ("", ".", "..") or "\0" in name:
            raise DataError(f"shards: {visible(name)!r} is no name of a file in the index")


def _check_shard(file: Path, shard: Shard, *, verify: bool) -> None:
    shown = visible(str(file))
    hint = "the index was damaged or changed: scan or import again"
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as source:
            size_bytes = os.fstat(descriptor).st_size
            sha256 = hashlib.file_digest(source, "sha256").hexdigest() if verify else None
    except OSError as error:
        raise DataError(
            f"the shard cannot be read: {error.strerror}", file=shown, hint=hint
        ) from error
    if size_bytes != shard.size_bytes:
        message = f"the shard has {size_bytes} bytes instead of {shard.size_bytes}"
        raise DataError(message, file=shown, hint=hint)
    if sha256 is not None and shard.sha256 is not None and sha256 != shard.sha256:
        raise DataError("the shard is not what was written", file=shown, hint=hint)


def _chosen(kind: Callable[[str], Any], text: str, key: str) -> Any:
    try:
        return kind(text)
    except ValueError as error:
        raise DataError(f"{key}: {visible(text[:40])!r} is not known") from error


def _quoted(path: bytes) -> str:
    return urllib.parse.quote_from_bytes(path, safe="/")


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no number")


def _once(pairs: list[tuple[str, Any]]) -> Mapping[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return found
