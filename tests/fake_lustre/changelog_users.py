"""``lctl --device MDT changelog_register`` and ``changelog_deregister``, as in ``changelog/``."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .state import FakeLustre, FakeTarget, Output

DEFAULT_MASK: str = (
    "MARK CREAT MKDIR HLINK SLINK MKNOD UNLNK RMDIR RENME RNMTO CLOSE LYOUT TRUNC SATTR XATTR HSM "
    "MTIME CTIME MIGRT FLRW RESYNC "
)
"""As in ``changelog/005_users``: what an MDT records whose one user has no mask of its own."""
_ONLY_MARKS = "MARK "


def on_mdt(
    state: FakeLustre, host: str | None, name: str, command: str, rest: Sequence[str]
) -> Output | None:
    """Return what an MDT's device answers; ``None``: it is none that this host serves."""
    service = re.fullmatch(f"{state.file_system}-(MDT[0-9a-f]{{4}})", name)
    served = () if host is None else state.served_by(host)
    target = next((one for one in served if service and one.name == service[1]), None)
    if target is None or not command.startswith("changelog_"):
        return None
    if command == "changelog_register":
        return _register(name, target, rest)
    if command == "changelog_deregister" and len(rest) == 2 and rest[0] == "-u":
        named = [user for user, *_ in target.changelog_users if user.endswith(f"-{rest[1]}")]
        return _deregister(name, target, named[0] if named else "cl0")
    if command == "changelog_deregister" and len(rest) == 1:
        return _deregister(name, target, rest[0])
    return None


def _register(name: str, target: FakeTarget, rest: Sequence[str]) -> Output:
    numbers = [_number(user) for user, *_ in target.changelog_users]
    user = f"cl{max(numbers, default=0) + 1}"
    if list(rest[:1]) == ["-u"]:
        user = f"{user}-{rest[1]}"
    target.changelog_users.append((user, target.changelog_index, 0))
    target.changelog_mask = DEFAULT_MASK
    return Output(f"{name}: Registered changelog userid '{user}'\n")


def _deregister(name: str, target: FakeTarget, user: str) -> Output:
    number = _number(user)
    rest = [row for row in target.changelog_users if _number(row[0]) != number]
    if len(rest) == len(target.changelog_users):
        return Output("", "error: changelog_deregister: User not found\n", 2)
    target.changelog_users = rest
    target.changelog_mask = DEFAULT_MASK if rest else _ONLY_MARKS
    return Output(f"{name}: Deregistered changelog user #{number}\n")


def _number(user: str) -> int:
    return int(re.match("cl([0-9]+)", user)[1])  # type: ignore[index]
