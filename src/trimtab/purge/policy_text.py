"""A policy as a commented file that reads back to the same policy."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final

from trimtab.errors import UsageError
from trimtab.purge.policy import Exemption, Policy
from trimtab.purge.policy_file import parse_policy
from trimtab.units import parse_fraction
from trimtab.visible import visible

_COMMENT_COLUMN: Final = 34
_BYTES: Final = (("PiB", 2**50), ("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))
_SECONDS: Final = (("w", 604800), ("d", 86400), ("h", 3600), ("m", 60))
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_SHORT_ESCAPES: Final = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
_UNSEEN: Final = frozenset({"Cc", "Cf", "Co", "Cn", "Zl", "Zp"})
_EXAMPLES: Final = {
    "policy.target": '"70%"',
    "policy.target_ost": '"75%"',
    "policy.target_pool": '{ flash = "75%" }',
    "notice.forecast": '"7d"',
    "notice.directory": '"/var/spool/trimtab/notices"',
    "notice.mail_to": '"{user}@example.org"',
    "notice.mail_map": '"/etc/trimtab/addresses"',
    "notice.mail_from": '"storage@example.org"',
    "notice.contact": '"the help desk, storage@example.org"',
}
_HEAD: Final = """\
# {name}: what may be deleted from {root}, when, and how carefully.
#
# Sizes, times and shares are text with a unit. A line behind a # has its default or is an
# example: take the # away to change it.
"""
_EXAMPLE_EXEMPTION: Final = """\
# What stays whatever its age: one [[exempt]] for each path, user, group or project.
# [[exempt]]
# path = {path}
# until = 2030-01-31
# reason = "asked for by the project until its paper is out"
"""


def policy_text(policy: Policy, *, every_key: bool = False) -> str:
    """Return the text of a policy file that reads back to ``policy``.

    Users and groups stand with their numbers, so that it means the same people wherever it is
    read (`trimtab.purge.policy_file.parse_policy` without accounts).

    Parameters
    ----------
    every_key
        Write what has its default too, not behind a ``#``: a plan's policy must not change with
        the defaults of another version.

    Raises
    ------
    UsageError
        The policy contradicts itself, or holds what no file can say.
    """
    text = _text(policy, every_key=every_key)
    if parse_policy(text, f"the policy {policy.name}").policy != policy:
        raise UsageError(
            f"the policy {visible(policy.name)!r} holds a value that a file cannot say exactly"
        )
    return text


def key_table() -> str:
    """Return the rows of the table of all keys in the docs: key, what, default."""
    from trimtab.purge.policy_schema import ATTRIBUTES, table_names, table_of

    usual = Policy("", "")
    rows = []
    for name in table_names():
        for key, field in table_of(name).model_fields.items():
            location = f"{name}.{key}"
            text = _value(location, _get(usual, ATTRIBUTES[location]))
            default = "required" if field.is_required() else "" if text is None else f"`{text}`"
            rows.append(f"| `[{name}] {key}` | {field.description} | {default} |\n")
    return "".join(rows)


def _text(policy: Policy, *, every_key: bool) -> str:
    from trimtab.purge.policy_schema import table_names

    blocks = [_HEAD.format(name=visible(policy.name), root=visible(policy.root))]
    usual = Policy(policy.name, policy.root)
    for name in table_names():
        blocks.append("\n".join(_table(name, policy, usual, every_key)) + "\n")
    for one in policy.exemptions:
        blocks.append("\n".join(_exemption(one, policy.root)) + "\n")
    if not policy.exemptions:
        blocks.append(_EXAMPLE_EXEMPTION.format(path=_quoted(f"{policy.root}/reference")))
    return "\n".join(blocks)


def _table(name: str, policy: Policy, usual: Policy, every_key: bool) -> Iterator[str]:
    from trimtab.purge.policy_schema import ATTRIBUTES, table_of

    table = table_of(name)
    yield f"# {(table.__doc__ or '').strip()}"
    yield f"[{name}]"
    for key, field in table.model_fields.items():
        location = f"{name}.{key}"
        attribute = ATTRIBUTES[location]
        value = _get(policy, attribute)
        is_default = value == _get(usual, attribute) and not field.is_required()
        text = _value(location, value)
        hidden = text is None or (is_default and not every_key)
        line = f"{'# ' if hidden else ''}{key} = {text or _EXAMPLES[location]}"
        yield f"{line.ljust(_COMMENT_COLUMN)}  # {field.description}"


def _get(policy: Policy, attribute: str) -> Any:
    group, _, name = attribute.rpartition(".")
    return getattr(getattr(policy, group) if group else policy, name)


def _value(location: str, value: Any) -> str | None:
    """Return a value as TOML; ``None`` where the key is left out."""
    from trimtab.purge.policy_schema import ATTRIBUTES, UNLIMITED

    attribute = ATTRIBUTES[location]
    if value is None:
        return _quoted(UNLIMITED) if location.startswith("caps.") else None
    if value in ("keep", "delete"):
        return "true" if value == "keep" else "false"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _quoted(value)
    if attribute == "target_pool":
        each = [f"{_key(name)} = {_fraction(limit)}" for name, limit in value]
        return f"{{ {', '.join(each)} }}" if each else None
    if isinstance(value, tuple):
        return f"[{', '.join(_quoted(str(one)) for one in value)}]"
    if attribute.endswith("_s"):
        return _duration(value)
    if attribute.endswith("bytes"):
        return _size(value)
    if attribute.endswith("_fraction") or attribute in ("target", "target_ost"):
        return _fraction(value)
    return repr(value)


def _exemption(one: Exemption, root: str) -> Iterator[str]:
    yield "[[exempt]]"
    if isinstance(one.value, bytes):
        yield _path(one.value, one.name, root)
    elif one.kind == "project" or not one.name:
        yield f"{one.kind} = {one.value}"
    else:
        yield f"{one.kind} = {_quoted(one.name)}"
        yield f"id = {one.value}"
    if one.until is not None:
        yield f"until = {one.until.isoformat()}"
    if one.reason:
        yield f"reason = {_quoted(one.reason)}"


def _path(value: bytes, name: str, root: str) -> str:
    if name:
        return f"path = {_quoted(name)}"
    whole = root.encode() + (b"/" + value if value else b"")
    return f'path_hex = "{whole.hex()}"'


def _fraction(value: float) -> str:
    text = f"{format(Decimal(repr(value)) * 100, 'f')}".rstrip("0").rstrip(".") + "%"
    try:
        exact = parse_fraction(text) == value
    except UsageError:  # more than all: the reading of the whole refuses it by its key
        exact = False
    return f'"{text}"' if exact else repr(value)


def _size(value_bytes: int) -> str:
    for unit, factor in _BYTES:
        if value_bytes and value_bytes % factor == 0:
            return f'"{value_bytes // factor}{unit}"'
    return f'"{value_bytes}"'


def _duration(value_s: float) -> str:
    for unit, factor in _SECONDS:
        # A single week, day or hour reads better in the unit below, except a day: 24h, 7d.
        if value_s >= 2 * factor and value_s % factor == 0:
            return f'"{int(value_s // factor)}{unit}"'
    text = format(Decimal(repr(value_s)), "f")
    return f'"{text.removesuffix(".0")}s"'


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _quoted(name)


def _quoted(text: str) -> str:
    return f'"{"".join(_escaped(character) for character in text)}"'


def _escaped(character: str) -> str:
    if character in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[character]
    if unicodedata.category(character) in _UNSEEN:
        code = ord(character)
        return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
    return character
