"""Answers of other machines as bytes, and back: read as data of the declared type, never as code.

A pickle does what its author wants when it is read, so none is read here. An answer is one JSON
text, followed by what is large (tables, arrays, contents) as it is; it is built again from the type
that the question declares, which both sides share: a field that is missing, or of another type, is
an error. Floats keep every digit, and sentences their codes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from enum import Enum
from functools import cache
from io import BytesIO
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from trimtab.errors import ToolError, TrimtabError
from trimtab.message import Message
from trimtab.visible import visible

Blobs = Sequence[bytes]
ASK_WHOSE: Final = "is the scheduler the one that you started, and are all workers yours?"
_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")


class NotOfType(ValueError):
    """What was to be sent, or has arrived, is not of the type that is declared."""


def packed(kind: Any, value: Any) -> list[bytes]:
    """Return a value of a type as bytes.

    Raises
    ------
    NotOfType
        It is not of that type, or the type is one that cannot be sent.
    """
    blobs: list[bytes] = []
    plain = _form(kind).write(value, blobs)
    return [json.dumps(plain).encode(), *blobs]


def unpacked(kind: Any, data: Any) -> Any:
    """Return the value of a type that bytes from elsewhere stand for.

    Raises
    ------
    NotOfType
        They stand for none.
    """
    import polars as pl

    if not (isinstance(data, list | tuple) and data and all(type(d) is bytes for d in data)):
        raise NotOfType("an answer is not bytes")
    try:
        return _form(kind).read(json.loads(data[0]), data[1:])
    except NotOfType:
        raise
    except (
        *(ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError),
        *(TrimtabError, pl.exceptions.PolarsError, OSError),
    ) as error:
        raise NotOfType(visible(f"{type(error).__name__}: {error}"[:300])) from error


def plain_file(directory: str | Path, name: str) -> Path:
    """Return a file in a directory, of the name that a worker gave it.

    Raises
    ------
    ToolError
        The name leads elsewhere.
    """
    if _NAME.fullmatch(name) is None:
        raise ToolError(
            f"a worker names the file {visible(name[:100])}, which leads elsewhere",
            code="answer-malformed",
            hint=ASK_WHOSE,
        )
    return Path(directory, name)


def answer_type(question: object) -> Any:
    """Return the type that a question declares its answers to be of."""
    return _hints(type(question).answer)["return"]  # type: ignore[attr-defined]


@dataclass(frozen=True, slots=True)
class _Form:
    """How a type is written as what JSON has, and read; large values are put beside it."""

    write: Callable[[Any, list[bytes]], Any]
    read: Callable[[Any, Blobs], Any]


@cache
def _form(kind: Any) -> _Form:
    origin, arguments = get_origin(kind) or kind, get_args(kind)
    if origin in _PLAIN:
        return _PLAIN[origin]
    if origin is Annotated:
        return _form(arguments[0])
    if origin in (Union, UnionType):
        return _union(arguments)
    if origin is Literal:
        return _checked(lambda value: value in arguments)
    if origin is tuple and arguments[-1:] != (...,):
        return _tuple(arguments)
    if origin in (tuple, list):
        return _items(origin, arguments[0])
    if origin in (dict, Mapping):
        return _mapping(*arguments)
    if isinstance(origin, type):
        return _of_class(origin, arguments)
    raise NotOfType(f"values of {kind} cannot be sent")


def _of_class(kind: type, arguments: tuple[Any, ...]) -> _Form:
    import numpy as np
    import polars as pl

    from trimtab._core import Tally

    if issubclass(kind, Enum):
        return _Form(lambda value, _: _of(kind, value).name, lambda plain, _: kind[plain])
    if is_dataclass(kind):
        return _record(kind, [field.name for field in fields(kind) if field.init])
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return _record(kind, list(kind._fields))  # type: ignore[attr-defined]
    if kind is np.ndarray:
        return _array(np.dtype(get_args(arguments[1])[0]))
    if kind is pl.DataFrame:
        return _blob(_ipc, lambda data: pl.read_ipc(BytesIO(data)))
    if kind is Tally:
        return _blob(lambda tally: tally.to_bytes(), Tally.from_bytes)
    raise NotOfType(f"values of {kind} cannot be sent")


def _of(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise NotOfType(f"a {type(value).__name__} is not a {kind.__name__}")
    return value


def _checked(holds: Callable[[Any], bool]) -> _Form:
    """Return the form of values that JSON has as they are."""

    def same(value: Any, _: Any) -> Any:
        if not holds(value):
            raise NotOfType(f"a {type(value).__name__} is not what is declared")
        return value

    return _Form(same, same)


def _write_number(value: Any, _: list[bytes]) -> Any:
    """Return a number as Python has it: numpy has types of its own."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise NotOfType(f"a {type(value).__name__} is not a number")
    return int(value) if isinstance(value, Integral) else float(value)


