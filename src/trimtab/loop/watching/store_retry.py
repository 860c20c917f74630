"""The store as the watch uses it: a call that fails is made again until it works."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime
from itertools import count
from typing import Final, TypeVar

from trimtab.errors import UnreadableError
from trimtab.launch.interruption import shielded
from trimtab.loop.watching.log import fields

_T = TypeVar("_T")

FIRST_WAIT_S: Final = 1.0
LONGEST_WAIT_S: Final = 60.0


class Patience:
    """Makes calls to the store, again and again where it does not answer.

    Parameters
    ----------
    outage
        Told from when to when the store could not be used, once it can be used again.
    """

    def __init__(
        self,
        log: logging.Logger,
        clock: Callable[[], datetime],
        rest: Callable[[float], None],
        outage: Callable[[datetime, datetime], None],
    ) -> None:
        self._log, self._clock, self._rest, self._outage = log, clock, rest, outage

    def keep(self, activity: str, call: Callable[[], _T], *, attempts: int | None = None) -> _T:
        """Return what the call returns; waits twice as long after each failure, at most a minute.

        Signals do not interrupt the call itself, only the waiting.

        Parameters
        ----------
        attempts
            How often to try; without end where ``None``, for what may not be lost.

        Raises
        ------
        UnreadableError
            By the last attempt.
        """
        wait_s, since = FIRST_WAIT_S, None
        for attempt in count(1):
            try:
                with shielded():
                    result = call()
            except UnreadableError as error:
                if attempt == attempts:
                    raise
                since = since or self._clock()
                self._log.error(
                    "the store cannot be used",
                    extra=fields(doing=activity, problem=error.message, again_in_s=wait_s),
                )
                self._rest(wait_s)
                wait_s = min(LONGEST_WAIT_S, wait_s * 2)
            else:
                if since is not None:
                    self._outage(since, self._clock())
                return result
        raise AssertionError("counting has no end")
