"""Answers of other machines as bytes, and back: read as data of the declared type, never as code.

A pickle does what its author wants when it is read, so none is read here. An answer is one JSON
text, followed by what is large (tables, tallies) as it is; it is built again from the type that the
question declares, which both sides share: a field that is missing, or of another type, is an error.
Floats keep every digit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from io import BytesIO
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, get_args, get_origin, get_type_hints

from trimtab.errors import ToolError, TrimtabError
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
    if origin is UnionType and NoneType in arguments and len(arguments) == 2:
        return _optional(_form(next(each for each in arguments if each is not NoneType)))
    if origin is tuple and arguments[-1:] == (...,):
        return _items(arguments[0])
    if origin is tuple:
        return _tuple(arguments)
    if origin in (dict, Mapping):
        return _mapping(*arguments)
    if isinstance(origin, type):
        return _of_class(origin)
    raise NotOfType(f"values of {kind} cannot be sent")


def _of_class(kind: Any) -> _Form:
    import polars as pl

    from trimtab._core import Tally

    if is_dataclass(kind):
        return _record(kind)
    if kind is pl.DataFrame:
        return _blob(_ipc, lambda data: pl.read_ipc(BytesIO(data)))
    if kind is Tally:
        return _blob(lambda tally: tally.to_bytes(), Tally.from_bytes)
    raise NotOfType(f"values of {kind} cannot be sent")


def _of(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise NotOfType(f"a {type(value).__name__} is not a {kind.__name__}")
    return value


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


def _write_text(value: Any, _: list[bytes]) -> str:
    if not isinstance(value, str):
        raise NotOfType(f"a {type(value).__name__} is not text")
    return str(value)


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


def _optional(form: _Form) -> _Form:
    """Return the form of a value that may be ``None``: null, or the value."""

    def write(value: Any, blobs: list[bytes]) -> Any:
        return None if value is None else form.write(value, blobs)

    return _Form(write, lambda plain, blobs: None if plain is None else form.read(plain, blobs))


def _items(inner: Any) -> _Form:
    form = _form(inner)

    def write(value: Any, blobs: list[bytes]) -> Any:
        return [form.write(item, blobs) for item in _of(tuple, value)]

    def read(plain: Any, blobs: Blobs) -> Any:
        return tuple(form.read(item, blobs) for item in _of(list, plain))

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
    pairs = _items(tuple[key, inner])

    def write(value: Any, blobs: list[bytes]) -> Any:
        if not isinstance(value, Mapping):
            raise NotOfType(f"a {type(value).__name__} is not a mapping")
        return pairs.write(tuple(value.items()), blobs)

    return _Form(write, lambda plain, blobs: dict(pairs.read(plain, blobs)))


def _record(kind: Any) -> _Form:
    hints = _hints(kind)
    forms = {field.name: _form(hints[field.name]) for field in fields(kind)}

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


_PLAIN: Final[dict[Any, _Form]] = {
    str: _Form(_write_text, lambda plain, _: _of(str, plain)),
    int: _number(int),
    float: _number(float, int),
}
"""Of every type that is not made of others."""
