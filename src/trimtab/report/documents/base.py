"""What every document shares: strict fields, and intervals as ``[low, high]``."""

from __future__ import annotations

import json
from datetime import date, datetime
from typing import Any

from pydantic import BaseModel, ConfigDict

from trimtab.model.verdict import Interval

Bounds = tuple[float, float] | None


class Document(BaseModel):
    """The base of every document: no unknown keys, names as written."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    def to_json(self) -> str:
        """Return the document as JSON in ASCII.

        A file name that is not UTF-8 holds lone surrogates, which only an escape can carry;
        ``json.loads`` and ``os.fsencode`` give its bytes back.
        """
        # Not pydantic's own JSON: it refuses lone surrogates, in a dictionary's keys at the latest.
        return json.dumps(self.model_dump(by_alias=True), allow_nan=False, default=_rfc3339)


def rfc3339(at: datetime) -> str:
    """Return an aware time as RFC 3339."""
    return at.isoformat().replace("+00:00", "Z")


def _rfc3339(value: object) -> str:
    if isinstance(value, datetime):
        return rfc3339(value)
    if isinstance(value, date):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def bounds(interval: Interval | None) -> Bounds:
    """Return an interval as a pair; its level stands beside it in the document."""
    return None if interval is None else (interval.low, interval.high)


def level(*intervals: Interval | None) -> float | None:
    """Return the level of the first interval that is there."""
    return next((one.level for one in intervals if one is not None), None)


def fields(value: object, document: type[Document]) -> dict[str, Any]:
    """Return the attributes of a value that a document has under the same name."""
    return {name: getattr(value, name) for name in document.model_fields if hasattr(value, name)}
