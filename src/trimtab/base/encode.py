"""The encoder of ``--json``: writes plain values as documents, and derives their JSON Schemas.

A document is a thin envelope per command around such values. The rules for all documents:

* Numbers are base SI with the unit beside them, ratios are fractions, and missing values are null
  with a reason. NaN and infinities are errors.
* A frozen dataclass becomes an object with its fields as keys; ``from_`` is written ``from``.
* An aware datetime is RFC 3339 with its offset, ``Z`` for UTC; so is a number that is a time
  (`trimtab.base.units.EpochS` and similar), without its unit in the key.
* An `Interval` is ``[low, high]``; one ``level`` applies to all intervals of an object.
* A sentence is followed by its code: ``reason`` and ``reason_code``, ``notes`` and
  ``notes_codes``. The code is null if the text has none, such as text from a store.
* Text is ASCII with escapes, so a file name that is not UTF-8 survives the round trip:
  ``os.fsencode(json.loads(...))``. Bytes become visible text.

If a document differs from its value, `shape` declares how, once per type and beside it: omitted
fields, derived keys, inlined values. Those of runs, readings, plans and errors, which documents of
every room hold, stand at the end of this file. `schema` derives the JSON Schema from the same
declarations.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import json
import sys
import types
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import date, datetime
from functools import cache, partial, reduce
from operator import attrgetter, or_
from typing import Annotated, Any, Final, Literal, TypeVar, Union, get_args, get_origin

from trimtab.base.action import Plan
from trimtab.base.error import Interrupted, Message, TrimtabError, code_of, visible
from trimtab.base.filesystem import PathDescription
from trimtab.base.run import RawOutput, Sample
from trimtab.base.snapshot import Reading, TargetSnapshot
from trimtab.base.units import Since1970
from trimtab.base.verdict import Interval

SCHEMA_VERSION: Final = 2
"""In every document; incremented when a key is removed or changes its meaning."""

Value = TypeVar("Value")
Getter = Callable[[Any], Any]
Derived = tuple[Any, Getter]
"""The type of a key and the function that computes its value."""

_SENTENCES: Final = frozenset({"reason", "problem", "refusal", "notes", "doubts", "warnings"})
"""Fields that hold sentences even if annotated ``str``."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Shape:
    omit: frozenset[str]
    derive: Mapping[str, Derived | str]
    inline: Mapping[str, tuple[str, ...]]


@dataclasses.dataclass(frozen=True, slots=True)
class _Entry:
    key: str
    get: Getter
    hint: Any


_PLAIN: Final = _Shape(frozenset(), {}, {})
_SHAPES: Final[dict[type, _Shape]] = {}


def shape(
    of: type[Value],
    *,
    omit: Collection[str] = (),
    derive: Mapping[str, tuple[Any, Callable[[Value], Any]] | str] | None = None,
    inline: Mapping[str, Collection[str]] | None = None,
) -> None:
    """Declare how the object of a type differs from the type.

    Parameters
    ----------
    of
        A dataclass; for another class only derived keys are written.
    omit
        Fields that are not written; ``level``: no level for the intervals.
    derive
        Key to type and function of the value, or to the path of an attribute (``terms.spare``),
        whose annotation is the type. A key that is a field replaces it.
    inline
        Fields whose keys appear in this object: all of them, or only the named ones.
    """
    derived = dict(derive or {})
    inlined = {name: tuple(keys) for name, keys in (inline or {}).items()}
    names = {"level"}
    if dataclasses.is_dataclass(of):
        names |= {field.name for field in dataclasses.fields(of)}
    unknown = {*omit, *inlined} - names
    if unknown or of in _SHAPES:
        raise TypeError(f"shape of {of.__name__}: {sorted(unknown) or 'declared twice'}")
    _SHAPES[of] = _Shape(frozenset(omit), derived, inlined)
    # A value of the type may have been written already, with its fields alone.
    for known in (plain_of, _entries):
        known.cache_clear()


def mapped(path: str, function: Callable[[Any], Any], kind: Any) -> Derived:
    """Derive a key by a function of the attribute at a path, with the given result type."""
    get = attrgetter(path)
    return kind, lambda value: function(get(value))


def bounds(low: str, high: str, kind: Any = float) -> Derived:
    """Derive ``[low, high]`` from two fields; null if either is null."""
    get = attrgetter(low, high)

    def pair(value: Any) -> Any:
        ends = get(value)
        return None if None in ends else ends

    return tuple[kind, kind] | None, pair


def rfc3339(at: datetime) -> str:
    """Return an aware time as RFC 3339."""
    return at.isoformat().replace("+00:00", "Z")


def to_json(document: object) -> str:
    """Return a document as one line of JSON, with its ``schema_version``."""
    return dumps({"schema_version": SCHEMA_VERSION, **_plain(document)})


def dumps(value: object) -> str:
    """Return any model value, or structure of such values, as JSON."""
    return json.dumps(value, allow_nan=False, check_circular=False, default=_plain)


