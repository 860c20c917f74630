"""Create a plan: write it beside its destination, hash and sign it, and move it into place."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Final

from trimtab.errors import RefusedError, UsageError
from trimtab.purge.plan.candidates import Hashes, hashes_of, summarise
from trimtab.purge.plan.document import PLAN, canonical, signature_of, to_json
from trimtab.purge.plan.key import SigningKey
from trimtab.purge.plan.model import FORMAT, Candidates, Plan, PlanDraft, same_named
from trimtab.record.system_errors import system_errors
from trimtab.record.trusted import opened, trusted_directory, trusted_file, write_durably
from trimtab.visible import visible

CANDIDATES_FILE: Final = "candidates.parquet"
PLAN_FILE: Final = "plan.json"
SIGNATURE_FILE: Final = "signature"


@dataclass(frozen=True, slots=True)
class Staging:
    """A directory beside the destination, for a plan under construction.

    Attributes
    ----------
    out
        Destination of the plan.
    directory
        Where it is created.
    owner
        Uid that owns both.
    """

    out: Path
    directory: Path
    owner: int

    @property
    def candidates(self) -> Path:
        """Where the candidates must be written before `freeze`."""
        return self.directory / CANDIDATES_FILE


@contextlib.contextmanager
def staging(out: str | os.PathLike[str], *, owner: int = 0) -> Iterator[Staging]:
    """Create a private directory for a plan; it is removed at the end unless `freeze` moved it.

    Parameters
    ----------
    out
        Destination of the plan.
    owner
        Uid that must own the directory; root by default.

    Raises
    ------
    UsageError
        ``out`` exists: a plan is never changed.
    RefusedError
        Another user could replace the files written there.
    UnreadableError
        The directory cannot be written to.
    """
    place = Path(os.path.abspath(out))  # noqa: PTH100 - follows nothing
    with trusted_directory(place.parent, "the directory of the plan", owner=owner) as parent:
        _refuse_present(place, parent)
        _remove_left(place.name, parent)
        name = f".{place.name[:200]}.{secrets.token_hex(6)}"
        with system_errors(
            f"the plan cannot be written to {visible(place)}", code="plan-unwritable"
        ):
            os.mkdir(name, 0o700, dir_fd=parent)
            held = _held(name, parent)
        try:
            yield Staging(place, place.parent / name, owner)
        finally:
            shutil.rmtree(name, ignore_errors=True, dir_fd=parent)
            os.close(held)


def freeze(
    draft: PlanDraft,
    staged: Staging,
    *,
    key: SigningKey,
    held_bytes: Mapping[int, int] | None = None,
) -> Plan:
    """Sign a plan, move it into place, and return it.

    Parameters
    ----------
    draft
        Everything except the totals, which are counted from the candidates.
    staged
        The directory (`staging`) that already has the candidates.
    key
        The site's key.
    held_bytes
        Allocated bytes of all files of each user, by uid, from the index.

    Raises
    ------
    UsageError
        Times are contradictory, or the plan's destination now exists.
    DataError
        The candidates are malformed.
    UnreadableError
        The plan could not be written.
    """
    _check(draft)
    with trusted_directory(
        staged.directory, "the plan", owner=staged.owner, private=True
    ) as directory:
        hashes = _settled(staged.candidates, directory, staged.owner)
        candidates = _with_holdings(
            summarise(staged.candidates, hashes, before_s=draft.horizon.before_s), held_bytes
        )
        expires_at = draft.made_at + timedelta(seconds=draft.notice_s + draft.valid_s)
        plan = same_named(Plan, draft, format=FORMAT, expires_at=expires_at, candidates=candidates)
        data = to_json(plan)
        write_durably(PLAN_FILE, directory, data)
        signature = canonical(signature_of(PLAN, data, key))
        write_durably(SIGNATURE_FILE, directory, signature + b"\n")
    _put(staged)
    return plan


def _with_holdings(candidates: Candidates, held_bytes: Mapping[int, int] | None) -> Candidates:
    if held_bytes is None:
        return candidates
    users = tuple(replace(user, held_bytes=held_bytes.get(user.uid)) for user in candidates.users)
    return replace(candidates, users=users)


def _check(draft: PlanDraft) -> None:
    for name, at in (("made", draft.made_at), ("indexed", draft.index.ended_at)):
        if at.tzinfo is None:
            raise UsageError(
                f"the time at which the plan was {name} has no zone", code="zone-missing"
            )
    if draft.index.ended_at > draft.made_at:
        raise UsageError(
            f"the index ends at {draft.index.ended_at}, after the plan was made",
            code="clocks-disagree",
            hint="clocks disagree: correct them and scan again",
        )
    if draft.notice_s < 0 or draft.valid_s <= 0:
        raise UsageError(
            "the notice period must not be negative, and the validity must be greater than 0",
            code="value-out-of-range",
        )
    if draft.horizon.before_s > draft.rules.as_of_s:
        raise UsageError("the cut-off is after the scan", code="cut-off-late")


def _settled(path: Path, directory: int, owner: int) -> Hashes:
    """Make the candidates private, synchronise them to stable storage, and return their hashes."""
    with system_errors("the plan has no candidates", code="candidates-missing"):
        state = os.stat(CANDIDATES_FILE, dir_fd=directory, follow_symlinks=False)
        if stat.S_ISREG(state.st_mode):
            os.chmod(CANDIDATES_FILE, 0o600, dir_fd=directory)  # our own directory
    with (
        trusted_file(CANDIDATES_FILE, directory, "the candidates", owner=owner) as descriptor,
        system_errors("the candidates cannot be read", code="candidates-unreadable"),
    ):
        os.fsync(descriptor)
        return hashes_of(path, descriptor)


def _put(staged: Staging) -> None:
    with trusted_directory(
        staged.out.parent, "the directory of the plan", owner=staged.owner
    ) as parent:
        _refuse_present(staged.out, parent)
        with system_errors(
            f"the plan could not be moved to {visible(staged.out)}", code="plan-unwritable"
        ):
            os.rename(staged.directory.name, staged.out.name, src_dir_fd=parent, dst_dir_fd=parent)
            os.fsync(parent)


def _held(name: str, parent: int) -> int:
    """Return a locked descriptor that marks the directory as in use while the process lives."""
    descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


def _remove_left(name: str, parent: int) -> None:
    """Remove leftovers of killed attempts at this plan; running ones hold a lock."""
    left = re.compile(rf"\.{re.escape(name[:200])}\.[0-9a-f]{{12}}\Z")
    for name_left in filter(left.match, os.listdir(parent)):
        with contextlib.suppress(OSError), opened(name_left, parent) as descriptor:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(name_left, ignore_errors=True, dir_fd=parent)


def _refuse_present(place: Path, parent: int) -> None:
    try:
        os.stat(place.name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return
    except OSError as error:
        raise RefusedError(
            f"{visible(place)} cannot be accessed: {error.strerror}", code="path-unreadable"
        ) from error
    raise UsageError(
        f"{visible(place)} already exists",
        code="plan-present",
        hint="a plan is never changed: give --out a new directory",
    )
