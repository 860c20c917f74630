"""What of an answer has to stay: numbers, codes, names and rows, but no wording.

``RULES`` are all that is normalised. A sentence keeps its code and its figures; one without a code
keeps its place.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, Final

from tests.support.sentences import numbers

from trimtab.base.code_version import __version__

VOLATILE: Final = frozenset(
    {
        *("elapsed_s", "latency_s_median", "latency_s_p99", "rows_per_s", "pace"),  # durations
        *("fsid", "uuid", "mount"),  # which mount it was
        *("sum", "sha256", "candidates_sha256"),  # hashes of what holds one of these
    }
)
"""Keys whose values are of the run and not of the answer."""
_TIME_OF_ID: Final = r"\b([0-9a-f]{8}-[0-9a-f]{4})"
RULES: Final = (
    (re.compile(_TIME_OF_ID + r"-7[0-9a-f]{3}(-[0-9a-f]{4}-[0-9a-f]{12})?\b"), r"\1-ID"),
    (re.compile(r"\b(trimtab-[\w-]+)-[0-9a-f]{12}\b"), r"\1-ID"),
    (re.compile(r"\bsha256:[0-9a-f]{64}\b"), "SHA256"),
    (re.compile(rf"\b{re.escape(__version__)}(\+[0-9a-f]{{16}})?\b"), "VERSION"),
)
"""The random part of an identifier (its time stays) and of a job's name; hashes of outputs that
name one; Trimtab's version, and of its source."""
NAMES: Final = frozenset({"command", "probe", "name", "file", "path", "argv", "source"})
"""Keys whose strings are names and never sentences, however many words they are of."""
ROWS_MOST: Final = 24
ROWS_HEAD: Final = 8
"""Of a longer list the first rows are kept as they are, and a hash of all."""
_DIGITS: Final = 9
"""Significant ones: the last bits of a logarithm are the processor's."""
_WORD: Final = re.compile(r"(?<!\S)[A-Za-z][a-z']+(?=[\s.,;:)]|$)")
SENTENCE: Final = "<sentence>"


def normal(value: Any) -> Any:
    """Return a value of JSON without what may change."""
    if isinstance(value, Mapping):
        return _object(value)
    if isinstance(value, list):
        return _cut([normal(item) for item in value])
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    return text(value) if isinstance(value, str) else value


def text(words: str) -> str:
    """Return a string by the rules; ``SENTENCE`` for one that people alone read."""
    return SENTENCE if is_sentence(words) else named(words)


def named(words: str) -> str:
    """Return a name by the rules."""
    for pattern, by in RULES:
        words = pattern.sub(by, words)
    return words


def is_sentence(words: str) -> bool:
    """Return whether a string is of words: three and more, and more than half of what it holds."""
    plain = len(_WORD.findall(words))
    return plain >= 3 and plain * 2 > len(words.split())


def _object(value: Mapping[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for written, held in value.items():
        key = named(written)
        one, several = f"{key}_code", f"{key}_codes"
        if key.endswith(("_code", "_codes")) and re.sub("_codes?$", "", key) in value:
            continue
        if key in VOLATILE:
            result[key] = None if held is None else "VOLATILE"
        elif one in value:
            result[key] = _sentence(held, value[one])
        elif several in value:
            result[key] = [_sentence(*pair) for pair in zip(held, value[several], strict=True)]
        elif key in NAMES and isinstance(held, str):
            result[key] = named(held)
        else:
            result[key] = normal(held)
    return result


def _sentence(words: str | None, code: str | None) -> Any:
    if words is None:
        return None
    return SENTENCE if code is None else {"code": code, "figures": sorted(numbers(text_of(words)))}


def text_of(words: str) -> str:
    """Return a sentence without what is not its own: identifiers have figures too."""
    for pattern, _ in RULES:
        words = pattern.sub("", words)
    return words


def _cut(rows: list[Any]) -> list[Any]:
    if len(rows) <= ROWS_MOST:
        return rows
    return [*rows[:ROWS_HEAD], {"rows": len(rows), "digest": digest(rows)}]


def digest(value: Any) -> str:
    """Return a short hash of a value of JSON."""
    written = json.dumps(value, sort_keys=True).encode()
    return hashlib.sha256(written).hexdigest()[:16]
