"""TLS and passwords of the metrics' port, from the file that Prometheus exporters use for them.

A subset of ``--web.config.file``. Anything outside it is refused, never ignored: a restriction that
is written down but not applied is worse than none.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import os
import re
import secrets
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from trimtab.base.error import UsageError, install_command
from trimtab.base.small_file import read_text
from trimtab.base.toml_kind import TEXT, ValueKind, choice, table_of
from trimtab.base.toml_problem import BadValue, Lines, Problem, config_error
from trimtab.base.toml_schema import Schema, key, table
from trimtab.base.visible import visible

if TYPE_CHECKING:
    from types import ModuleType

_NOUN: Final = "the web configuration"
_READ_BY_BCRYPT: Final = 72
"""Bytes of a password; more are refused by some versions of the library, and ignored by others."""
_Stamp = tuple[int, int, int] | None
"""Inode, time and size of a file; ``None``: there is none."""
_HASH: Final = re.compile(r"\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{53}")
COST_MAXIMUM: Final = 14
"""Of a hash: each step doubles the time of a login, which is a second here."""
_VERIFIED: Final = {
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}
_VERSIONS: Final = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}


def _read_hash(value: object) -> bytes:
    # The text is never repeated in an error: it may be the password itself.
    match = _HASH.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise BadValue(
            "this is not a bcrypt hash",
            code="secret-inline",
            hint="htpasswd -nB USER prints one; it begins with $2y$",
        )
    if not 4 <= int(match[1]) <= COST_MAXIMUM:
        raise BadValue(
            f"the cost of this hash is not between 4 and {COST_MAXIMUM}",
            code="out-of-range",
            hint="htpasswd -nBC 10 USER makes one of a usual cost",
        )
    return match[0].encode("ascii")


@dataclass(frozen=True, slots=True)
class TlsServer:
    """The certificates of the server, and whether clients need one.

    Attributes
    ----------
    cert_file, key_file
        ``None``: no TLS.
    client_ca_file
        Who may have signed the certificate of a client.
    """

    cert_file: str | None = key(TEXT, "", None)
    key_file: str | None = key(TEXT, "", None)
    client_ca_file: str | None = key(TEXT, "", None)
    client_auth_type: Literal[
        "NoClientCert", "VerifyClientCertIfGiven", "RequireAndVerifyClientCert"
    ] = key(choice(tuple(_VERIFIED)), "", "NoClientCert")
    min_version: Literal["TLS12", "TLS13"] = key(choice(tuple(_VERSIONS)), "", "TLS12")


@dataclass(frozen=True, slots=True)
class WebConfig:
    """What stands in the file."""

    tls_server_config: TlsServer = table(TlsServer)
    basic_auth_users: Mapping[str, bytes] | None = key(
        table_of(ValueKind("bcrypt hash", "$2y$...", _read_hash, str), "USER: HASH"), "", None
    )


_SCHEMA: Final = Schema(WebConfig)


class Protection:
    """Who may read the metrics.

    Attributes
    ----------
    tls
        ``None``: without encryption.

    Parameters
    ----------
    users
        User to bcrypt hash.
    files
        What this was read from, as they were then (`_stamp`).
    """

    def __init__(
        self,
        tls: ssl.SSLContext | None,
        users: Mapping[str, bytes],
        files: Mapping[Path, _Stamp],
    ) -> None:
        self.tls = tls
        self._users, self._files = dict(users), dict(files)
        self._key = secrets.token_bytes(32)
        self._passed: dict[str, bytes] = {}
        self._lock = threading.Lock()

    @property
    def is_current(self) -> bool:
        """Whether its files are as they were read: certificates are renewed, users change."""
        return all(_stamp(file) == stamp for file, stamp in self._files.items())

    def lets_in(self, authorization: str) -> bool:
        """Return whether a header ``Authorization`` has a user and the password, if one is needed.

        A password that passed is known again without its hash, by a code that ends with this
        process. Others are compared one at a time: guessing takes one processor and no more.
        """
        if not self._users:
            return True
        user, password = _credentials(authorization)
        code = hmac.digest(self._key, password, "sha256")
        if hmac.compare_digest(self._passed.get(user, b""), code):
            return True
        import bcrypt

        # A user who is none is compared as well, so that time does not tell who is one.
        hashed = self._users.get(user) or next(iter(self._users.values()))
        with self._lock:
            fits = bcrypt.checkpw(password[:_READ_BY_BCRYPT], hashed)
        if not fits or user not in self._users:
            return False
        self._passed[user] = code
        return True


def _credentials(authorization: str) -> tuple[str, bytes]:
    scheme, _, rest = authorization.partition(" ")
    if scheme.lower() != "basic":
        return "", b""
    try:
        user, _, password = base64.b64decode(rest.strip(), validate=True).partition(b":")
    except (binascii.Error, ValueError):
        return "", b""
    return ("", b"") if b"\0" in password else (user.decode("utf-8", "replace"), password)


def load_protection(path: Path) -> Protection:
    """Return what a file says of who may read the metrics.

    Raises
    ------
    UsageError
        It cannot be read, has a key that is unknown or not supported, protects nothing, names
        certificates that cannot be loaded, or `bcrypt` or `yaml` is not installed.
    """
    yaml = _libraries()
    name, stamp = f"{_NOUN} {visible(os.fspath(path))}", _stamp(path)
    try:
        document = yaml.safe_load(read_text(path, _NOUN))
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        line = "" if mark is None else f":{mark.line + 1}"
        raise UsageError(f"{name}{line}: not YAML", code="not-yaml") from error
    if not isinstance(document, dict) or not all(isinstance(word, str) for word in document):
        raise UsageError(f"{name}: not a table of settings", code="wrong-type")
    stated, problems = _SCHEMA.read(document)
    config: WebConfig = _SCHEMA.build(stated) if not problems else WebConfig()
    problems = problems or _contradictions(config)
    if problems:
        raise config_error(problems, name, Lines())
    tls = config.tls_server_config
    named = [file for file in (tls.cert_file, tls.key_file, tls.client_ca_file) if file is not None]
    files = {path: stamp, **{path.parent / file: _stamp(path.parent / file) for file in named}}
    return Protection(_context(tls, path.parent), config.basic_auth_users or {}, files)


def _stamp(file: Path) -> _Stamp:
    try:
        state = file.stat()
    except OSError:
        return None
    return state.st_ino, state.st_mtime_ns, state.st_size


def _libraries() -> ModuleType:
    """Return the reader of YAML; a missing bcrypt is found here and not by the first scrape."""
    try:
        import bcrypt  # noqa: F401
        import yaml
    except ImportError as error:
        raise UsageError(
            f"{_NOUN} needs bcrypt and PyYAML, which are not installed",
            code="web-config-missing",
            hint=install_command("metrics"),
        ) from error
    return yaml


def _contradictions(config: WebConfig) -> list[Problem]:
    tls, at = config.tls_server_config, "tls_server_config"
    verifies = tls.client_auth_type != "NoClientCert"
    if (tls.cert_file is None) != (tls.key_file is None):
        missing = "cert_file" if tls.cert_file is None else "key_file"
        return [Problem((at, missing), "is missing: TLS needs both", "name both files")]
    if tls.cert_file is None and (tls.client_ca_file is not None or verifies):
        return [Problem((at, "cert_file"), "is missing: clients are verified by TLS alone")]
    if verifies != (tls.client_ca_file is not None):
        hint = 'client_auth_type: "RequireAndVerifyClientCert" goes with client_ca_file'
        return [Problem((at, "client_auth_type"), "needs client_ca_file, and the reverse", hint)]
    if tls.cert_file is None and not config.basic_auth_users:
        hint = "set cert_file and key_file, or basic_auth_users; or leave web_config_file out"
        return [Problem((at,), "nothing is protected", hint)]
    return []


def _context(tls: TlsServer, directory: Path) -> ssl.SSLContext | None:
    if tls.cert_file is None or tls.key_file is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[tls.min_version]
    context.verify_mode = _VERIFIED[tls.client_auth_type]
    shown = tls.cert_file
    try:
        # An empty password: a key that has one must not ask for it on a terminal.
        context.load_cert_chain(directory / tls.cert_file, directory / tls.key_file, password="")
        if tls.client_ca_file is not None:
            shown = tls.client_ca_file
            context.load_verify_locations(directory / tls.client_ca_file)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"{_NOUN} names {visible(shown)}, which cannot be used: {visible(reason)}",
            code="certificate-unusable",
            hint="PEM files, without a password on the key; names begin at the file's directory",
        ) from error
    return context
