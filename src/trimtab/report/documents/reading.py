"""Documents that ``--json`` wrote, as values again: those whose pages the dashboard shows.

A document is believed only as a whole: a key that is missing, or holds something else, is a
`DataError`, never a figure that was not there.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from trimtab.errors import DataError, UsageError
from trimtab.message import Message
from trimtab.model.verdict import Interval
from trimtab.purge.horizon.answer import Answer
from trimtab.purge.horizon.curve import HOUR_S, Freed
from trimtab.purge.horizon.horizon import Horizon, HorizonStatus, KeptBack, OwnedBy, Step
from trimtab.purge.horizon.targets import Group, GroupHorizon, GroupHorizons
from trimtab.purge.horizon.usage import Usage
from trimtab.report.documents.encode import SCHEMA_VERSION
from trimtab.whatif.figures import KINDS
from trimtab.whatif.sweep import Row, SummedFigure, Swept
from trimtab.whatif.vary import Varied

Json = Mapping[str, Any]
_DAMAGE: Final = (
    *(KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError),
    UsageError,
)


@dataclass(frozen=True, slots=True)
class ReadHorizon:
    """A horizon as ``trimtab purge horizon --json`` wrote it.

    Attributes
    ----------
    answer
        Without the forecast of growth, which stands in its words.
    rules
        Those in force, a sentence each.
    total
        All regular files of the index.
    """

    root: str
    index: str
    answer: Answer
    rules: tuple[str, ...]
    total: Freed
    notes: tuple[str, ...]

    @property
    def usage(self) -> Usage:
        """How full the file system was."""
        return self.answer.needed.usage


@dataclass(frozen=True, slots=True)
class ReadWhatIf:
    """A sweep of the twin as ``trimtab whatif --json`` wrote it; without its scenarios.

    Attributes
    ----------
    scenario
        Name of the scenario that was varied.
    """

    scenario: str
    seed: int
    swept: Swept


def read_document(data: bytes) -> ReadHorizon | ReadWhatIf | None:
    """Return what a document says; ``None``: it is of another command.

    Raises
    ------
    DataError
        It is no document, of another version, or parts of it are missing or damaged.

    Examples
    --------
    >>> read_document(b'{"schema_version": 1, "store": "s"}') is None
    True
    """
    try:
        document = json.loads(data)
        if not isinstance(document, dict):
            raise TypeError("not an object")
        if (version := document["schema_version"]) != SCHEMA_VERSION:
            raise DataError(
                f"a document of version {version!r}; this is version {SCHEMA_VERSION}",
                code="document-version",
                hint="write it again with this version",
            )
        if {"combinations", "without_effect"} <= document.keys():
            return _what_if(document)
        if {"needed", "published", "steps"} <= document.keys():
            return _horizon(document)
    except _DAMAGE as error:
        missing = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise DataError(
            f"not a whole document of --json: {missing[:120]}", code="document-damaged"
        ) from error
    return None


# Horizons


def _horizon(document: Json) -> ReadHorizon:
    usage = _of_usage(document["usage"])
    needed = _cut_off(document["needed"], usage)
    answer = Answer(
        as_of_s=_seconds(document["as_of"]),
        needed=needed,
        published=_cut_off(document["published"], usage),
        growth=None,
        osts=_groups(document, "osts", needed),
        pools=_groups(document, "pools", needed),
        steps=tuple(
            Step(_hour(step["before"]), _whole(step["age_s"]), _freed(step["freed"]),
                 _usage(step["usage_after"]))
            for step in _list(document["steps"])
        ),
        users=_owners(document["users"]),
        projects=_owners(document["projects"]),
        future_files=_whole(document["future_files"]),
        words=_texts(document["words"]),
    )  # fmt: skip
    return ReadHorizon(
        root=_text(document["root"]),
        index=_text(document["index_id"]),
        answer=answer,
        rules=_texts(document["rules"]["words"]),
        total=_freed(document),
        notes=_texts(document["notes"]),
    )


def _cut_off(cut: Json, usage: Usage) -> Horizon:
    return Horizon(
        status=HorizonStatus(cut["status"]),
        target=_number(cut["target"]),
        usage=usage,
        required_bytes=_whole(cut["required_bytes"]),
        cut_off_hour=None if cut["before"] is None else _hour(cut["before"]),
        freed=_freed(cut["freed"]),
        after=_usage(cut["usage_after"]),
        eligible=_freed(cut["eligible"]),
        kept=tuple(
            KeptBack(_text(part["reason"]), _whole(part["files"]), _whole(part["allocated_bytes"]))
            for part in _list(cut["kept"])
        ),
        doubts=_texts(cut["doubts"]),
    )


def _owners(rows: Any) -> tuple[OwnedBy, ...]:
    return tuple(
        OwnedBy(_whole(row["id"]), *(_freed(row[name]) for name in ("least", "most", "eligible")))
        for row in _list(rows)
    )


def _groups(document: Json, name: str, needed: Horizon) -> GroupHorizons | None:
    rows = _list(document[name])
    if not rows:
        return None
    return GroupHorizons(
        youngest_hour=_hour(document["rules"]["old_enough_before"]),
        cut_off_hour=needed.cut_off_hour,
        target=needed.target,
        freed=needed.freed,
        groups=tuple(_group(row, is_pool=name == "pools") for row in rows),
    )


def _group(row: Json, *, is_pool: bool) -> GroupHorizon:
    name = _text(row["name"])
    osts = _texts(row["osts"]) if is_pool else (name,)
    return GroupHorizon(
        group=Group(
            "pool" if is_pool else "OST",
            name,
            tuple(int(ost.removeprefix("OST"), 16) for ost in osts),
            _number(row["limit"]),
        ),
        usage=_of_usage(row["usage"]),
        status=HorizonStatus(row["status"]),
        excess_bytes=_whole(row["excess_bytes"]),
        cut_off_hour=None if row["before"] is None else _hour(row["before"]),
        best=_usage(row["usage_at_best"]),
        freed=_freed(row["freed"]),
        after=_usage(row["usage_after"]),
    )


# What-if


def _what_if(document: Json) -> ReadWhatIf:
    rows = tuple(map(_row, _list(document["combinations"])))
    if not rows:
        raise ValueError("no combination")
    idle = {
        _text(entry["setting"]): Message(_text(entry["reason_code"]), _text(entry["reason"]))
        for entry in _list(document["without_effect"])
    }
    swept = Swept(
        rows=rows,
        seeds=_whole(document["seeds"]),
        until_s=_number(document["until_s"]),
        taken_up=0,
        without_effect=idle,
        assumptions=_texts(document["assumptions"]),
    )
    return ReadWhatIf(_text(document["scenario"]), _whole(document["seed"]), swept)


def _row(row: Json) -> Row:
    settings = tuple((_text(name), _text(value)) for name, value in row["settings"].items())
    by_name = {_text(figure["name"]): figure for figure in _list(row["figures"])}
    return Row(Varied(settings), tuple(_figures(by_name)))


def _figures(by_name: Mapping[str, Json]) -> Iterator[SummedFigure]:
    for kind in KINDS:
        figure = by_name[kind.name]
        if figure["unit"] != kind.unit:
            raise ValueError(f"{kind.name} in {figure['unit']!r}")
        level = figure["level"]
        yield SummedFigure(
            kind.name,
            _whole(figure["n"]),
            _known(figure["mean"]),
            _known(figure["median"]),
            _interval(figure["interval"], level),
            _known(figure["difference"]),
            _interval(figure["difference_interval"], level),
        )


# Leaves


def _interval(ends: Any, level: Any) -> Interval | None:
    if ends is None:
        return None
    low, high = map(_number, _list(ends))
    return Interval(low, high, _number(level))


def _freed(value: Json) -> Freed:
    return Freed(_whole(value["files"]), _whole(value["allocated_bytes"]))


def _usage(value: Json | None) -> Usage | None:
    return None if value is None else _of_usage(value)


def _of_usage(value: Json) -> Usage:
    return Usage(_whole(value["used_bytes"]), _whole(value["available_bytes"]))


def _hour(text: Any) -> int:
    return _seconds(text) // HOUR_S


def _seconds(text: Any) -> int:
    at = datetime.fromisoformat(_text(text))
    if at.tzinfo is None:
        raise ValueError(f"a time without an offset: {text!r}")
    return int(at.timestamp())


def _known(value: Any) -> float | None:
    return None if value is None else _number(value)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise TypeError(f"{value!r} is no number")
    return float(value)


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise TypeError(f"{value!r} is no whole number")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(map(_text, _list(value)))


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is no list")
    return value
