"""Read a site's policy file strictly, reporting every error with line, table and key.

An ineffective exemption would delete users' files, so nothing is ignored: an unknown user, a
relative path or one outside the root, and a misspelt key are errors.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from trimtab.config.files import parse_toml, read_text
from trimtab.config.kinds import quoted
from trimtab.config.lines import key_lines
from trimtab.config.problems import BadValue, Problem, config_error, problem_of
from trimtab.config.schema import Items
from trimtab.config.writer import Writer
from trimtab.errors import UsageError
from trimtab.message import Message
from trimtab.purge.index.owners import number_of
from trimtab.purge.policy import SCHEMA, Exemption, ExemptionKind, ExemptTable, Policy
from trimtab.purge.policy_checks import problems, warnings
from trimtab.visible import visible

_KINDS: Final[tuple[ExemptionKind, ...]] = ("path", "user", "group", "project")
_HEAD: Final = """\
# {name}: what may be deleted from {root}, when, and how carefully.
#
# Sizes, times and shares are text with a unit. A line behind a # has its default or is an
# example: take the # away to change it.
"""
_EXAMPLE_EXEMPTION: Final = """\
# Files retained regardless of age: one [[exempt]] for each path, user, group or project.
# [[exempt]]
# path = {path}
# until = 2030-01-31
# reason = "asked for by the project until its paper is out"
"""


Accounts = Callable[[str, str], int | None]
"""Returns the number of a ``user`` or ``group`` by name: `trimtab.purge.index.owners.number_of`."""


@dataclass(frozen=True, slots=True)
class LoadedPolicy:
    """A policy, the text of its file, and warnings about it."""

    policy: Policy
    text: str
    warnings: tuple[Message, ...] = ()

    @property
    def sha256(self) -> str:
        """SHA-256 of the text, as UTF-8."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def load_policy(path: str | os.PathLike[str]) -> LoadedPolicy:
    """Return the policy of a file, with the accounts of this host.

    Raises
    ------
    UsageError
        It cannot be read, is not TOML, has unknown keys, is contradictory, names an unknown
        account, or, when running as root, can be changed by others.
    """
    text = read_text(Path(path), "the policy file")
    return parse_policy(text, os.fspath(path), number_of)


def parse_policy(text: str, source: str, accounts: Accounts | None = None) -> LoadedPolicy:
    """Return the policy from the text of a file.

    Parameters
    ----------
    source
        Name of the file in errors.
    accounts
        Finds numbers of accounts. ``None``: each user and group must have its number, as written by
        `policy_text`. A plan has its policy in this form, so it means the same accounts wherever
        and whenever it is read.

    Raises
    ------
    UsageError
        As `load_policy`.
    """
    name = visible(source)
    values = parse_toml(text, name)
    values_read, wrong = SCHEMA.read(values)
    if wrong:
        raise config_error(wrong, name, key_lines(text))
    entries = values_read.pop("exemptions", [])
    policy: Policy = SCHEMA.build(values_read)
    exemptions, wrong = _exemptions(entries, policy.root, accounts)
    policy = replace(policy, exemptions=exemptions)
    if wrong := [*problems(policy), *wrong]:
        raise config_error(wrong, name, key_lines(text))
    return LoadedPolicy(policy, text, tuple(warnings(policy)))


def _exemptions(
    entries: Items, root: str, accounts: Accounts | None
) -> tuple[tuple[Exemption, ...], list[Problem]]:
    exemptions, wrong = [], []
    for number, values in entries:
        try:
            exemptions.append(_exemption(ExemptTable(**values), root, accounts))
        except UsageError as error:
            key = next((key for key in (*_KINDS, "path_hex") if key in values), "")
            location = ("exempt", number, key) if key else ("exempt", number)
            wrong.append(problem_of(error, location))
    return tuple(exemptions), wrong


def _exemption(table: ExemptTable, root: str, accounts: Accounts | None) -> Exemption:
    named = [key for key in (*_KINDS, "path_hex") if getattr(table, key) is not None]
    if len(named) != 1:
        raise BadValue(
            f"it names {' and '.join(named) or 'nothing'}: an exemption has exactly one subject",
            code="exemption-ambiguous",
            hint="one of path, user, group and project; write another [[exempt]] for the next",
        )
    until, reason = table.until, table.reason or ""
    (key,) = named
    if key in ("path", "path_hex"):
        if table.id is not None:
            raise BadValue("a path has no id", code="exemption-id", hint="omit id")
        value, name = _path(table, root)
        return Exemption("path", value, until, reason, name)
    if table.project is not None:
        return _project(table.project, table.id, until, reason)
    kind: ExemptionKind = "user" if table.user is not None else "group"
    who = table.user if table.user is not None else table.group
    assert who is not None
    number = _number(kind, who, table.id, accounts)
    return Exemption(kind, number, until, reason, who if isinstance(who, str) else "")


