"""The site's signing key for plans: HMAC-SHA256 with a secret that only root can read.

A valid signature proves that the plan was written with the key, hence by root of a host that has
it, and was not changed since. A plan that was edited by hand, damaged on disk, made at another
site, or written by a user who briefly controlled root's directory is therefore not carried out. The
signature does not prove which user with root rights made the plan, and does not protect against
root, who needs no plan to delete files.
"""

from __future__ import annotations

import hmac
import os
import re
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from trimtab.errors import RefusedError, UsageError
from trimtab.record.trusted import read_trusted, trusted_directory, write_durably
from trimtab.visible import visible

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
