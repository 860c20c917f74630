"""Values of sites, worked out once for each state of the store: see `trimtab.web.desk`."""

from __future__ import annotations

import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar, cast

if TYPE_CHECKING:
    from trimtab.record.store import Store

Value = TypeVar("Value")
Mark = tuple[object, ...]
Elsewhere = Callable[[str], object]

_REMEMBERED: Final = 512
"""Values of one state of a site; those of `LONG` stay besides."""
_LASTING_MAX: Final = 64
"""Values that depend on their names alone: drawings, the larger ones."""
LOOKS_S: Final = 1.0
"""A store is asked at most so often whether it has changed."""
FILES_S: Final = 10.0
"""Files of purges and results are looked at at most so often."""
BODIES_MAX_BYTES: Final = 32 * 2**20
"""Of documents that are remembered as they are sent, and of their addresses."""

_FILES, _LASTING = "\0files", "\0lasting"
"""Beside the sites, none of which can be called so."""
LONG: Final = ("status", "judged", "standing", "targets", "panels")
"""Values that are worked out beside the requests, each by the method of its name; the others are
soon made of them."""


@dataclass(slots=True)
class _Slot:
    lock: threading.Lock = field(default_factory=threading.Lock)
    is_made: bool = False
    value: object = None


@dataclass(slots=True)
class _View:
    """What was worked out for one state of a site's store."""

    mark: Mark
    lock: threading.Lock = field(default_factory=threading.Lock)
    is_prepared: bool = False
    slots: OrderedDict[tuple[str, ...], _Slot] = field(default_factory=OrderedDict)