def _number(*kinds: type) -> _Form:
    def write(value: Any, blobs: list[bytes]) -> Any:
        return read(_write_number(value, blobs), ())

    def read(plain: Any, _: Blobs) -> Any:
        if type(plain) not in kinds:
            raise NotOfType(f"a {type(plain).__name__} is not {kinds[0].__name__}")
        return plain

    return _Form(write, read)


def _write_text(value: Any, _: list[bytes]) -> Any:
    if isinstance(value, Message):
        return ["m", value.code, str(value)]
    if not isinstance(value, str):
        raise NotOfType(f"a {type(value).__name__} is not text")
    return str(value)


def _read_text(plain: Any, _: Blobs) -> str:
    if isinstance(plain, list):
        mark, code, text = plain
        if mark == "m":
            return Message(_of(str, code), _of(str, text))
    return _of(str, plain)


def _blob(to_bytes: Callable[[Any], bytes], of_bytes: Callable[[bytes], Any]) -> _Form:
    """Return the form of what stands beside the text, which has its place."""

    def write(value: Any, blobs: list[bytes]) -> int:
        blobs.append(to_bytes(value))
        return len(blobs) - 1

    return _Form(write, lambda plain, blobs: of_bytes(blobs[_place(plain)]))


def _place(plain: Any) -> int:
    if type(plain) is not int or plain < 0:
        raise NotOfType("a place is not a number")
    return plain


def _ipc(frame: Any) -> bytes:
    buffer = BytesIO()
    frame.write_ipc(buffer)
    return buffer.getvalue()


def _array(dtype: Any) -> _Form:
    import numpy as np

    def write(value: Any, blobs: list[bytes]) -> Any:
        if _of(np.ndarray, value).dtype != dtype or dtype.kind not in "biuf":
            raise NotOfType(f"an array of {value.dtype} is not one of {dtype}")
        blobs.append(np.ascontiguousarray(value).tobytes())
        return [len(blobs) - 1, *value.shape]

    def read(plain: Any, blobs: Blobs) -> Any:
        place, *shape = map(_place, plain)
        return np.frombuffer(blobs[place], dtype).reshape(shape).copy()

    return _Form(write, read)


def _items(kind: type, inner: Any) -> _Form:
    form = _form(inner)

    def write(value: Any, blobs: list[bytes]) -> Any:
        return [form.write(item, blobs) for item in _of(kind, value)]

    def read(plain: Any, blobs: Blobs) -> Any:
        return kind(form.read(item, blobs) for item in _of(list, plain))

    return _Form(write, read)


def _tuple(kinds: Sequence[Any]) -> _Form:
    forms = [_form(kind) for kind in kinds]

    def write(value: Any, blobs: list[bytes]) -> Any:
        pairs = zip(forms, _of(tuple, value), strict=True)
        return [form.write(item, blobs) for form, item in pairs]

    def read(plain: Any, blobs: Blobs) -> Any:
        pairs = zip(forms, _of(list, plain), strict=True)
        return tuple(form.read(item, blobs) for form, item in pairs)

    return _Form(write, read)


