"""Record who armed a plan: lines in an append-only file beside its journal.

Arming guards against haste and mistakes, not against root, who can write the file too. Two people
are distinguished by their login (``loginuid``, which is set once at login and survives ``su`` and
``sudo``).
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Final

from trimtab.errors import RefusedError, TrimtabError, UnreadableError
from trimtab.purge.index.owners import user_name
from trimtab.purge.run.situation import ArmedBy, ArmingFacts
from trimtab.record.trusted import read_trusted, trusted_directory, write_durably
from trimtab.visible import visible

SUFFIX: Final = ".armed.jsonl"
_NOBODY: Final = 4294967295
"""``loginuid`` of a process without a login, in a daemon or a container."""
_SIZE_MAX_BYTES: Final = 1 << 20


def person_now(login_file: Path = Path("/proc/self/loginuid")) -> int | None:
    """Return the uid of the login behind this process; ``None`` if unknown.

    Without kernel login records ``SUDO_UID`` in the environment is used.
    """
    try:
        login = int(login_file.read_text("ascii"))
    except (OSError, ValueError):
        login = _NOBODY
    if login != _NOBODY:
        return login
    sudo_uid = os.environ.get("SUDO_UID", "")
    return (
        int(sudo_uid)
        if sudo_uid.isascii() and sudo_uid.isdigit() and int(sudo_uid) < _NOBODY
        else None
    )


def who_now() -> str:
    """Return who started this process, as far as known."""
    import getpass

    person = person_now()
    login = "" if person is None else f" (login {person})"
    try:
        return f"{getpass.getuser()}{login}"
    except (KeyError, OSError):
        return f"uid {os.getuid()}{login}"


def arm(
    directory: Path, plan: str, sha256: str, *, at_s: float, person: int | None, owner: int = 0
) -> ArmedBy:
    """Record on stable storage who armed a plan, and return the entry.

    Raises
    ------
    RefusedError
        Others than root can write the directory.
    UnreadableError
        It cannot be written.
    """
    armed = ArmedBy(at_s, person, _name(person))
    line = {"plan": plan, "sha256": sha256, "at_s": at_s, "person": person, "name": armed.name}
    name = f"{plan}{SUFFIX}"
    with trusted_directory(directory, "the journals' directory", owner=owner) as held:
        before = _content(name, held, owner)
        write_durably(name, held, before + json.dumps(line).encode("ascii") + b"\n")
    return armed


def read_arming(directory: Path, plan: str, sha256: str, *, owner: int = 0) -> ArmingFacts:
    """Return who armed a plan, or the problem with its file."""
    try:
        with trusted_directory(directory, "the journals' directory", owner=owner) as held:
            data = _content(f"{plan}{SUFFIX}", held, owner)
        lines = tuple(_armed(line, plan, sha256) for line in data.splitlines())
    except TrimtabError as error:
        return ArmingFacts(error.message)
    return ArmingFacts(None, lines)


def _content(name: str, directory: int, owner: int) -> bytes:
    try:
        return read_trusted(
            name, directory, "the arming file", maximum_bytes=_SIZE_MAX_BYTES, owner=owner
        )
    except UnreadableError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return b""
        raise


def _armed(text: bytes, plan: str, sha256: str) -> ArmedBy:
    try:
        line: Any = json.loads(text)
        armed = ArmedBy(float(line["at_s"]), line["person"], str(line["name"]))
        bound = (line["plan"], line["sha256"])
        if armed.person is not None and type(armed.person) is not int:
            raise TypeError
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise RefusedError("malformed line in the arming file", code="arming-malformed") from error
    if bound != (plan, sha256):
        raise RefusedError("the arming file belongs to another plan", code="arming-mismatch")
    return armed


def _name(person: int | None) -> str:
    return visible((None if person is None else user_name(person)) or "")
