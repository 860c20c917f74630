"""Signals become one error, at a moment when it can do no harm.

::

    with interruptible():            # SIGINT, SIGTERM, SIGHUP raise Interrupted, once
        with shielded():             # ... but not in here: remembered, raised on leaving
            make the directory
            try:
                with lifted():       # ... except in here, where stopping is fine
                    work for a minute
            finally:
                remove the directory # runs to its end whatever arrives

Once `Interrupted` was raised, later signals of the same stretch are ignored: a second Ctrl-C
does not stop the cleaning-up that the first one started.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final

from trimtab.errors import Interrupted, TrimtabError

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_AGAIN_S: Final = 0.01
_DELIVERIES: Final = 100


@dataclass(slots=True)
class _Stretch:
    """The state of one `interruptible` stretch."""

    depth: int = 0
    pending: int | None = None
    raised: bool = False

    def handle(self, number: int, _frame: FrameType | None) -> None:
        if self.raised:
            return
        self.pending = number
        if self.depth == 0:
            self.raise_pending()

    def raise_pending(self) -> None:
        if self.pending is not None and not self.raised:
            self.raised = True
            raise self.error()

    def error(self) -> Interrupted:
        name = "a signal" if self.pending is None else signal.Signals(self.pending).name
        return Interrupted(f"stopped by {name}")


_current: _Stretch | None = None


@contextmanager
def interruptible() -> Iterator[None]:
    """Turn SIGINT, SIGTERM and SIGHUP into `Interrupted`, raised once in the main thread.

    A signal that was ignored on entry (``nohup``) stays ignored. Earlier handlers come back on
    leaving. Outside the main thread, or inside another such stretch, it changes nothing.

    Raises
    ------
    Interrupted
        Also on leaving, when a signal came that could not be raised before; and instead of an
        error that is none of ours, when one escapes after a signal was raised.
    """
    global _current  # noqa: PLW0603 (signal handlers are global to the process)
    if _current is not None or threading.current_thread() is not threading.main_thread():
        yield
        return
    stretch = _Stretch()
    before: dict[int, Any] = {}
    hook = sys.unraisablehook

    def unraisable(lost: Any) -> None:
        # Raised inside a finalizer, an exception goes nowhere: deliver the signal again, and not
        # at once, since here we are still inside of it.
        if isinstance(lost.exc_value, Interrupted) and stretch.pending is not None:
            stretch.raised = False
            # Delivered while this still runs, it would be lost again: then it only is remembered.
            stretch.depth += 1
            try:
                threading.Thread(target=_deliver_again, args=(stretch,), daemon=True).start()
            finally:
                stretch.depth -= 1
        else:
            hook(lost)

    try:
        _current = stretch
        sys.unraisablehook = unraisable
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.getsignal(number)
                signal.signal(number, stretch.handle)
        yield
    except TrimtabError:
        raise
    except Exception as error:
        # An extension module that called back into Python may turn our error into one of its own.
        if stretch.raised and stretch.pending is not None:
            raise stretch.error() from error
        raise
    finally:
        stretch.depth += 1
        for number, handler in before.items():
            # None: installed by something other than Python, which cannot be put back.
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
        sys.unraisablehook = hook
        _current = None
    stretch.raise_pending()


@contextmanager
def shielded() -> Iterator[None]:
    """Hold `Interrupted` back until the block has ended; for making and cleaning up.

    If the block ends with an error of its own, that error goes on and the signal stays
    remembered: it is raised where the next shield, or the whole stretch, ends.
    """
    stretch = _stretch_of_this_thread()
    if stretch is None:
        yield
        return
    stretch.depth += 1
    try:
        yield
    finally:
        stretch.depth -= 1
    if stretch.depth == 0:
        stretch.raise_pending()


@contextmanager
def lifted() -> Iterator[None]:
    """Undo one `shielded`; raises at once if that was the last one and a signal waits."""
    stretch = _stretch_of_this_thread()
    if stretch is None:
        yield
        return
    stretch.depth -= 1
    try:
        if stretch.depth == 0:
            stretch.raise_pending()
        yield
    finally:
        stretch.depth += 1


def _deliver_again(stretch: _Stretch) -> None:
    """Send the waiting signal to the main thread until it was raised or the stretch is over."""
    main = threading.main_thread().ident
    for _ in range(_DELIVERIES):
        time.sleep(_AGAIN_S)
        if _current is not stretch or stretch.raised or main is None or not stretch.pending:
            return
        signal.pthread_kill(main, stretch.pending)


def _stretch_of_this_thread() -> _Stretch | None:
    return _current if threading.current_thread() is threading.main_thread() else None