def _plain(value: Any) -> Any:
    return plain_of(type(value))(value)


@cache
def plain_of(kind: type) -> Getter:
    """Return the function that converts one value for JSON; contained values stay as they are."""
    for base, convert in _LEAVES.items():
        if issubclass(kind, base):
            return convert
    if _is_path(kind):
        return lambda path: visible(str(path))
    if not _is_object(kind):
        raise TypeError(f"{kind.__name__} has no form in JSON")
    pairs = [(entry.key, entry.get) for entry in _entries(kind)]
    return lambda value: {key: get(value) for key, get in pairs}


_LEAVES: Final[dict[type, Getter]] = {
    datetime: rfc3339,
    date: date.isoformat,
    Interval: lambda interval: (interval.low, interval.high),
    Mapping: dict,
    frozenset: sorted,
    set: sorted,
    bytes: lambda name: visible(name.decode("utf-8", "surrogateescape")),
}


def _is_path(kind: Any) -> bool:
    # By what makes it one: pure rooms declare shapes, and load nothing that opens files.
    return isinstance(kind, type) and hasattr(kind, "__fspath__")


def _is_object(kind: Any) -> bool:
    return isinstance(kind, type) and (
        _shape_of(kind) is not None or dataclasses.is_dataclass(kind)
    )


def _shape_of(kind: type) -> _Shape | None:
    return next((_SHAPES[base] for base in kind.__mro__ if base in _SHAPES), None)


@cache
def _entries(kind: type) -> tuple[_Entry, ...]:
    """Return the keys of the object for a type, in order."""
    declared = _shape_of(kind) or _PLAIN
    entries: list[_Entry] = []
    intervals: list[Getter] = []
    fields = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
    written = [field.name for field in fields if field.name not in declared.omit]
    for name in written:
        hint, get = _derived(kind, declared.derive.get(name, name))
        if name in declared.inline:
            entries += _inlined(hint, get, declared.inline[name])
            continue
        if _without_none(hint) is Interval:
            intervals.append(get)
        if (since := _since_1970(hint)) is not None:
            at = partial(_time_of, get, since)
            entries.append(_Entry(name.rpartition("_")[0], at, datetime | None))
            continue
        entries += _with_code(name.removesuffix("_"), get, hint)
    if intervals and "level" not in {*declared.omit, *declared.derive}:
        entries.append(_Entry("level", lambda value: _level(intervals, value), float | None))
    for key, derived in declared.derive.items():
        if key not in written:
            hint, get = _derived(kind, derived)
            entries += _with_code(key, get, hint)
    return tuple(entries)


def _since_1970(hint: Any) -> Since1970 | None:
    plain = _without_none(hint)
    return plain.__metadata__[0] if get_origin(plain) is Annotated else None


def _time_of(get: Getter, since: Since1970, value: Any) -> datetime | None:
    number = get(value)
    return None if number is None else since.time(number)


def _derived(kind: type, derived: Derived | str) -> Derived:
    if not isinstance(derived, str):
        return derived
    hint: Any = kind
    for name in derived.split("."):
        hint = _annotation(hint, name)
    return hint, attrgetter(derived)


def _inlined(hint: Any, get: Getter, keys: tuple[str, ...]) -> list[_Entry]:
    inner = [e for e in _entries(_without_none(hint)) if not keys or e.key in keys]
    if hint is _without_none(hint):
        return [dataclasses.replace(e, get=_after(get, e.get)) for e in inner]
    return [
        dataclasses.replace(e, get=_after(get, e.get, absent=True), hint=e.hint | None)
        for e in inner
    ]


def _after(outer: Getter, inner: Getter, *, absent: bool = False) -> Getter:
    if not absent:
        return lambda value: inner(outer(value))

    def get(value: Any) -> Any:
        held = outer(value)
        return None if held is None else inner(held)

    return get


def _with_code(key: str, get: Getter, hint: Any) -> list[_Entry]:
    entry = _Entry(key, get, hint)
    plain = _without_none(hint)
    if plain in {Message, str} and _is_sentence(key, plain):
        return [
            entry,
            _Entry(f"{key}_code", lambda value: getattr(get(value), "code", None), str | None),
        ]
    arguments = get_args(plain)
    if arguments and arguments[0] in {Message, str} and _is_list(get_origin(plain)):
        if not _is_sentence(key, arguments[0]):
            return [entry]
        codes = _Entry(
            f"{key}_codes",
            lambda value: [code_of(text) for text in get(value)],
            tuple[str | None, ...],
        )
        return [entry, codes]
    return [entry]


def _is_sentence(key: str, plain: Any) -> bool:
    return plain is Message or key in _SENTENCES or key.endswith("_reason")


def _is_list(origin: Any) -> bool:
    return (
        isinstance(origin, type)
        and issubclass(origin, Iterable)
        and not issubclass(origin, Mapping)
    )