def _mapping(key: Any, inner: Any) -> _Form:
    pairs = _items(list, tuple[key, inner])

    def write(value: Any, blobs: list[bytes]) -> Any:
        if not isinstance(value, Mapping):
            raise NotOfType(f"a {type(value).__name__} is not a mapping")
        return pairs.write(list(value.items()), blobs)

    return _Form(write, lambda plain, blobs: dict(pairs.read(plain, blobs)))


def _union(kinds: Sequence[Any]) -> _Form:
    """Return the form of a value of one of several types: which, and the value; none is null."""
    forms = [_form(kind) for kind in kinds if kind is not NoneType]
    optional = NoneType in kinds

    def write(value: Any, blobs: list[bytes]) -> Any:
        if value is None and optional:
            return None
        for place, form in enumerate(forms):
            held = len(blobs)
            try:
                return [place, form.write(value, blobs)]
            except ValueError:
                del blobs[held:]
        raise NotOfType(f"a {type(value).__name__} is of none of the types that are declared")

    def read(plain: Any, blobs: Blobs) -> Any:
        if plain is None and optional:
            return None
        place, inner = _of(list, plain)
        return forms[_place(place)].read(inner, blobs)

    return _Form(write, read)


def _record(kind: Any, names: Sequence[str]) -> _Form:
    hints = _hints(kind)
    forms = {name: _form(hints[name]) for name in names}

    def write(value: Any, blobs: list[bytes]) -> Any:
        _of(kind, value)
        return [form.write(getattr(value, name), blobs) for name, form in forms.items()]

    def read(plain: Any, blobs: Blobs) -> Any:
        pairs = zip(forms.items(), _of(list, plain), strict=True)
        return kind(**{name: form.read(item, blobs) for (name, form), item in pairs})

    return _Form(write, read)


def _hints(owner: Any) -> dict[str, Any]:
    """Return the types of fields, or of a result; some modules import them for type checkers."""
    import polars as pl

    from trimtab._core import Tally

    return get_type_hints(owner, localns={"pl": pl, "Tally": Tally})


def _write_any(value: Any, blobs: list[bytes]) -> Any:
    """Return what is declared as any object: plain values alone, lists and tuples told apart."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Real):
        return _write_number(value, blobs)
    if isinstance(value, str):
        return _write_text(value, blobs)
    if type(value) in (list, tuple):
        return [type(value).__name__, [_write_any(item, blobs) for item in value]]
    if isinstance(value, Mapping):
        pairs = [[_write_any(item, blobs) for item in pair] for pair in value.items()]
        return ["dict", pairs]
    raise NotOfType(f"a {type(value).__name__} is not a plain value")


def _read_any(plain: Any, blobs: Blobs) -> Any:
    if not isinstance(plain, list):
        return plain
    if plain[0] == "m":
        return _read_text(plain, blobs)
    name, items = plain
    if name == "dict":
        return {_read_any(key, ()): _read_any(value, ()) for key, value in _of(list, items)}
    return {"list": list, "tuple": tuple}[name](_read_any(item, ()) for item in _of(list, items))


_TEXT: Final = _Form(_write_text, _read_text)
_ANY: Final = _Form(_write_any, _read_any)
_PLAIN: Final[dict[Any, _Form]] = {
    Any: _ANY,
    object: _ANY,
    str: _TEXT,
    Message: _TEXT,
    bool: _checked(lambda value: type(value) is bool),
    NoneType: _checked(lambda value: value is None),
    int: _number(int),
    float: _number(float, int),
    bytes: _blob(lambda value: _of(bytes, value), lambda data: data),
    datetime: _Form(
        lambda value, _: _of(datetime, value).isoformat(),
        lambda plain, _: datetime.fromisoformat(plain),
    ),
}
"""Of every type that is not made of others."""
