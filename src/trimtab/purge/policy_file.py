"""Reading a site's policy file: strict, every error with the line, the table and the key.

An exemption that does not hold deletes somebody's files, so nothing here is passed over: a user
that does not exist, a path that is relative or lies elsewhere, a key that is misspelt are errors.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from trimtab.errors import UsageError
from trimtab.purge.policy import Exemption, ExemptionKind, Policy
from trimtab.purge.policy_checks import problems, warnings
from trimtab.site.checks import Problem
from trimtab.site.load import parse_toml, read_text
from trimtab.site.locate import line_of
from trimtab.site.problems import (
    SHOWN_PROBLEMS,
    common_problem,
    lines_of,
    one_error,
    told,
    unknown_key,
)
from trimtab.units import is_digits
from trimtab.visible import visible

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from trimtab.purge.policy_schema import ExemptTable, PolicyFile

_KINDS: Final[tuple[ExemptionKind, ...]] = ("path", "user", "group", "project")


class Accounts(Protocol):
    """Who has which number."""

    def uid(self, name: str) -> int | None:
        """Return a user's number; ``None`` where there is no such user."""
        ...

    def gid(self, name: str) -> int | None:
        """Return a group's number; ``None`` where there is no such group."""
        ...


class HostAccounts:
    """The accounts of this host, as its name service gives them."""

    def uid(self, name: str) -> int | None:
        """Return a user's number; ``None`` where there is no such user."""
        import pwd

        try:
            return pwd.getpwnam(name).pw_uid
        except (KeyError, ValueError):
            return None

    def gid(self, name: str) -> int | None:
        """Return a group's number; ``None`` where there is no such group."""
        import grp

        try:
            return grp.getgrnam(name).gr_gid
        except (KeyError, ValueError):
            return None


@dataclass(frozen=True, slots=True)
class LoadedPolicy:
    """A policy, its file's text, and what in it is allowed and probably not meant."""

    policy: Policy
    text: str
    warnings: tuple[str, ...] = ()

    @property
    def sha256(self) -> str:
        """Of the text, as UTF-8."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def load_policy(path: str | os.PathLike[str], accounts: Accounts | None = None) -> LoadedPolicy:
    """Return the policy that a file describes.

    Parameters
    ----------
    accounts
        Who has which number; ``None``: this host's.

    Raises
    ------
    UsageError
        It cannot be read, is not TOML, holds what does not belong there, contradicts itself,
        names somebody who does not exist, or, where we are root, can be changed by others.
    """
    text = read_text(Path(path), "the policy file")
    return parse_policy(text, os.fspath(path), HostAccounts() if accounts is None else accounts)


def parse_policy(text: str, source: str, accounts: Accounts | None = None) -> LoadedPolicy:
    """Return the policy that the text of a file describes.

    Parameters
    ----------
    source
        What errors call it.
    accounts
        Who has which number. ``None``: nobody is asked, and each user and group has to stand
        with its number, as `trimtab.purge.policy_text.policy_text` writes them: a plan holds its
        policy so, and means the same people wherever and whenever it is read.

    Raises
    ------
    UsageError
        As `load_policy`.
    """
    from pydantic import ValidationError

    from trimtab.purge.policy_schema import PolicyFile

    name = visible(source)
    values = parse_toml(text, name)
    try:
        file = PolicyFile.model_validate(values)
    except ValidationError as error:
        details = error.errors(include_url=False)
        found = [_problem(one) for one in details[:SHOWN_PROBLEMS]]
        raise _error(found, name, text, count=len(details)) from error
    policy = _policy_of(file)
    exemptions, found = _exemptions(file.exempt, policy.root, accounts)
    policy = replace(policy, exemptions=exemptions)
    if found := [*problems(policy), *found]:
        raise _error(found, name, text, count=len(found))
    return LoadedPolicy(policy, text, tuple(warnings(policy)))


def _policy_of(file: PolicyFile) -> Policy:
    """Return the plain values; what the file does not say has the model's default."""
    from trimtab.purge.policy_schema import ATTRIBUTES, UNLIMITED

    policy = Policy(file.policy.name, file.policy.root)
    for location, attribute in ATTRIBUTES.items():
        table_name, key = location.split(".")
        table = getattr(file, table_name)
        if key not in table.model_fields_set:
            continue
        value = getattr(table, key)
        if table_name == "caps" and value == UNLIMITED:
            value = None
        if isinstance(value, dict):
            value = tuple(sorted(value.items()))
        if attribute.endswith("_files") and table_name == "keep" and key != "root_files":
            value = "keep" if value else "delete"
        policy = _with(policy, attribute, value)
    return policy


def _with(policy: Policy, attribute: str, value: Any) -> Policy:
    group, _, name = attribute.rpartition(".")
    if not group:
        return replace(policy, **{name: value})
    return replace(policy, **{group: replace(getattr(policy, group), **{name: value})})


def _exemptions(
    tables: Sequence[ExemptTable], root: str, accounts: Accounts | None
) -> tuple[tuple[Exemption, ...], list[Problem]]:
    exemptions, found = [], []
    for number, table in enumerate(tables):
        try:
            exemptions.append(_exemption(table, root, accounts))
        except UsageError as error:
            key = next((key for key in (*_KINDS, "path_hex") if key in table.model_fields_set), "")
            location = ("exempt", str(number), key) if key else ("exempt", str(number))
            found.append(Problem(location, error.message, error.hint))
    return tuple(exemptions), found


