"""Any Python text as text that every database takes, and back.

File names are bytes; Python reads those that are not UTF-8 with lone surrogates (PEP 383), which
neither SQLite nor PostgreSQL can store, and PostgreSQL refuses NUL. Both are written as DLE
("data link escape", U+0010) and four hexadecimal digits; DLE itself is written the same way. All
other text is stored as it is.
"""

from __future__ import annotations

import re
from typing import Final

ESCAPE: Final = "\x10"
_UNSTORABLE = re.compile("[\x00\x10\ud800-\udfff]")
_ESCAPED = re.compile("\x10([0-9a-f]{4})")


def storable(text: str) -> str:
    r"""Return the text with what no database takes escaped.

    Examples
    --------
    >>> storable("/scratch/caf\udce9"), storable("plain")
    ('/scratch/caf\x10dce9', 'plain')
    """
    if text.isascii() and "\x00" not in text and ESCAPE not in text:
        return text
    return _UNSTORABLE.sub(lambda match: f"{ESCAPE}{ord(match.group()):04x}", text)


def restored(text: str) -> str:
    """Return the text that `storable` was given."""
    if ESCAPE not in text:
        return text
    return _ESCAPED.sub(lambda match: chr(int(match.group(1), 16)), text)
