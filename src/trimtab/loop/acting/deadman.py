"""Puts a value back when the process that wrote it dies before it has read the value again.

Where the servers do that by themselves (`Driver.dead_man_s`), no child is needed. Elsewhere a child
holds a pipe from this process. It is told before each write, and again when the value was read
back. When the pipe ends in between, it writes the value of before.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING

from trimtab.errors import TrimtabError
from trimtab.model.telemetry import Setting

if TYPE_CHECKING:
    from trimtab.drivers.protocol import Driver
    from trimtab.model.action import Instruction


class DeadMan:
    """The child that puts back; where there is none (``None``), nothing does.

    Parameters
    ----------
    pipe
        Descriptor of the writing end.
    """

    def __init__(self, pipe: int | None = None) -> None:
        self._pipe = pipe

    @contextlib.contextmanager
    def armed(self, instruction: Instruction) -> Iterator[None]:
        """Have the value of before put back should this process die in the block."""
        self._tell(
            {
                "target": instruction.target,
                "setting": instruction.setting,
                "before": instruction.before,
                "value": instruction.value,
            }
        )
        try:
            yield
        except TrimtabError:
            self._tell({})  # it ended, and is known
            raise
        self._tell({})

    def _tell(self, line: dict[str, str | None]) -> None:
        if self._pipe is not None:
            os.write(self._pipe, json.dumps(line).encode() + b"\n")


@contextlib.contextmanager
def dead_man(driver: Driver) -> Iterator[DeadMan]:
    """Start the child, and end it with the block."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        with contextlib.suppress(BaseException):
            os.close(writing)
            os.setsid()
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            put_back(driver, reading)
            code = 0
        os._exit(code)
    os.close(reading)
    try:
        yield DeadMan(writing)
    finally:
        os.close(writing)
        os.waitpid(child, 0)


def put_back(driver: Driver, reading: int) -> bool:
    """Read what is written until the pipe ends, then put back what was not read back.

    Returns whether a value was put back. A value that another has changed since stays.
    """
    pending: dict[str, str] = {}
    with os.fdopen(reading, "rb") as lines:
        for line in lines:
            if line.endswith(b"\n"):  # half a line was never followed by a write
                pending = json.loads(line)
    if not pending:
        return False
    target, setting = pending["target"], pending["setting"]
    current = driver.settings(target).get(setting)
    if not isinstance(current, Setting) or current.value != pending["value"]:
        return False
    driver.set(target, setting, pending["before"])
    return True
