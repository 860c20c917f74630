"""UUIDv7 identifiers: they sort by time, and any unique prefix names the row."""

from __future__ import annotations

import secrets
import uuid
from datetime import datetime


def new_identifier(at: datetime) -> str:
    """Return a new UUIDv7 as text, its first 48 bits the milliseconds of ``at`` (RFC 9562, 5.7).

    Examples
    --------
    >>> from datetime import UTC
    >>> new_identifier(datetime(2026, 11, 20, tzinfo=UTC))[:13]
    '01a1f640-bc00'
    """
    milliseconds = int(at.timestamp() * 1000) & ((1 << 48) - 1)
    value = milliseconds << 80 | secrets.randbits(80)
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return str(uuid.UUID(int=value))
