"""Changes of a snapshot as planes of bytes: the first byte of all numbers, the second, and so on.

Counters of one kind differ in their last bytes, which nothing foretells; their first bytes are
alike. Apart from each other the alike ones take next to nothing when compressed. Rows are in the
order of `order_of`, all targets' values of one reading side by side, for the same reason. Of
integers the sign stands apart: what a target has less in use it has more to spare, and the same
bytes stand there twice.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    import numpy as np

MAGIC: Final = b"planes02"
_HEAD: Final = struct.Struct("<8s4I")
_NUMBER, _INTEGER, _TEXT, _NEGATIVE = 1, 2, 4, 8


def order_of(readings: np.ndarray) -> np.ndarray:
    """Return the numbers of rows, those of one reading together, in the order of their first rows.

    Parameters
    ----------
    readings
        A number for each row: which reading it is of.
    """
    import numpy as np

    _, first, each = np.unique(readings, return_index=True, return_inverse=True)
    return np.argsort(first[each], kind="stable")


@dataclass(frozen=True, slots=True, eq=False)
class Changed:
    """Rows with other values than those of a base, in the order of `order_of`.

    Attributes
    ----------
    places
        Their positions in that order, ascending.
    is_number, is_integer
        Whether a row has such a value.
    numbers, integers
        As many as rows; 0 where a row has none. Integers are differences, modulo 2^64.
    texts
        Of the rows that have neither; ``None`` where a row has no value at all.
    """

    places: np.ndarray
    is_number: np.ndarray
    is_integer: np.ndarray
    numbers: np.ndarray
    integers: np.ndarray
    texts: list[str | None]

    def to_bytes(self) -> bytes:
        """Return them as bytes that compress well."""
        import numpy as np

        texts = [text for text in self.texts if text is not None]
        joined = "".join(texts)
        # As most are ASCII alone, none of them has to be encoded by itself.
        lengths = map(len, texts) if joined.isascii() else (len(text.encode()) for text in texts)
        kinds = _NUMBER * self.is_number + _INTEGER * self.is_integer
        kinds[kinds == 0] = [_TEXT * (text is not None) for text in self.texts]
        kinds += _NEGATIVE * (self.is_integer & (self.integers < 0))
        parts = (
            np.diff(self.places, prepend=0).astype("<u4"),
            kinds.astype("u1"),
            self.numbers[self.is_number].astype("<f8"),
            np.abs(self.integers[self.is_integer]).astype("<i8"),
            np.fromiter(lengths, "<u4", len(texts)),
        )
        head = _HEAD.pack(MAGIC, len(self.places), len(parts[2]), len(parts[3]), len(texts))
        planes = (part.view("u1").reshape(-1, part.itemsize).T.tobytes() for part in parts)
        return b"".join((head, *planes, joined.encode()))

    @classmethod
    def of(cls, data: bytes) -> Self:
        """Return what `to_bytes` was called on.

        Raises
        ------
        ValueError
            The bytes are damaged.
        """
        import numpy as np

        if len(data) < _HEAD.size or not data.startswith(MAGIC):
            raise ValueError("its head is missing")
        _, rows, *counts = _HEAD.unpack_from(data)
        at = _HEAD.size

        def part(kind: str, length: int) -> np.ndarray:
            nonlocal at
            size = np.dtype(kind).itemsize
            planes = np.frombuffer(data, "u1", size * length, at).reshape(size, length)
            at += size * length
            return np.ascontiguousarray(planes.T).view(kind).reshape(length)

        places = np.cumsum(part("<u4", rows).astype(np.int64))
        kinds = part("u1", rows)
        is_number, is_integer, has_text = (kinds & kind > 0 for kind in (_NUMBER, _INTEGER, _TEXT))
        if [int(flags.sum()) for flags in (is_number, is_integer, has_text)] != counts:
            raise ValueError("its rows and its values do not fit together")
        numbers, integers = np.zeros(rows), np.zeros(rows, np.int64)
        numbers[is_number] = part("<f8", counts[0])
        integers[is_integer] = part("<i8", counts[1])
        # The least of all has no positive counterpart, and is its own negative.
        np.negative(integers, out=integers, where=kinds & _NEGATIVE > 0)
        lengths = part("<u4", counts[2]).tolist()
        texts: list[str | None] = [None] * int((kinds & (_NUMBER | _INTEGER) == 0).sum())
        words = np.flatnonzero(has_text[~(is_number | is_integer)]).tolist()
        for word, length in zip(words, lengths, strict=True):
            texts[word] = data[at : at + length].decode()
            at += length
        if at != len(data):
            raise ValueError("it has another length than its head says")
        return cls(places, is_number, is_integer, numbers, integers, texts)
