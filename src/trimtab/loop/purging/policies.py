"""A policy file written for a root, or read as a plan would read it."""

from __future__ import annotations

import re
from pathlib import Path

from trimtab.errors import UnreadableError, UsageError
from trimtab.purge.policy import Policy
from trimtab.purge.policy_file import LoadedPolicy, parse_policy, policy_text
from trimtab.visible import visible


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
