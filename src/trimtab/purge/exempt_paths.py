"""Whether the exempt paths of a policy are there: one that is not keeps nothing.

A scan never follows links, so a file has one path in an index; an exemption that leads through a
link matches none of them, and what the link points to would be deleted.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from typing import Literal

from trimtab.errors import RefusedError
from trimtab.message import Message
from trimtab.purge.policy import Exemption, Policy
from trimtab.visible import visible

PathKind = Literal["directory", "file", "link", "missing"]
Look = Callable[[bytes], PathKind]
"""What a path relative to the root is, its last component not followed; behind a file everything is
missing."""

_SHOWN = 5


def path_troubles(policy: Policy, look: Look, *, now_s: int) -> Iterator[Message]:
    """Yield why exempt paths in force keep less than they say.

    Parameters
    ----------
    look
        Asked for every directory on the way, from the top on.
    now_s
        Seconds since 1970.
    """
    for exemption in policy.exemptions:
        if (
            exemption.kind == "path"
            and exemption.is_in_force(now_s)
            and isinstance(exemption.value, bytes)
        ):
            yield from _trouble(exemption, exemption.value, look)


def require_exempt_paths(policy: Policy, look: Look, *, now_s: int) -> None:
    """Refuse to go on where an exempt path in force is not there, or leads through a link.

    Raises
    ------
    RefusedError
        With each of them.
    """
    troubles = list(path_troubles(policy, look, now_s=now_s))
    if troubles:
        more = f"; and {len(troubles) - _SHOWN} more" if len(troubles) > _SHOWN else ""
        raise RefusedError(
            f"{'; '.join(troubles[:_SHOWN])}{more}",
            code=troubles[0].code,
            hint="write the path as the scan has it, or take the exemption out",
        )


def look_beneath(root: str | os.PathLike[str]) -> Look:
    """Return what tells what paths beneath a root are; nothing is followed.

    It touches the file system, which may hang.
    """
    top = os.fsencode(root)

    def look(path: bytes) -> PathKind:
        try:
            mode = os.lstat(os.path.join(top, path)).st_mode  # noqa: PTH118 (bytes)
        except (FileNotFoundError, NotADirectoryError):
            return "missing"
        if stat.S_ISLNK(mode):
            return "link"
        return "directory" if stat.S_ISDIR(mode) else "file"

    return look


def _trouble(exemption: Exemption, path: bytes, look: Look) -> Iterator[Message]:
    parts = path.split(b"/") if path else []
    for count in range(1, len(parts) + 1):
        above = b"/".join(parts[:count])
        kind = look(above)
        if kind == "link":
            shown = visible(above.decode("utf-8", "surrogateescape"))
            yield Message(
                "exempt-path-link",
                f"exempt {exemption.shown} leads through the link {shown}: nothing is exempt",
            )
        elif kind == "missing":
            text = f"exempt {exemption.shown} does not exist: nothing is exempt"
            yield Message("exempt-path-missing", text)
        else:
            continue
        return
