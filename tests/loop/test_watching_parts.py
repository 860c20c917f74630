"""The log's lines and the names of processes."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys

from trimtab.loop.watching import holder
from trimtab.loop.watching.log import configured, fields


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_log_is_one_object_a_line() -> None:
    stream = io.StringIO()
    log = configured(stream)
    log.info("slot done", extra=fields(item="probe:a\n\udcff", due_at=None))
    try:
        raise KeyError("x")
    except KeyError:
        log.exception("a slot failed")
    first, second = (json.loads(line) for line in stream.getvalue().splitlines())
    assert first["level"] == "info"
    assert (first["message"], first["item"]) == ("slot done", "probe:a\n\udcff")
    assert "KeyError" in second["error"]
    assert stream.getvalue().isascii()


def test_a_person_reads_text_in_which_no_sign_acts() -> None:
    stream = _Terminal()
    configured(stream).warning("slot missed", extra=fields(item="a\x1b[2J"))
    assert stream.getvalue().endswith("warning: slot missed item=a\\x1b[2J\n")
    try:
        raise OSError("b\x1b[2J\udcff")
    except OSError:
        configured(stream).exception("a slot failed")
    assert "\x1b" not in stream.getvalue()
    assert stream.getvalue().encode().count(b"OSError: b\\x1b[2J") == 1


def test_a_process_that_is_gone_is_known_by_its_start() -> None:
    own = holder.own()
    assert not holder.gone(own)
    host, number, start = own.rsplit(":", 2)
    assert holder.gone(f"{host}:{number}:{start}0")  # the number was given to another process
    assert not holder.gone(f"another-{own}")  # of another host nothing is known
    assert not holder.gone("something else")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        name = f"{host}:{child.pid}:{holder._start(child.pid, holder.Path('/proc'))}"
        assert not holder.gone(name)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # a zombie watches nothing
        assert holder.gone(name)
    assert holder.gone(name)
