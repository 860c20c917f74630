r"""Escape file names, which are arbitrary bytes, as one line of reversible text.

Printable characters other than the backslash are unchanged. The rest becomes ``\\``, ``\n``,
``\t``, ``\r`` or, byte by byte, ``\xHH``: control characters, bytes that are not UTF-8, characters
that are invisible or change the writing direction, all spaces other than the ordinary one, and that
one at either end. ``printf '%b' TEXT`` in bash reverses it.

`trimtab.visible` is for display only; its escapes of non-ASCII characters (``\u202e``) do not
preserve the bytes.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from trimtab.errors import DataError
from trimtab.visible import visible

PLAIN: Final = re.compile(rb"[!-\[\]-~](?:[ -\[\]-~]*[!-\[\]-~])?\Z|\Z")
"""Names that need no escaping: printable ASCII without backslash, no space at either end."""

_UNSHOWN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
_NAMED: Final = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\\": "\\\\"}
_BYTES: Final = {"n": b"\n", "t": b"\t", "r": b"\r", "\\": b"\\"}
_ESCAPE: Final = re.compile(r"\\(?:([ntr\\])|x([0-9a-f]{2}))")
_SHOWN_MAX: Final = 200


def escape(name: bytes) -> str:
    r"""Return a name as visible text on one line; `unescape` restores the bytes.

    Examples
    --------
    >>> print(escape(b"a\nb\xff \\ \xe2\x80\xae"))
    a\nb\xff \\ \xe2\x80\xae
    >>> print(escape("Übung 1".encode()), escape(b" x "))
    Übung 1 \x20x\x20
    """
    if PLAIN.match(name):
        return name.decode("ascii")
    text = name.decode("utf-8", "surrogateescape")
    last = len(text) - 1
    return "".join(
        _shown(character, at_edge=place in (0, last)) for place, character in enumerate(text)
    )


def unescape(text: str) -> bytes:
    r"""Return the bytes of an escaped name.

    Raises
    ------
    DataError
        Invalid escape: `escape` did not write this text.

    Examples
    --------
    >>> unescape(r"a\nb\xff\\")
    b'a\nb\xff\\'
    """
    parts: list[bytes] = []
    end = 0
    for match in _ESCAPE.finditer(text):
        parts.append(_literal(text[end : match.start()], text))
        named, code = match.groups()
        parts.append(_BYTES[named] if named else bytes([int(code, 16)]))
        end = match.end()
    parts.append(_literal(text[end:], text))
    return b"".join(parts)


def _shown(character: str, *, at_edge: bool) -> str:
    if character in _NAMED:
        return _NAMED[character]
    if character == " ":
        return "\\x20" if at_edge else " "
    if unicodedata.category(character) not in _UNSHOWN:
        return character
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))


def _literal(part: str, whole: str) -> bytes:
    if "\\" not in part:
        try:
            return part.encode("utf-8")
        except UnicodeEncodeError:
            pass
    raise DataError(
        f"{visible(whole[:_SHOWN_MAX])!r} is not an escaped name",
        code="escape-malformed",
        hint="write a backslash in a name as two, other bytes as \\xHH",
    )
