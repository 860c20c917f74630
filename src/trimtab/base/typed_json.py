"""Answers of other machines as JSON, read strictly as the declared type and never as code.

Unpickling runs whatever the author of a pickle wants, so none is read here. Both sides share the
type that a question declares for its answers, and an answer is checked strictly against it. Tables
and tallies are text in the JSON, and floats keep every digit.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from dataclasses import is_dataclass
from functools import cache
from io import BytesIO
from operator import methodcaller
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any, Final, get_type_hints

from trimtab.base.error import ToolError, TrimtabError
from trimtab.base.visible import visible

if TYPE_CHECKING:
    from pydantic import TypeAdapter

ASK_WHOSE: Final = "is the scheduler the one that you started, and are all workers yours?"
_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")


class NotOfType(ValueError):
    """What was to be sent, or has arrived, is not of the type that is declared."""


def packed(kind: Any, value: Any) -> bytes:
    """Return a value of a type as bytes; numbers of numpy as those of Python."""
    return _adapter(kind).dump_json(value, warnings=False, fallback=methodcaller("item"))


def unpacked(kind: Any, data: Any) -> Any:
    """Return the value of a type that bytes from elsewhere stand for.

    Raises
    ------
    NotOfType
        They stand for none.
    """
    if type(data) is not bytes:
        raise NotOfType("an answer is not bytes")
    try:
        return _adapter(kind).validate_json(data, strict=True)
    except Exception as error:
        import polars as pl  # which an answer without a table does not need

        ours = (TrimtabError, pl.exceptions.PolarsError, OSError, TypeError, ValueError)
        if not isinstance(error, ours):
            raise
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


@cache  # each call would make types of its own, of which nothing was made before
def answer_type(question: Any) -> Any:
    """Return the type that a kind of question declares its answers to be of."""
    import polars as pl
    from pydantic import PlainSerializer, PlainValidator

    from trimtab._core import Tally

    def as_text(write: Any, read: Any) -> Any:
        return (
            PlainValidator(lambda text: read(b64decode(text, validate=True))),
            PlainSerializer(lambda value: b64encode(write(value)).decode()),
        )

    table = Annotated[pl.DataFrame, *as_text(_ipc, lambda data: pl.read_ipc(BytesIO(data)))]
    tally = Annotated[Tally, *as_text(lambda tally: tally.to_bytes(), Tally.from_bytes)]
    of_large = {"pl": SimpleNamespace(DataFrame=table), "Tally": tally}
    return get_type_hints(question.answer, localns=of_large, include_extras=True)["return"]


def _ipc(frame: Any) -> bytes:
    buffer = BytesIO()
    frame.write_ipc(buffer)
    return buffer.getvalue()


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    from pydantic import ConfigDict, TypeAdapter

    # Without it what is not finite would be sent as null; a dataclass takes no configuration.
    config = None if is_dataclass(kind) else ConfigDict(ser_json_inf_nan="constants")
    return TypeAdapter(kind, config=config)
