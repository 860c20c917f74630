"""Sign plans, and the evidence that they were published, with the site's key (HMAC-SHA256).

Only root can read the key. A valid signature proves that the plan was written with it, hence by
root of a host that has it, and was not changed since. A plan that was edited by hand, damaged on
disk, made at another site, or written by a user who briefly controlled root's directory is
therefore not carried out. The signature does not prove which user with root rights made the plan,
and does not protect against root, who needs no plan to delete files.

``published.json`` says who received which list, where, and when. It is written once, after every
list is on stable storage; the notice period starts then. It is signed like the plan and has the
plan's hash, so it is not valid for another plan.
"""

from __future__ import annotations

import hmac
import json
import os
import re
import secrets
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, TypeVar

from trimtab.base.error import (
    DataError,
    RefusedError,
    UnreadableError,
    UsageError,
    unreleased,
    visible,
)
from trimtab.base.trusted_file import read_trusted, trusted_directory, write_durably
from trimtab.purge.plan.deletion_plan import FORMAT, DeletionPlan, Strict

SECRET_BYTES: Final = 32
_LINE: Final = re.compile(rb"trimtab-purge-key-1 ([0-9a-f]{64})\n\Z")
_SIZE_MAX_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A secret of the site.

    Attributes
    ----------
    secret
        32 bytes, never shown.
    """

    secret: bytes = field(repr=False)

    @property
    def fingerprint(self) -> str:
        """Sixteen digits that identify the key without revealing it."""
        return self.sign("fingerprint", b"")[:16]

    def sign(self, purpose: str, data: bytes) -> str:
        """Return the signature of ``data`` as 64 hexadecimal digits.

        Parameters
        ----------
        purpose
            Kind of file. The signature of one kind is invalid for another.
        data
            The bytes to sign.
        """
        return hmac.new(self.secret, f"trimtab {purpose}\n".encode() + data, "sha256").hexdigest()

    def signed(self, purpose: str, data: bytes, signature: str) -> bool:
        """Return whether ``signature`` is that of ``data`` for ``purpose``, in constant time."""
        return hmac.compare_digest(self.sign(purpose, data).encode(), signature.encode())


def create_key(path: str | os.PathLike[str], *, owner: int = 0) -> SigningKey:
    """Create the key in a new file and return it.

    Parameters
    ----------
    path
        The file, in a directory that only ``owner`` can write to.
    owner
        Uid that must own it; root by default.

    Raises
    ------
    UsageError
        The file exists: replacing it would invalidate plans signed with its key.
    RefusedError
        Others can write to the directory.
    UnreadableError
        The file cannot be written.
    """
    file = Path(path)
    with trusted_directory(file.parent, "the directory of the key", owner=owner) as directory:
        if _is_there(file.name, directory):
            raise UsageError(
                f"{visible(path)} already exists",
                code="file-present",
                hint="pending plans may be signed with it; move it away first",
            )
        key = SigningKey(secrets.token_bytes(SECRET_BYTES))
        write_durably(file.name, directory, f"trimtab-purge-key-1 {key.secret.hex()}\n".encode())
    return key


def read_key(path: str | os.PathLike[str], *, owner: int = 0) -> SigningKey:
    """Return the key in a file that only ``owner`` can read.

    Parameters
    ----------
    path
        The file.
    owner
        Uid that must own it; root by default.

    Raises
    ------
    RefusedError
        Others can access the file or replace a directory above it, or it has no key.
    UnreadableError
        The file cannot be read.
    """
    file = Path(path)
    with trusted_directory(file.parent, "the directory of the key", owner=owner) as directory:
        data = read_trusted(
            file.name, directory, "the key", maximum_bytes=_SIZE_MAX_BYTES, owner=owner
        )
    match = _LINE.match(data)
    if match is None:
        raise RefusedError(
            f"the file {visible(path)} has no key for purge plans",
            code="key-malformed",
            hint="it has one line: trimtab-purge-key-1 and 64 hexadecimal digits",
        )
    return SigningKey(bytes.fromhex(match.group(1).decode()))


def _is_there(name: str, directory: int) -> bool:
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


ALGORITHM: Final = "hmac-sha256"
PLAN: Final = "purge plan"
PUBLICATION: Final = "purge plan published"
_MESSAGE_MAX: Final = 300

Value = TypeVar("Value")


def to_json(value: object) -> bytes:
    """Return a plan, its evidence or a signature as human-readable JSON."""
    from pydantic import TypeAdapter

    return TypeAdapter(type(value)).dump_json(value, indent=1) + b"\n"


def of_json(kind: type[Value], data: bytes, noun: str) -> Value:
    """Return the value of a JSON document.

    Raises
    ------
    DataError
        It is not JSON, or a field is missing, unknown or of another type.
    """
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(kind).validate_json(data)
    except (ValidationError, UsageError) as error:
        if isinstance(error, UsageError):  # rejected by the class itself
            text = error.message
        else:
            first = error.errors(include_url=False)[0]
            text = f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"
        message = visible(text[:_MESSAGE_MAX])
        raise DataError(
            f"{noun} does not match its format: {message}", code="document-malformed"
        ) from error


def plan_of(data: bytes) -> DeletionPlan:
    """Return the plan that ``plan.json`` describes.

    Raises
    ------
    DataError
        It is not a plan, or of another format.
    """
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DataError("the plan is not JSON", code="document-malformed") from error
    number = document.get("format") if isinstance(document, dict) else None
    if type(number) is int and 0 < number < FORMAT:
        raise unreleased(
            "the plan", "make a new one: trimtab purge plan --index INDEX --policy FILE --out PLAN"
        )
    if type(number) is not int or number != FORMAT:
        raise DataError(
            f"the plan has format {visible(str(number)[:40])}, this version reads {FORMAT}",
            code="format-version-unknown",
            hint="make a new plan",
        )
    return of_json(DeletionPlan, data, "the plan")


def signature_of(purpose: str, data: bytes, key: SigningKey) -> dict[str, str]:
    """Return the signature of ``data`` with the name of its key."""
    return {
        "algorithm": ALGORITHM,
        "key": key.fingerprint,
        "signature": key.sign(purpose, data),
    }


def check_signature(purpose: str, data: bytes, signature: Any, key: SigningKey, noun: str) -> None:
    """Refuse data not signed with the key.

    Raises
    ------
    RefusedError
        The key, the algorithm or the content differs.
    """
    fields = signature if isinstance(signature, dict) else {}
    if fields.get("algorithm") != ALGORITHM or not isinstance(fields.get("signature"), str):
        raise RefusedError(
            f"{noun} has no signature known to this version", code="signature-missing"
        )
    if fields.get("key") != key.fingerprint:
        raise RefusedError(
            f"{noun} is signed with a key other than {key.fingerprint}",
            code="key-mismatch",
            hint="it was made at another site, or the key was replaced since: make a new plan",
        )
    if not key.signed(purpose, data, fields["signature"]):
        raise RefusedError(
            f"{noun} differs from what was signed: it was changed or damaged",
            code="signature-mismatch",
            hint="make a new plan, and find out who or what changed this one",
        )


def canonical(document: Any) -> bytes:
    """Return JSON values in the canonical form that is signed."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return text.encode("ascii")


PUBLISHED_FILE: Final = "published.json"
_PUBLICATION_MAX_BYTES: Final = 1 << 28


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
            PUBLISHED_FILE, directory, noun, maximum_bytes=_PUBLICATION_MAX_BYTES, owner=owner
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
