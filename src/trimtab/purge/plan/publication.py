"""The evidence that a plan was published: who received which list, where, and when.

``published.json`` is written once, after every list is on stable storage; the notice period starts
then. It is signed like the plan and has the plan's hash, so it is not valid for another plan.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from trimtab.base.error import DataError, RefusedError, UnreadableError
from trimtab.purge.plan.deletion_plan import DeletionPlan, Strict
from trimtab.purge.plan.plan_signature import (
    PUBLICATION,
    SigningKey,
    canonical,
    check_signature,
    of_json,
    signature_of,
    to_json,
)
from trimtab.store.trusted_file import read_trusted, write_durably

PUBLISHED_FILE: Final = "published.json"
_SIZE_MAX_BYTES: Final = 1 << 28


@dataclass(frozen=True, slots=True)
class UserList(Strict):
    """The list of one user.

    Attributes
    ----------
    uid
        The user's number.
    account
        Name; ``None`` if the number has no account: the list then belongs to root.
    name
        Base name of the files.
    files
        Number of files that it names.
    new_files
        Number of files not in the previous list; ``None`` if there was none.
    gone_files
        Number of files in the previous list but not in this one.
    text_sha256, lines_sha256, names_sha256
        Hashes of the text, the JSON lines and the NUL-terminated names; the last is empty if the
        list counts files by directory instead of naming them.
    """

    uid: int
    account: str | None
    name: str
    files: int
    new_files: int | None
    gone_files: int | None
    text_sha256: str
    lines_sha256: str
    names_sha256: str

    @property
    def has_names(self) -> bool:
        """Whether the list names the files."""
        return bool(self.names_sha256)


@dataclass(frozen=True, slots=True)
class Publication(Strict):
    """The publication of a plan.

    Attributes
    ----------
    plan_id, plan_sha256
        Id of the plan, and hash of its ``plan.json``.
    published_at
        When the last list was on stable storage.
    not_before
        The lists' promise: nothing is deleted before this time.
    directory
        Directory of the lists.
    previous_plan_id
        The previously published plan; ``None`` if none is known.
    lists
        One per user, in order of the uid.
    """

    plan_id: str
    plan_sha256: str
    published_at: datetime
    not_before: datetime
    directory: str
    previous_plan_id: str | None
    lists: tuple[UserList, ...]

    @property
    def without_account(self) -> tuple[int, ...]:
        """Users without an account, who could not be notified."""
        return tuple(user_list.uid for user_list in self.lists if user_list.account is None)


def write_publication(directory: int, publication: Publication, key: SigningKey) -> None:
    """Write the signed evidence of publication into the directory of its plan.

    Parameters
    ----------
    directory
        Descriptor of the plan's directory (`trusted_directory`).
    publication
        What was published.
    key
        The site's key.

    Raises
    ------
    UnreadableError
        The file could not be written; the plan does not count as published.
    """
    body = json.loads(to_json(publication))
    signature = signature_of(PUBLICATION, canonical(body), key)
    text = json.dumps({"publication": body, "signature": signature}, indent=1)
    write_durably(PUBLISHED_FILE, directory, text.encode() + b"\n")


def read_publication(
    directory: int, plan: DeletionPlan, plan_sha256: str, key: SigningKey, *, owner: int = 0
) -> Publication | None:
    """Return the evidence that a plan was published; ``None`` if it was not.

    Parameters
    ----------
    directory
        Descriptor of the plan's directory (`trusted_directory`).
    plan, plan_sha256
        The plan, and the hash of its ``plan.json`` in hexadecimal.
    key
        The site's key.
    owner
        Uid that must own the file; root by default.

    Raises
    ------
    RefusedError
        The evidence was changed, is of another plan, or could have been written by others.
    DataError
        The content does not match its format.
    """
    noun = "the evidence of publication"
    try:
        data = read_trusted(
            PUBLISHED_FILE, directory, noun, maximum_bytes=_SIZE_MAX_BYTES, owner=owner
        )
    except UnreadableError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return None
        raise
    try:
        document = json.loads(data)
        body, signature = document["publication"], document["signature"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise DataError(f"{noun} does not match its format", code="document-malformed") from error
    check_signature(PUBLICATION, canonical(body), signature, key, noun)
    publication = of_json(Publication, canonical(body), noun)
    if (publication.plan_id, publication.plan_sha256) != (plan.id, plan_sha256):
        raise RefusedError(
            f"{noun} belongs to plan {publication.plan_id}, not to {plan.id}",
            code="publication-mismatch",
        )
    if publication.not_before < publication.published_at + timedelta(seconds=plan.notice_s):
        raise RefusedError(
            f"{noun} promises less than the plan's notice period", code="publication-early"
        )
    return publication
