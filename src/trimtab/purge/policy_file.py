"""Read, check and write a site's policy file; every error has its line, table and key.

An ineffective exemption would delete users' files, so nothing is ignored: an unknown user, a
relative path or one outside the root, and a misspelt key are errors. `problems` and `warnings` find
contradictions and doubtful choices in a policy; both are pure.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, Final

from trimtab.base.error import Message, UnreadableError, UsageError, visible
from trimtab.base.toml_kind import quoted
from trimtab.base.toml_problem import (
    BadValue,
    Problem,
    config_error,
    key_lines,
    name_problems,
    problem_of,
)
from trimtab.base.toml_schema import Items
from trimtab.base.toml_writer import Writer
from trimtab.base.trusted_file import parse_toml, read_text
from trimtab.base.units import format_duration, format_percent
from trimtab.purge.owner import number_of
from trimtab.purge.purge_policy import (
    DAY_S,
    POOL_NAME,
    SCHEMA,
    WEEK_S,
    Exemption,
    ExemptionKind,
    ExemptTable,
    Policy,
)

_USUAL_NOTICE_S: Final = WEEK_S
_USUAL_AGE_S: Final = 4 * WEEK_S
_EMPTY_TARGET: Final = 0.2
"""A lower target is probably meant as the part to free, not the part to leave."""


def problems(policy: Policy) -> Iterator[Problem]:
    """Yield contradictions and requests that this version cannot satisfy."""
    yield from name_problems(policy.name, ("policy", "name"))
    yield from _root(policy.root)
    yield from _targets(policy)
    for noun, why in (
        ("immutable", "the flag was set on purpose: remove it with chattr -i first"),
        ("moved", "no list has the file's new path; the next plan will"),
    ):
        if getattr(policy, f"{noun}_files") != "keep":
            yield Problem(
                ("keep", f"{noun}_files"), f"{noun} files are always retained", why, "always-kept"
            )
    yield from _files(policy)
    yield from _mail(policy)


def warnings(policy: Policy) -> Iterator[Message]:
    """Yield what is allowed but probably not intended."""
    yield from _short_times(policy)
    limits = [limit for _, limit in policy.target_pool]
    whole = [limit for limit in (policy.target, policy.target_ost) if limit is not None]
    lowest = min([*limits, *whole], default=1.0)
    caps = policy.caps
    for holds, code, text in (
        (
            "ctime" not in policy.counted,
            "ctime-not-counted",
            "[age] counted omits ctime: files that arrived with preserved old times (rsync -a, "
            "tar) count as old",
        ),
        (
            "mtime" not in policy.counted,
            "mtime-not-counted",
            "[age] counted omits mtime: writing to a file does not make it young",
        ),
        (
            lowest < _EMPTY_TARGET,
            "target-low",
            f"a target of {format_percent(lowest)} is the fullness that remains, not what is freed",
        ),
        (
            any(each.kind == "path" and each.value == b"" for each in policy.exemptions),
            "root-exempt",
            "the root itself is exempt: nothing will be deleted",
        ),
        (
            caps.bytes is None and caps.filesystem_fraction is None,
            "bytes-uncapped",
            "[caps] has no limit of bytes: one run may empty the file system",
        ),
        (
            caps.user_fraction is None,
            "user-uncapped",
            "[caps] user is unlimited: one run may delete all files of a user",
        ),
        (
            not policy.keep_root_files,
            "root-files-deleted",
            "[keep] root_files is false: quota files and similar belong to root",
        ),
        (
            policy.notices.directory is None and policy.notices.mail_to is None,
            "notice-unsent",
            "[notice] has neither directory nor mail_to: users are not notified",
        ),
    ):
        if holds:
            yield Message(code, text)


def _targets(policy: Policy) -> Iterator[Problem]:
    named = [key for key in ("target", "target_ost") if getattr(policy, key) is not None]
    named += ["target_pool"] if policy.target_pool else []
    if len(named) != 1:
        yield Problem(
            ("policy", named[1] if named else "target"),
            "there are two targets" if named else "there is no target",
            'write target = "70%" for the whole, target_ost = "75%" for every OST, or '
            'target_pool = { flash = "75%" } for pools',
            "targets-several" if named else "missing-key",
        )
    for name, _ in policy.target_pool:
        if POOL_NAME.fullmatch(name) is None:
            yield Problem(
                ("policy", "target_pool"),
                f"{visible(name[:80])!r} is not the name of a pool",
                "as in lfs pool_list, without the file system's name: up to 15 letters, digits, _ "
                "and -",
                "name-invalid",
            )


def _short_times(policy: Policy) -> Iterator[Message]:
    if policy.notice_s == 0:
        yield Message("notice-none", "[notice] period is 0: files are deleted without notice")
    elif policy.notice_s < _USUAL_NOTICE_S:
        yield Message(
            "notice-short",
            f"[notice] period is {format_duration(policy.notice_s)}: users away for a week never "
            "see the list",
        )
    if policy.minimum_age_s < _USUAL_AGE_S:
        age = format_duration(policy.minimum_age_s) if policy.minimum_age_s else "0"
        yield Message(
            "age-short", f"[age] minimum is {age}: files of running projects may be deleted"
        )
    if policy.arming.kind == "delay" and policy.arming.delay_s < DAY_S:
        yield Message(
            "delay-short", "[arming] delay is under a day: too short for anyone to object"
        )


def _root(root: str) -> Iterator[Problem]:
    shown, hint = repr(visible(root[:200])), None
    if "\0" in root or not root.startswith("/"):
        code, text = "path-relative", f"{shown} is not an absolute path"
        hint = 'write it in full: root = "/scratch"'
    elif ".." in PurePosixPath(root).parts or "." in root.split("/"):
        code, text = "path-with-dots", f'{shown} contains "." or ".."'
    elif PurePosixPath(root) in (PurePosixPath("/"), PurePosixPath("//")):
        code, text = "root-of-host", "the root of this host cannot be purged"
    elif root != str(PurePosixPath(root)) or root.startswith("//"):
        code, text = "path-not-plain", f"{shown} has more slashes than it needs"
        hint = f'root = "/{"/".join(part for part in root.split("/") if part)}"'
    else:
        return
    yield Problem(("policy", "root"), text, hint, code)


def _files(policy: Policy) -> Iterator[Problem]:
    """Yield problems with the paths of files and directories on this host."""
    root = PurePosixPath(policy.root)
    for location, path, outside in (
        (("guards", "allow_list"), policy.guards.allow_list, True),
        (("guards", "kill_switch"), policy.guards.kill_switch, True),
        (("notice", "mail_map"), policy.notices.mail_map, True),
        (("notice", "directory"), policy.notices.directory, False),
        (("notice", "mail", "ca_file"), policy.notices.mail.ca_file, True),
        (("notice", "mail", "password"), _file_of(policy.notices.mail.password), True),
    ):
        if path is None:
            continue
        shown = visible(path[:200])
        if not path.startswith("/") or ".." in PurePosixPath(path).parts:
            yield Problem(
                location, f"{shown!r} is not an absolute path", "write it in full", "path-relative"
            )
        elif outside and PurePosixPath(path).is_relative_to(root):
            yield Problem(
                location,
                f"{shown!r} is below the purged root: its users could create it",
                "use a directory that only root can write, such as /etc/trimtab",
                "path-below-root",
            )


def _file_of(secret: str | None) -> str | None:
    return secret.removeprefix("file:") if secret is not None and secret[:5] == "file:" else None


def _mail(policy: Policy) -> Iterator[Problem]:
    notices = policy.notices
    yield from notices.mail.problems(("notice", "mail"))
    if notices.mail_to is not None:
        rest = notices.mail_to.replace("{user}", "", 1)
        if rest == notices.mail_to or "{" in rest or "}" in rest or notices.mail_to.count("@") > 1:
            yield Problem(
                ("notice", "mail_to"),
                f"{visible(notices.mail_to[:80])!r} is not an address pattern",
                'write mail_to = "{user}@example.org"',
                "address-pattern",
            )
    if (notices.mail_to or notices.mail_map) and notices.mail_from is None:
        yield Problem(
            ("notice", "mail_from"),
            "is missing: mail needs a sender, to which users reply",
            'mail_from = "storage@example.org"',
            "missing-key",
        )
    for key in ("mail_to", "mail_from"):
        value = getattr(notices, key)
        if value is not None and any(sign in value for sign in " \t\r\n,;<>()"):
            yield Problem(
                ("notice", key),
                f"{visible(value[:80])!r} must be one plain address",
                code="address-invalid",
            )


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
"""Returns the number of a ``user`` or ``group`` by name: `trimtab.purge.owner.number_of`."""


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


def new_policy(
    root: str,
    file: Path | None,
    *,
    name: str | None = None,
    target: float | None = None,
    target_ost: float | None = None,
    target_pool: tuple[tuple[str, float], ...] = (),
) -> LoadedPolicy:
    """Return a new policy with all defaults, written to ``file`` where one is named.

    Raises
    ------
    UsageError
        The root or the name cannot be, or there is something at ``file``.
    UnreadableError
        It cannot be written.
    """
    policy = Policy(
        name or _name_of(root),
        root,
        target=target,
        target_ost=target_ost,
        target_pool=target_pool,
    )
    text = policy_text(policy)
    if file is not None:
        try:
            with file.open("x", encoding="utf-8") as out:
                out.write(text)
        except FileExistsError as error:
            raise UsageError(
                f"there is a file {visible(file)} already",
                code="file-present",
                hint="trimtab purge policy FILE checks it",
            ) from error
        except OSError as error:
            raise UnreadableError(
                f"{visible(file)} cannot be written: {error.strerror}", code="unwritable-file"
            ) from error
    return parse_policy(text, "the new policy", None)


def _name_of(root: str) -> str:
    last = root.rstrip("/").rpartition("/")[2].lower()
    return re.sub(r"[^a-z0-9]+", "-", last).strip("-") or "scratch"
