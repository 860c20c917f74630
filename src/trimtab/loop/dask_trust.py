"""Which Dask scheduler is believed, and how its client is kept from running what others send.

Whoever owns a scheduler or a worker chooses the bytes that its client reads, and a client of Dask
unpickles results, errors and messages: they would run as whoever started Trimtab. So no pickle of
theirs may name anything while a client is there. And as root only a scheduler is used that nobody
else can be, because what workers say decides what root deletes.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

from trimtab.config.files import refuse_below_others, refuse_foreign
from trimtab.errors import RefusedError, ToolError, TrimtabError, UsageError
from trimtab.record.trusted import read_trusted, trusted_directory
from trimtab.visible import visible

_NOUN: Final = "the file of the Dask scheduler"
_CONFIGURATION: Final = "the configuration of Dask"
_FILE_MOST: Final = 1 << 20
_READ: Final = ("msgpack", "error")
"""What Dask reads without a pickle: plain values, and the text of what could not be sent."""
_HINT: Final = (
    "use a scheduler at tls:// with the site's certificates (docs/scale.md), or one that root "
    "started, by a scheduler file that only root can write"
)
_clients = 0
"""Clients of Dask that are open in this process: nothing is unpickled meanwhile."""


def scheduler_address(scheduler: str) -> str:
    """Return the address of a scheduler, given that or the file that it wrote.

    Raises
    ------
    RefusedError
        This is root, and others could be that scheduler.
    UsageError, ToolError
        The file cannot be read, or is none of a scheduler.
    """
    path = Path(scheduler)
    is_file = path.exists()
    address = _address_in(path) if is_file else scheduler
    if os.geteuid() != 0 or address.startswith("tls://"):
        return address
    if not is_file:
        raise RefusedError(
            f"as root, {visible(address[:200])} is no Dask scheduler to be believed: without TLS "
            "anyone could be listening there",
            code="scheduler-untrusted",
            hint=_HINT,
        )
    return _address_of_own(path)


def require_own_configuration() -> None:
    """Refuse, as root, a configuration of Dask that others can change.

    Dask reads it when it is imported, and runs what it names (``distributed.client.preload``). With
    a ``HOME`` that sudo kept it is the caller's.

    Raises
    ------
    UsageError
        A file or directory of it belongs to somebody else, or others can write to it.
    """
    chosen = os.environ.get("DASK_CONFIG")
    for place in (Path("~/.config/dask").expanduser(), *([Path(chosen)] if chosen else [])):
        if os.geteuid() == 0 and place.exists():
            refuse_below_others(place.absolute(), _CONFIGURATION)
            for path in (place, *place.rglob("*")):
                refuse_foreign(path, _CONFIGURATION)


def _address_in(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            return _address(stream.read(_FILE_MOST), path)
    except OSError as error:
        raise ToolError(
            f"{_NOUN} {visible(str(path))} cannot be read: {error.strerror}",
            code="scheduler-unreachable",
            hint="start the scheduler with --scheduler-file",
        ) from error


def _address_of_own(path: Path) -> str:
    """Return the address in a file that only this user can have written."""
    owner = os.geteuid()
    try:
        with trusted_directory(path.parent, _NOUN, owner=owner) as directory:
            data = read_trusted(
                path.name, directory, _NOUN, maximum_bytes=_FILE_MOST, owner=owner, private=False
            )
    except TrimtabError as error:
        raise RefusedError(
            f"as root: {error.message}", code="scheduler-untrusted", hint=_HINT
        ) from error
    return _address(data, path)


def _address(data: bytes, path: Path) -> str:
    try:
        address = json.loads(data)["address"]
    except (ValueError, KeyError, TypeError):
        address = None
    if not isinstance(address, str):
        raise UsageError(
            f"{visible(str(path))} is no file of a Dask scheduler",
            code="scheduler-invalid",
            hint="give the file of dask scheduler --scheduler-file",
        )
    return address


@contextmanager
def nothing_unpickled() -> Iterator[None]:
    """Let no pickle do anything in this process, and Dask read only what is plain data.

    Notes
    -----
    Dask unpickles in many places, with no setting against it. All of them end in one: an object
    that a pickle is to make or call has to be looked up by name, which CPython announces as the
    audit event ``pickle.find_class`` (docs.python.org, Audit events table), in C as in Python. It
    is refused there. What can still be read are numbers, texts and containers of them.
    """
    global _clients  # noqa: PLW0603 (an audit hook is of the whole process and stays)
    from distributed.protocol.serialize import families, register_serialization_family

    _hook()
    readers = dict(families)
    logger = logging.getLogger("distributed")
    handlers = logger.handlers
    _clients += 1
    try:
        for name, (dumps, *_) in readers.items():
            if name not in _READ:
                register_serialization_family(name, dumps, _unread)
        # It prints what others wrote; what matters of it becomes an error here.
        logger.handlers = [logging.NullHandler()]
        yield
    finally:
        _clients -= 1
        logger.handlers = handlers
        families.update(readers)


@cache
def _hook() -> None:
    sys.addaudithook(_refuse_names)


def _refuse_names(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "pickle.find_class" and _clients:
        # Of this type, since Dask goes on where a traceback cannot be read for it.
        raise TypeError(f"a pickle asks for {arguments[0]}.{arguments[1]}: none is read here")


def _unread(_header: Any, frames: Any) -> bytes:
    """Return what Dask would have made an object of as the bytes that came."""
    return b"".join(frames)
