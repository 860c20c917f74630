"""Accounts and directories for tests of notices."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

from tests.purge.plan.making import MADE_AT

from trimtab.purge.owner import Account

PUBLISHED_AT = MADE_AT + timedelta(minutes=10)


class Book:
    """Accounts that a test wrote down."""

    def __init__(self, **names: int) -> None:
        self._accounts = {uid: Account(uid, uid + 10_000, name) for name, uid in names.items()}

    def add(self, account: Account) -> None:
        self._accounts[account.uid] = account

    def __call__(self, uid: int) -> Account | None:
        return self._accounts.get(uid)


def clock(at: datetime = PUBLISHED_AT, step_s: float = 1.0) -> Callable[[], datetime]:
    """Return a clock that moves on each time it is read."""
    now = [at - timedelta(seconds=step_s)]

    def read() -> datetime:
        now[0] += timedelta(seconds=step_s)
        return now[0]

    return read


def open_directory() -> Iterator[Path]:
    """Make a directory that users can enter, which those of pytest are not."""
    directory = Path(tempfile.mkdtemp(prefix="trimtab-lists-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)
