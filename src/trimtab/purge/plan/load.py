"""Load a plan, checking every signed byte and its bindings."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trimtab.errors import RefusedError, TrimtabError, UnreadableError
from trimtab.purge.plan.candidates import sha256_of
from trimtab.purge.plan.document import PLAN, check_signature, plan_of
from trimtab.purge.plan.freeze import CANDIDATES_FILE, PLAN_FILE, SIGNATURE_FILE
from trimtab.purge.plan.key import SigningKey, read_key
from trimtab.purge.plan.model import Plan
from trimtab.purge.plan.publication import Publication, read_publication
from trimtab.purge.policy import Policy
from trimtab.purge.policy_file import parse_policy
from trimtab.record.trusted import read_trusted, trusted_directory, trusted_file
from trimtab.report.documents.encode import shape
from trimtab.visible import visible

if TYPE_CHECKING:
    from trimtab._core import Candidates as OpenedCandidates

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
    plan: Plan
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


def _is_of_same(plan: Plan, other: Plan) -> bool:
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


def _check_candidates(plan: Plan, descriptor: int) -> None:
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