def _project(project: int, id_: int | None, until: Any, reason: str) -> Exemption:
    if id_ is not None:
        raise BadValue("a project is a number itself", code="exemption-id", hint="omit id")
    if project == 0:
        raise BadValue(
            "project 0 means all files without a project",
            code="out-of-range",
            hint="exempt a path, or the root itself",
        )
    return Exemption("project", project, until, reason)


def _path(table: ExemptTable, root: str) -> tuple[bytes, str]:
    """Return a path relative to the root, and as in the file."""
    if table.path_hex is not None:
        try:
            whole, name = bytes.fromhex(table.path_hex), ""
        except ValueError as error:
            raise BadValue(
                f"{visible(table.path_hex[:80])!r} is not hexadecimal", code="malformed-value"
            ) from error
    else:
        assert table.path is not None
        whole, name = table.path.encode(), table.path
    shown = visible(whole[:200])
    if not whole.startswith(b"/"):
        raise BadValue(
            f"{shown!r} is relative", code="path-relative", hint=f"write it in full: {root}/..."
        )
    if b"\0" in whole:
        raise BadValue(
            f"{shown!r} contains a zero byte, which no file name can", code="control-character"
        )
    parts = [part for part in whole.split(b"/") if part]
    if b".." in parts or b"." in parts:
        raise BadValue(
            f'{shown!r} contains "." or "..": names are compared, not followed',
            code="path-with-dots",
            hint="write the actual path",
        )
    above = [part for part in root.encode().split(b"/") if part]
    if parts[: len(above)] != above:
        raise BadValue(
            f"{shown!r} is not below {visible(root)}: it would exempt nothing",
            code="path-outside-root",
            hint="links are not followed: write the path below the root",
        )
    return b"/".join(parts[len(above) :]), name


def _number(kind: ExemptionKind, who: str | int, id_: int | None, accounts: Accounts | None) -> int:
    """Return an account's number from the name service, or as fixed by the file."""
    if isinstance(who, int):
        if id_ not in (None, who):
            raise BadValue(f"{kind} {who} has id {id_}", code="account-number", hint="omit id")
        return who
    known = None if accounts is None else accounts(kind, who)
    if id_ is None and accounts is None:
        raise BadValue(
            f"{kind} {visible(who)!r} has no number",
            code="account-without-number",
            hint="id = 1234",
        )
    if id_ is None and known is None:
        raise BadValue(
            f"unknown {kind} {visible(who)!r}: nothing would be exempt",
            code="account-unknown",
            hint=f"if the account is gone, write its number: {kind} = 1234",
        )
    if id_ is not None and known is not None and id_ != known:
        raise BadValue(
            f"{kind} {visible(who)!r} is {known} here and {id_} in the file",
            code="account-number",
            hint="omit id to use the name, or give only the number",
        )
    number = known if id_ is None else id_
    assert number is not None
    return number


def policy_text(policy: Policy, *, every_key: bool = False) -> str:
    """Return the text of a policy file that reads back to ``policy``.

    Users and groups have their numbers, so it means the same accounts wherever it is read
    (`parse_policy` without accounts).

    Parameters
    ----------
    every_key
        Also write defaults, without a ``#``: a plan's policy must not change with the defaults of
        another version.

    Raises
    ------
    UsageError
        The policy is contradictory, or has a value that cannot be written.
    """
    texts = [_HEAD.format(name=visible(policy.name), root=visible(policy.root))]
    texts += Writer(SCHEMA, every_key=every_key).tables(policy)
    texts += ["\n".join(_exemption_text(each, policy.root)) + "\n" for each in policy.exemptions]
    if not policy.exemptions:
        texts.append(_EXAMPLE_EXEMPTION.format(path=quoted(f"{policy.root}/reference")))
    text = "\n".join(texts)
    if parse_policy(text, f"the policy {policy.name}").policy != policy:
        raise UsageError(
            f"the policy {visible(policy.name)!r} has a value that cannot be written exactly",
            code="value-inexact",
        )
    return text


def _exemption_text(exemption: Exemption, root: str) -> Iterator[str]:
    yield "[[exempt]]"
    if isinstance(exemption.value, bytes):
        path = root.encode() + (b"/" + exemption.value if exemption.value else b"")
        name = exemption.name
        yield f"path = {quoted(name)}" if name else f'path_hex = "{path.hex()}"'
    elif exemption.kind == "project" or not exemption.name:
        yield f"{exemption.kind} = {exemption.value}"
    else:
        yield f"{exemption.kind} = {quoted(exemption.name)}"
        yield f"id = {exemption.value}"
    if exemption.until is not None:
        yield f"until = {exemption.until.isoformat()}"
    if exemption.reason:
        yield f"reason = {quoted(exemption.reason)}"


@dataclass(frozen=True, slots=True)
class PurgePolicyDocument:
    """A policy file that was written or read; ``file`` is null if it was only printed."""

    file: str | None
    name: str
    root: str
    sha256: str
    warnings: tuple[str, ...]
    text: str
