"""A snapshot that is taken beside a probe, in a thread of its own.

A probe whose target is lost waits for minutes; the alert of the loss must not wait with it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trimtab.drivers.protocol import Driver
    from trimtab.model.telemetry import Snapshot


@dataclass(frozen=True, slots=True)
class Taking:
    """A snapshot that is being taken.

    Attributes
    ----------
    due_at, started_at
        Of its slot.
    answer
        The snapshot once it is there, or what went wrong.
    """

    due_at: datetime
    started_at: datetime
    answer: Future[Snapshot]


def begin(driver: Driver, due_at: datetime, clock: Callable[[], datetime]) -> Taking:
    """Begin to take a snapshot and return at once; nobody else uses the driver meanwhile."""
    taking = Taking(due_at, clock(), Future())

    def take() -> None:
        try:
            taking.answer.set_result(driver.snapshot(clock()))
        except BaseException as error:  # noqa: BLE001 (raised where the answer is taken)
            taking.answer.set_exception(error)

    # A daemon: what hangs must not keep the watch from ending.
    threading.Thread(target=take, name="snapshot-beside", daemon=True).start()
    return taking
