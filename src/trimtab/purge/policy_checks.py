"""Check a policy for contradictions and doubtful choices. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Final

from trimtab.config.problems import Problem, name_problems
from trimtab.message import Message
from trimtab.purge.policy import DAY_S, POOL_NAME, WEEK_S, Policy
from trimtab.units import format_duration, format_percent
from trimtab.visible import visible

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