def _exemption(table: ExemptTable, root: str, accounts: Accounts | None) -> Exemption:
    given = [key for key in (*_KINDS, "path_hex") if getattr(table, key) is not None]
    if len(given) != 1:
        raise UsageError(
            f"it names {' and '.join(given) or 'nothing'}: an exemption is of one thing",
            hint="one of path, user, group and project; write another [[exempt]] for the next",
        )
    until, reason = table.until, table.reason or ""
    (key,) = given
    if key in ("path", "path_hex"):
        if table.id is not None:
            raise UsageError("a path has no id", hint="leave id out")
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
        raise UsageError("a project is its number already", hint="leave id out")
    if project == 0:
        raise UsageError(
            "project 0 is every file that has none", hint="exempt a path, or the root itself"
        )
    return Exemption("project", project, until, reason)


def _path(table: ExemptTable, root: str) -> tuple[bytes, str]:
    """Return a path relative to the root, and as the file has it."""
    if table.path_hex is not None:
        try:
            whole, name = bytes.fromhex(table.path_hex), ""
        except ValueError as error:
            raise UsageError(f"{visible(table.path_hex[:80])!r} is not hexadecimal") from error
    else:
        assert table.path is not None
        whole, name = table.path.encode(), table.path
    shown = visible(whole[:200].decode("utf-8", "surrogateescape"))
    if not whole.startswith(b"/"):
        raise UsageError(
            f"{shown!r} is relative: to what is not said", hint=f"write it in full: {root}/..."
        )
    if b"\0" in whole:
        raise UsageError(f"{shown!r} holds a zero byte: no file is called so")
    parts = [part for part in whole.split(b"/") if part]
    if b".." in parts or b"." in parts:
        raise UsageError(
            f'{shown!r} holds "." or "..": names are compared, not followed',
            hint="write the path as it is",
        )
    above = [part for part in root.encode().split(b"/") if part]
    if parts[: len(above)] != above:
        raise UsageError(
            f"{shown!r} is not beneath {visible(root)}: it would keep nothing",
            hint="links are not followed: write the path beneath the root",
        )
    return b"/".join(parts[len(above) :]), name


def _number(kind: ExemptionKind, who: str | int, id_: int | None, accounts: Accounts | None) -> int:
    """Return an account's number: as the name service has it, or as the file fixes it."""
    if isinstance(who, int):
        if id_ not in (None, who):
            raise UsageError(f"{kind} {who} has id {id_}", hint="leave id out")
        return who
    known = None
    if accounts is not None:
        known = accounts.uid(who) if kind == "user" else accounts.gid(who)
    if id_ is None and accounts is None:
        raise UsageError(f"{kind} {visible(who)!r} stands without its number", hint="id = 1234")
    if id_ is None and known is None:
        raise UsageError(
            f"there is no {kind} {visible(who)!r}: nothing would be kept",
            hint=f"if the account is gone, write its number: {kind} = 1234",
        )
    if id_ is not None and known is not None and id_ != known:
        raise UsageError(
            f"{kind} {visible(who)!r} is {known} here and {id_} in the file",
            hint="whose files are to stay? leave id out for the name, the name out for the number",
        )
    number = known if id_ is None else id_
    assert number is not None
    return number


def _problem(error: ErrorDetails) -> Problem:
    location = tuple(str(part) for part in error["loc"])
    context: Any = error.get("ctx", {})
    shown = visible(repr(error["input"])[:80])
    match error["type"]:
        case "site":
            return Problem(location, context["message"], context["hint"] or None)
        case "extra_forbidden":
            return _unknown_key(location)
        case "missing":
            example: dict[tuple[str, ...], str] = {
                ("policy", "name"): 'name = "scratch"',
                ("policy", "root"): 'root = "/..."',
            }
            return Problem(location, "is missing", example.get(location, "write [policy]"))
        case "literal_error":
            return Problem(location, f"{shown} is not {context['expected']}".replace("'", '"'))
        case "list_type":
            return Problem(location, "is to be a list of tables", "write [[exempt]]")
        case _:
            return common_problem(error, location)


def _unknown_key(location: tuple[str, ...]) -> Problem:
    from trimtab.purge.policy_schema import ATTRIBUTES, PolicyFile, table_of

    *above, key = location
    known = (table_of(above[0]) if above else PolicyFile).model_fields
    elsewhere = [at.split(".")[0] for at in ATTRIBUTES if at.split(".")[1] == key]
    return unknown_key(location, known, elsewhere)


def _error(found: Sequence[Problem], name: str, text: str, *, count: int) -> UsageError:
    """Return one error for the first problems of ``count``; exemptions go by their number."""
    lines = lines_of(text, ("exempt",))

    def tell(problem: Problem) -> str:
        return told(problem, name, line_of(lines, problem.location), _where(problem.location))

    return one_error(found, tell, count=count)


def _where(location: Iterable[str]) -> str:
    table, *rest = (visible(part[:80]) for part in location)
    if table == "exempt" and rest and is_digits(rest[0]):
        return " ".join((f"[[exempt]] {int(rest[0]) + 1}", *rest[1:]))
    return " ".join((f"[{table}]", *rest))