class Remembering:
    """Remembers values of the sites of one store; the parameters are those of `Desk`."""

    def __init__(
        self,
        store: Store,
        *,
        elapsed_s: Callable[[], float] = time.monotonic,
        beside: Callable[[Callable[[], object]], object] | None = None,
        elsewhere: Elsewhere | None = None,
    ) -> None:
        self.store, self._elapsed_s = store, elapsed_s
        self._beside, self._elsewhere, self._thread = beside, elsewhere, threading.local()
        self._lock = threading.Lock()
        self._looked_at = float("-inf")
        self._views: dict[str, _View] = {}
        self._presents: dict[str, _View] = {}
        self._renewing: set[str] = set()
        self._marks: dict[str, tuple[float, Mark]] = {}
        self._bodies: OrderedDict[tuple[str, ...], tuple[Mark, bytes]] = OrderedDict()
        self._bodies_bytes = 0

    def _look(self) -> None:
        """Look, at most once a second, whether the store is still the one that was opened."""
        now = self._elapsed_s()
        if now - self._looked_at < LOOKS_S:
            return
        if self.store.look_again():
            with self._lock:
                self._views.clear()
                self._presents.clear()
                self._marks.clear()
                self._bodies.clear()
                self._bodies_bytes = 0
        self._looked_at = now

    def mark(self, site: str) -> Mark:
        """Return what differs when anything that is shown of a site has changed."""
        return self._view(site).mark, self._mark(site)

    def _mark(self, site: str) -> Mark:
        """Return what differs when anything of a site has changed in its store."""
        now = self._elapsed_s()
        with self._lock:
            at, mark = self._marks.get(site, (float("-inf"), ()))
        if now - at >= LOOKS_S:
            mark = self.store.mark(site)
            if mark:  # else there is no such site: nothing is kept of what somebody made up
                with self._lock:
                    self._marks[site] = (now, mark)
        return mark

    def forget_mark(self, site: str) -> None:
        """Look at the store again at the next question: something was just written."""
        with self._lock:
            self._marks.pop(site, None)

    def remembered(
        self, site: str, *name: str, make: Callable[[], Value], at_once: bool = False
    ) -> Value:
        """Return a value that depends on a site's store alone, worked out once for each state.

        Parameters
        ----------
        make
            Works it out. What it needs of other remembered values it asks for itself.
        at_once
            Of the present state, whatever the view that is shown: what somebody has just written.
        """
        view = self._view_of(site, self._mark(site)) if at_once else self._view(site)
        if self._elsewhere is not None and name[0] in LONG:
            return self._made(view, name, partial(self._prepared, view, site, make))
        return self._made(view, name, make)

    def _prepared(self, view: _View, site: str, make: Callable[[], Value]) -> Value:
        """Return a value whose parts another process has worked out and kept in the store."""
        assert self._elsewhere is not None
        with view.lock:
            if not view.is_prepared:
                self._elsewhere(site)
                view.is_prepared = True
        return make()

    def recent(self, *name: str, make: Callable[[], Value]) -> Value:
        """Return a value that depends on files, worked out again when it is `FILES_S` old."""
        return self._made(self._view_of(_FILES, (self._elapsed_s() // FILES_S,)), name, make)

    def forget_recent(self, *name: str) -> None:
        """Work out a value that depends on files again at the next question."""
        with self._lock:
            view = self._presents.get(_FILES)
            if view is not None:
                view.slots.pop(name, None)

    def lasting(self, *name: str, make: Callable[[], Value]) -> Value:
        """Return a value that depends on its name alone."""
        return self._made(self._view_of(_LASTING, (_LASTING,)), name, make, most=_LASTING_MAX)

    def _made(
        self,
        view: _View,
        name: tuple[str, ...],
        make: Callable[[], Value],
        *,
        most: int = _REMEMBERED,
    ) -> Value:
        with self._lock:
            slot = view.slots.setdefault(name, _Slot())
            view.slots.move_to_end(name)
            if len(view.slots) > most:
                # What took long to work out is not given up for what somebody happened to ask for.
                others = [other for other in view.slots if other[0] not in LONG]
                for oldest in others[: max(0, len(others) - most)]:
                    del view.slots[oldest]
        with slot.lock:
            if not slot.is_made:
                try:
                    slot.value, slot.is_made = make(), True
                except BaseException:
                    with self._lock:  # a name that nothing has takes no place
                        if view.slots.get(name) is slot:
                            del view.slots[name]
                    raise
            return cast("Value", slot.value)

    def _view(self, site: str) -> _View:
        """Return the view that is shown: of this state, or of before until the next is ready."""
        of_thread: dict[str, _View] = getattr(self._thread, "views", {})
        if site in of_thread:
            return of_thread[site]
        mark = self._mark(site)
        if not mark:
            return _View(mark)
        with self._lock:
            shown = self._views.get(site)
            if shown is None or (shown.mark != mark and self._beside is None):
                shown = self._views[site] = _View(mark)
            is_old = shown.mark != mark and site not in self._renewing
            if is_old:
                self._renewing.add(site)
        if is_old and self._beside is not None:
            self._beside(lambda: self._renew(site, mark, shown))
        return shown

    def _view_of(self, key: str, mark: Mark) -> _View:
        with self._lock:
            view = self._presents.get(key)
            if view is None or view.mark != mark:
                view = _View(mark)
                if mark:
                    self._presents[key] = view
            return view

    def _renew(self, site: str, mark: Mark, shown: _View) -> None:
        """Work out the next view, then show it; where that fails, who asks gets the failure."""
        fresh = _View(mark)
        names = [name for name in LONG if (name,) in shown.slots]
        try:
            self._fill(site, fresh, names)
        except BaseException:
            fresh = _View(mark)
            raise
        finally:
            with self._lock:
                self._renewing.discard(site)
                if self._views.get(site) is shown:
                    self._views[site] = fresh

    def _fill(self, site: str, view: _View, names: Sequence[str]) -> None:
        """Work out values for a view, all of its state."""
        self._thread.views = {site: view}
        try:
            for name in names:
                getattr(self, name)(site)
        finally:
            self._thread.views = {}

    def encoded(
        self, site: str, *name: str, make: Callable[[], bytes], at_once: bool = False
    ) -> bytes:
        """Return a document as it is sent, made once for each state of a site's store.

        Parameters
        ----------
        at_once
            As `remembered` has it.
        """
        mark = self._mark(site) if at_once else self._view(site).mark
        key = (site, *name)
        with self._lock:
            known = self._bodies.get(key)
            if known is not None and known[0] == mark:
                self._bodies.move_to_end(key)
                return known[1]
        body = make()
        with self._lock:
            self._forget_body(key)
            self._bodies[key] = (mark, body)
            self._bodies_bytes += _size_of(key, body)
            while self._bodies_bytes > BODIES_MAX_BYTES:
                self._forget_body(next(iter(self._bodies)))
        return body

    def _forget_body(self, key: tuple[str, ...]) -> None:
        _, body = self._bodies.pop(key, ((), None))
        if body is not None:
            self._bodies_bytes -= _size_of(key, body)


def _size_of(key: tuple[str, ...], body: bytes) -> int:
    """Return the bytes that a document and its address take."""
    return sum(map(sys.getsizeof, key)) + sys.getsizeof(body)
