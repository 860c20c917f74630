"""Create the directory of a plan, and load it only if every signed byte is unchanged.

A plan is written beside its destination, hashed, signed, and moved into place; it never changes
afterwards.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trimtab.base.encode import shape
from trimtab.base.error import (
    RefusedError,
    TrimtabError,
    UnreadableError,
    UsageError,
    system_errors,
    visible,
)
from trimtab.base.trusted_file import (
    opened,
    read_trusted,
    trusted_directory,
    trusted_file,
    write_durably,
)
from trimtab.purge.plan.candidate import Hashes, hashes_of, sha256_of, summarise
from trimtab.purge.plan.deletion_plan import FORMAT, Candidates, DeletionPlan, PlanDraft, same_named
from trimtab.purge.plan.plan_signature import (
    PLAN,
    Publication,
    SigningKey,
    canonical,
    check_signature,
    plan_of,
    read_key,
    read_publication,
    signature_of,
    to_json,
)
from trimtab.purge.policy_file import parse_policy
from trimtab.purge.purge_policy import Policy

if TYPE_CHECKING:
    from trimtab._core import Candidates as OpenedCandidates


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
) -> DeletionPlan:
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
        plan = same_named(
            DeletionPlan, draft, format=FORMAT, expires_at=expires_at, candidates=candidates
        )
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


_PLAN_MAX_BYTES: Final = 1 << 28
_SIGNATURE_MAX_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class LoadedPlan:
    """A plan on disk, verified against its signature.

    Attributes
    ----------
    directory
        Absolute path of the plan.
    plan
        Its content.
    sha256
        Hash of ``plan.json``, in hexadecimal; journals identify the plan by it.
    publication
        The evidence that it was published; ``None`` if it was not.
    """

    directory: Path
    plan: DeletionPlan
    sha256: str
    publication: Publication | None

    @property
    def policy(self) -> Policy:
        """The policy that the plan was made under, as the plan itself holds it."""
        return parse_policy(self.plan.policy.text, "the plan's policy", None).policy

    @property
    def candidates(self) -> Path:
        """The file of candidates."""
        return self.directory / CANDIDATES_FILE


def require_plan(directory: str | os.PathLike[str]) -> None:
    """Raise UnreadableError if a directory has no plan, before its key is read."""
    if not os.path.lexists(Path(directory) / PLAN_FILE):
        raise UnreadableError(
            f"no plan in {visible(directory)}: it has no {PLAN_FILE}",
            code="plan-missing",
            hint="trimtab purge plan --index INDEX --policy FILE --out DIR makes one",
        )


def plan_in(
    directory: Path, key_file: Path, *, owner: int = 0, candidates: bool = True
) -> tuple[LoadedPlan, SigningKey]:
    """Return the plan in a directory, verified as by `load_plan`, and the site's key from its file.

    Raises
    ------
    UnreadableError
        There is no plan, which is found before the key is read, or it cannot be read.
    RefusedError, DataError
        As `read_key` and `load_plan` raise them.
    """
    require_plan(directory)
    key = read_key(key_file, owner=owner)
    return load_plan(directory, key, owner=owner, candidates=candidates), key


def load_plan(
    directory: str | os.PathLike[str],
    key: SigningKey,
    *,
    owner: int = 0,
    candidates: bool = True,
) -> LoadedPlan:
    """Return a plan after checking every hash and signature in it.

    Parameters
    ----------
    directory
        The plan's directory; private, and its files too.
    key
        The site's key.
    owner
        Uid that must own them; root by default.
    candidates
        Whether to read all candidates and compare their hash; they may be many gigabytes. Runs use
        `open_candidates` instead.

    Returns
    -------
    LoadedPlan
        The plan, its hash, and the evidence of its publication, if any.

    Raises
    ------
    RefusedError
        Something was changed, is signed with another key, is a link, or could have been replaced by
        another user.
    DataError
        The content does not match its format.
    UnreadableError
        The plan does not exist or cannot be read.
    """
    with trusted_directory(directory, "the plan", owner=owner, private=True) as opened:
        data = read_trusted(
            PLAN_FILE, opened, "the plan", maximum_bytes=_PLAN_MAX_BYTES, owner=owner
        )
        _check_signature(data, opened, key, owner)
        plan = plan_of(data)
        sha256 = hashlib.sha256(data).hexdigest()
        if candidates:
            noun = "the candidates"
            with trusted_file(CANDIDATES_FILE, opened, noun, owner=owner) as descriptor:
                _check_candidates(plan, descriptor)
        publication = read_publication(opened, plan, sha256, key, owner=owner)
    place = Path(os.path.abspath(directory))  # noqa: PTH100 - follows nothing
    return LoadedPlan(place, plan, sha256, publication)


def open_candidates(loaded: LoadedPlan, *, owner: int = 0) -> OpenedCandidates:
    """Return the candidates of a plan, which yield only rows that match the signature.

    The footer is verified now, each row group when its rows are read, and rows are decoded from the
    verified bytes.

    Raises
    ------
    RefusedError
        Something was changed, is a link, or could have been replaced by another user; also raised
        when rows are read.
    UnreadableError
        The candidates do not exist or cannot be read.
    """
    from trimtab._core import Candidates as OpenedCandidates

    parts = [
        (part.rows, part.size_bytes, bytes.fromhex(part.sha256))
        for part in loaded.plan.candidates.parts
    ]
    with (
        trusted_directory(loaded.directory, "the plan", owner=owner, private=True) as opened,
        trusted_file(CANDIDATES_FILE, opened, "the candidates", owner=owner) as descriptor,
    ):
        return OpenedCandidates(loaded.candidates, descriptor=descriptor, parts=parts)


def published_before(
    loaded: LoadedPlan, key: SigningKey, *, owner: int = 0
) -> tuple[LoadedPlan | None, tuple[str, ...]]:
    """Return the plan of the same root published before one, from the directories beside it.

    Parameters
    ----------
    loaded
        The plan whose predecessor is sought.
    key
        The site's key.
    owner
        Uid that must own the plans; root by default.

    Returns
    -------
    LoadedPlan or None, tuple of str
        The latest plan made no later than ``loaded``; for each plan that cannot be read, the error.
    """
    latest: LoadedPlan | None = None
    passed: list[str] = []
    plan = loaded.plan
    for directory in sorted(loaded.directory.parent.iterdir()):
        if directory == loaded.directory or directory.is_symlink():
            continue
        if not (directory / PLAN_FILE).is_file():
            continue
        try:
            other = load_plan(directory, key, owner=owner, candidates=False)
        except TrimtabError as error:
            passed.append(f"{visible(directory)}: {error.message}")
            continue
        if other.publication is None or other.plan.id == plan.id:
            continue
        if not _is_of_same(other.plan, plan) or other.plan.made_at > plan.made_at:
            continue
        if latest is None or other.plan.made_at > latest.plan.made_at:
            latest = other
    return latest, tuple(passed)


def _is_of_same(plan: DeletionPlan, other: DeletionPlan) -> bool:
    same = plan.file_system.identity.may_be_same(other.file_system.identity)
    return same and plan.file_system.root == other.file_system.root


def _check_signature(data: bytes, directory: int, key: SigningKey, owner: int) -> None:
    noun = "the signature of the plan"
    text = read_trusted(
        SIGNATURE_FILE, directory, noun, maximum_bytes=_SIGNATURE_MAX_BYTES, owner=owner
    )
    try:
        signature = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RefusedError(
            f"{noun} is not JSON: it was changed or damaged", code="signature-malformed"
        ) from error
    check_signature(PLAN, data, signature, key, "the plan")


def _check_candidates(plan: DeletionPlan, descriptor: int) -> None:
    if sha256_of(descriptor) != plan.candidates.sha256:
        raise RefusedError(
            "the candidates differ from what was signed: they were changed or damaged",
            code="candidates-changed",
            hint="make a new plan, and find out who or what changed this one",
        )


shape(
    LoadedPlan,
    omit=["directory", "sha256", "publication"],
    derive={"plan": "plan.id", "root": "plan.file_system.root", "rows": "plan.candidates.files"},
)
