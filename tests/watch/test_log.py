"""The watch's log: text, JSON or fields of the journal; the names of processes."""

from __future__ import annotations

import io
import json
import logging
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from trimtab.store import slot
from trimtab.watch.service import JournalHandler, configured, fields


@pytest.mark.parametrize(("form", "is_json"), [("json", True), ("text", False), (None, True)])
def test_each_event_is_a_line_in_the_form_that_was_asked_for(
    form: str | None, is_json: bool
) -> None:
    stream = io.StringIO()
    log = configured(stream, form=form, level=logging.WARNING)
    log.info("a slot")
    log.warning("a line\nand another", extra=fields(item="snapshot"))
    (line,) = stream.getvalue().splitlines()
    assert line.startswith("{") == is_json
    if is_json:
        document = json.loads(line)
        assert document["message"] == "a line\nand another"
        assert document["item"] == "snapshot"
    else:
        assert "item=snapshot" in line


def test_a_field_never_takes_the_place_of_the_time_of_a_line() -> None:
    stream = io.StringIO()
    log = configured(stream, form="json")
    log.info("next", extra=fields(at="tomorrow", level=9))
    document = json.loads(stream.getvalue())
    assert document["at"].endswith("+00:00")
    said = {"level": "info", "field_at": "tomorrow", "field_level": 9}
    assert said.items() <= document.items()


def received(datagram: bytes) -> dict[str, str]:
    """Return the fields of a datagram, as the journal reads them."""
    values = {}
    while datagram:
        head, _, datagram = datagram.partition(b"\n")
        name, equals, value = head.partition(b"=")
        if not equals:
            (length,) = struct.unpack("<Q", datagram[:8])
            value, datagram = datagram[8 : 8 + length], datagram[9 + length :]
        values[name.decode()] = value.decode()
    return values


@pytest.mark.system
def test_the_journal_gets_fields_and_nothing_can_be_smuggled_in(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as journal:
        journal.bind(str(tmp_path / "journal"))
        log = logging.Logger("watch")
        log.addHandler(JournalHandler(site="scratch", address=str(tmp_path / "journal")))
        try:
            raise ValueError("broken")
        except ValueError:
            log.exception("a slot failed", extra=fields(item="a\nPRIORITY=0\n", **{"due-at": 3}))
        values = received(journal.recv(1 << 20))
        log.handlers[0].close()
    assert "ValueError: broken" in values["TRIMTAB_ERROR"]
    expected = {
        "MESSAGE": "a slot failed", "PRIORITY": "3", "TRIMTAB_SITE": "scratch",
        "TRIMTAB_ITEM": "a\nPRIORITY=0\n", "TRIMTAB_DUE_AT": "3",
    }  # fmt: skip
    assert {name: values[name] for name in expected} == expected


@pytest.mark.system
def test_without_a_journal_a_line_goes_to_stderr(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("trimtab.watch.service.SOCKET", str(tmp_path / "none"))
    log = configured(form="journal", site="scratch")
    log.warning("nobody listens")
    log.handlers[0].close()
    assert "nobody listens" in capsys.readouterr().err


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


@pytest.mark.system
def test_a_process_that_is_gone_is_known_by_its_start() -> None:
    own = slot.this_process()
    assert not slot.is_gone(own)
    host, number, start, place = own.rsplit(":", 3)
    assert slot.is_gone(f"{host}:{number}:{start}0:{place}")  # the number is another process's
    assert not slot.is_gone(f"another-{own}")  # of another host nothing is known
    assert not slot.is_gone("something else")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        name = f"{host}:{child.pid}:{slot._start(child.pid, slot.Path('/'))}:{place}"
        assert not slot.is_gone(name)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # a zombie watches nothing
        assert slot.is_gone(name)
    assert slot.is_gone(name)


def _machine(
    root: Path,
    *,
    machine: str = "m1",
    boot: str = "b1",
    namespace: str = "pid:[4026531836]",
    uuid: str | None = None,
    runs: bool = False,
) -> Path:
    """Make the tree of a machine on which this process runs, or does not."""
    root = root / f"{len(list(root.iterdir()))}"
    files = {"proc/sys/kernel/random/boot_id": boot, "etc/machine-id": machine}
    if uuid is not None:
        files["sys/class/dmi/id/product_uuid"] = uuid
    if runs:
        files[f"proc/{os.getpid()}/stat"] = f"{os.getpid()} (a) b) S " + "0 " * 18 + "777 0"
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{text}\n")
    (root / "proc/self/ns").mkdir(parents=True)
    (root / "proc/self/ns/pid").symlink_to(namespace)
    return root


CONTAINER = "pid:[4026532201]"


@pytest.mark.parametrize(
    ("there", "here", "known"),
    [
        ({}, {}, True),
        ({}, {"boot": "b2"}, True),  # a reboot
        ({}, {"machine": "m2"}, False),
        ({}, {"namespace": CONTAINER}, False),
        ({"namespace": CONTAINER}, {}, False),
        ({"namespace": CONTAINER}, {"namespace": CONTAINER}, True),
        ({"namespace": CONTAINER}, {"namespace": CONTAINER, "boot": "b2"}, False),
        # One image: two containers of one host, and two hosts that count alike.
        ({"namespace": CONTAINER}, {"namespace": "pid:[4026532202]"}, False),
        ({"uuid": "u1"}, {"uuid": "u2"}, False),  # clones
        ({"uuid": "u1"}, {"uuid": "u1"}, True),
        ({"machine": ""}, {"machine": ""}, True),
        ({"machine": ""}, {"machine": "", "boot": "b2"}, False),
        ({"machine": "uninitialized"}, {"machine": "uninitialized", "boot": "b2"}, False),
    ],
)
def test_only_a_process_of_this_machine_and_namespace_is_known_to_be_gone(
    tmp_path: Path, there: dict[str, str], here: dict[str, str], known: bool
) -> None:
    name = slot.this_process(_machine(tmp_path, runs=True, **there))  # type: ignore[arg-type]
    assert slot.is_gone(name, _machine(tmp_path, **here)) is known  # type: ignore[arg-type]


def test_where_nothing_tells_the_machine_nobody_is_known_to_be_gone(tmp_path: Path) -> None:
    assert not slot.is_gone(slot.this_process(tmp_path), tmp_path)
