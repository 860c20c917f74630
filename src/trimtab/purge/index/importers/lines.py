"""Records that end with a line feed, which may stand in a name too: lines put together again."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from trimtab.purge.index.importers.printf import END_WORD, Format, take_end
from trimtab.purge.index.reading import RECORD_MAX_BYTES, Reading, Records


class Joiner:
    """Puts lines together to records; a record is whole when the next one begins.

    A record over several lines is a path with line feeds where each record has its token, and
    cannot be told from several records where there is none.
    """

    def __init__(self, reading: Reading, form: Format, token: bytes | None) -> None:
        self._reading = reading
        self._token = b"" if token is None else token + b"\t"
        begins = form.begins().match
        self._begins: Callable[[bytes], object] = (
            (lambda text: text.startswith(self._token)) if self._token else begins
        )
        self._lines: list[bytes] = []
        self._length = 0
        self._place: tuple[int, int | None] = (0, 0)

    def add(self, lines: Records) -> Records:
        """Return the records that are whole now."""
        if len(lines) and self._are_records(lines.texts):
            return self._each_a_record(lines)
        texts: list[bytes] = []
        places: list[tuple[int, int | None]] = []
        number, offset = lines.locate(0) if len(lines) else (0, 0)
        for text in lines.texts:
            if self._begins(text) and self._lines:
                self._close(texts, places)
            if not self._lines:
                self._place = number, offset
            self._length += len(text) + 1
            # What is far too long is no path: count on, but keep no more of it.
            if self._length <= RECORD_MAX_BYTES or not self._lines:
                self._lines.append(text)
            number, offset = number + 1, (offset or 0) + len(text) + 1
        return Records(texts, places.__getitem__)

    def _are_records(self, texts: Sequence[bytes]) -> bool:
        """Return whether each line begins with the token, and none ends the list or is odd."""
        return (
            bool(self._token)
            and not self._reading.ended_well
            and all(map(self._begins, texts))
            and not any(text.startswith(self._token + END_WORD) for text in texts)
            and max(map(len, texts)) < RECORD_MAX_BYTES
        )

    def _each_a_record(self, lines: Records) -> Records:
        """Return what was kept and each line but the last, after which its record may go on."""
        before = self.last()
        many, length = len(before), len(self._token)
        texts = [*before.texts, *(text[length:] for text in lines.texts[:-1])]
        self._lines, self._place = [lines.texts[-1]], lines.locate(len(lines) - 1)
        self._length = len(lines.texts[-1]) + 1
        return Records(
            texts, lambda at: before.locate(at) if at < many else lines.locate(at - many)
        )

    def last(self) -> Records:
        """Return the record that the list ends with."""
        texts: list[bytes] = []
        places: list[tuple[int, int | None]] = []
        if self._lines:
            self._close(texts, places)
        return Records(texts, places.__getitem__)

    def _close(self, texts: list[bytes], places: list[tuple[int, int | None]]) -> None:
        """Take the lines so far as a record, or refuse it."""
        lines, self._lines = self._lines, []
        length, self._length = self._length, 0
        text = b"\n".join(lines)
        reason = ""
        if not self._begins(lines[0]):
            reason = "it is no record of this format"
        elif length > RECORD_MAX_BYTES:
            reason = "it has no end"
        elif self._reading.ended_well:
            self._reading.ended_well = False
            reason = "it comes after the end of the list"
        elif not self._token and len(lines) > 1:
            reason = "a line feed in its name, or a line that is no record after it"
        if reason:
            number, offset = self._place
            self._reading.refuse(reason, record=number, offset=offset, text=text)
            return
        text = text[len(self._token) :]
        if not (self._token and text.startswith(END_WORD) and take_end(text, self._reading)):
            texts.append(text)
            places.append(self._place)