def _level(intervals: Iterable[Getter], value: Any) -> float | None:
    return next((held.level for get in intervals if (held := get(value)) is not None), None)


def _annotation(kind: type, name: str) -> Any:
    """Return the type of a field or property: looks up only that one, others may be costly."""
    held = inspect.getattr_static(kind, name, None)
    if isinstance(held, property):
        owner, hint = held.fget, inspect.get_annotations(held.fget)["return"]  # type: ignore[arg-type]
    else:
        owner = next(base for base in kind.__mro__ if name in inspect.get_annotations(base))
        hint = inspect.get_annotations(owner)[name]
    if not isinstance(hint, str):
        return hint
    return eval(hint, vars(sys.modules[owner.__module__]))  # noqa: S307 (our own annotations)


def _without_none(hint: Any) -> Any:
    if get_origin(hint) in {Union, types.UnionType}:
        rest = tuple(part for part in get_args(hint) if part is not types.NoneType)
        return reduce(or_, rest) if len(rest) < len(get_args(hint)) else hint
    return hint


def schema(document: type) -> dict[str, Any]:
    """Return the JSON Schema of a document, with ``$defs`` for every type in it."""
    definitions: dict[type, Any] = {}
    root = _object(document, definitions)
    root["properties"] = {"schema_version": {"const": SCHEMA_VERSION}, **root["properties"]}
    root["required"] = ["schema_version", *root["required"]]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": document.__name__,
        **root,
        "$defs": {kind.__name__: definitions[kind] for kind in sorted(definitions, key=_name)},
    }


def _name(kind: type) -> str:
    return kind.__name__


def _object(kind: type, definitions: dict[type, Any]) -> dict[str, Any]:
    entries = _entries(kind)
    return {
        "description": (kind.__doc__ or "").partition("\n\n")[0].replace("\n    ", " "),
        "type": "object",
        "properties": {entry.key: _schema(entry.hint, definitions) for entry in entries},
        "required": [entry.key for entry in entries],
        "additionalProperties": False,
    }


_SIMPLE: Final[dict[Any, dict[str, Any]]] = {
    Any: {},
    object: {},
    str: {"type": "string"},
    Message: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    types.NoneType: {"type": "null"},
    datetime: {"type": "string", "format": "date-time"},
    date: {"type": "string", "format": "date"},
    Interval: {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2},
    bytes: {"type": "string"},
}


def _schema(hint: Any, definitions: dict[type, Any]) -> dict[str, Any]:
    if hint in _SIMPLE or _is_path(hint):
        return dict(_SIMPLE.get(hint, _SIMPLE[str]))
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in {Union, types.UnionType}:
        return {"anyOf": [_schema(part, definitions) for part in arguments]}
    if origin is tuple and arguments[-1] is not ...:
        items = [_schema(part, definitions) for part in arguments]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "items": False}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _schema(arguments[1], definitions)}
    if _is_list(origin):
        return {"type": "array", "items": _schema(arguments[0], definitions)}
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return {"type": "string", "enum": [member.value for member in hint]}
    if not _is_object(hint):
        raise TypeError(f"{hint} has no JSON Schema")
    return _reference(hint, definitions)


def _reference(kind: type, definitions: dict[type, Any]) -> dict[str, Any]:
    if kind not in definitions:
        if kind.__name__ in map(_name, definitions):
            raise TypeError(f"two types of one document are called {kind.__name__}")
        definitions[kind] = {}  # reserved first: types may contain themselves
        definitions[kind] = _object(kind, definitions)
    return {"$ref": f"#/$defs/{kind.__name__}"}


# Values that documents of every room hold

Problem = TrimtabError | Interrupted
"""Why a command could not do what was requested."""


@dataclasses.dataclass(frozen=True, slots=True)
class FailureDocument:
    """Printed by any command with ``--json`` that has no other document."""

    error: Problem


def _sha256(output: RawOutput) -> str:
    import hashlib

    return hashlib.sha256(output.stdout).hexdigest()


_ERROR_KEYS: Final = {
    "message": (str, attrgetter("message")),
    "code": (str, attrgetter("code")),
    "hint": (str | None, attrgetter("hint")),
    "exit_code": (int, attrgetter("exit_code")),
}
shape(TrimtabError, derive=_ERROR_KEYS)
shape(Interrupted, derive=_ERROR_KEYS)

shape(Sample, derive={"unit": "unit"})
shape(
    RawOutput,
    omit=["stdout", "stderr"],
    derive={
        "stdout_bytes": mapped("stdout", len, int),
        "sha256": (str, _sha256),
    },
)
shape(Plan, derive={"id": "id"})
shape(Reading, derive={"unit": "unit"})
shape(PathDescription, derive={"is_flash": "is_flash"})
shape(
    TargetSnapshot,
    inline={"target": ()},
    derive={"fullness": (float | None, lambda seen: seen.fullness())},
)
