"""The watch's log in the form that was asked for: text, JSON, or fields of the journal."""

from __future__ import annotations

import io
import json
import logging
import socket
import struct
from pathlib import Path

import pytest

from trimtab.watch.log import JournalHandler, configured, fields


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
    assert (document["level"], document["field_at"], document["field_level"]) == (
        "info", "tomorrow", 9,
    )  # fmt: skip


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
    assert values["MESSAGE"] == "a slot failed"
    assert values["PRIORITY"] == "3"
    assert values["TRIMTAB_SITE"] == "scratch"
    assert values["TRIMTAB_ITEM"] == "a\nPRIORITY=0\n"
    assert values["TRIMTAB_DUE_AT"] == "3"
    assert "ValueError: broken" in values["TRIMTAB_ERROR"]


@pytest.mark.system
def test_without_a_journal_a_line_goes_to_stderr(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("trimtab.watch.log.SOCKET", str(tmp_path / "none"))
    log = configured(form="journal", site="scratch")
    log.warning("nobody listens")
    log.handlers[0].close()
    assert "nobody listens" in capsys.readouterr().err
