"""NVMe logs in the JSON of nvme-cli 1.x and 2.x, written for these tests after its formats."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reach.hosts import host
from tests.support.narrow import instance

from trimtab.base.error import ToolError
from trimtab.base.filesystem import BlockDevice
from trimtab.base.snapshot import NotAvailable, Reading
from trimtab.reach.host import Host
from trimtab.reach.local_telemetry import (
    HEALTH,
    SmartLog,
    integer,
    parse_intel_log,
    parse_media_written,
    parse_smart_log,
    read_drive,
    write_amplification,
)
from trimtab.reach.process import Execute, ProcessResult

# nvme-cli 1.16 (RHEL 8): plain numbers.
LOG_1 = """{
  "critical_warning" : 0,
  "temperature" : 310,
  "avail_spare" : 100,
  "spare_thresh" : 10,
  "percent_used" : 3,
  "data_units_read" : 129837421,
  "data_units_written" : 412345678,
  "host_read_commands" : 9128374,
  "media_errors" : 2,
  "num_err_log_entries" : 12
}"""
# nvme-cli 2.x: counters of 128 bits may be text, a note may stand before the object.
LOG_2 = """Note: this is a warning of the library
{"critical_warning":{"value":0,"available_spare":0},"percent_used":3,
 "data_units_written":"412345678","media_errors":"2","thm_temp1_trans_count":0}"""
LOG = SmartLog(0.03, 412345678 * 512_000, 2)

# Written by the OCP plugin: 128 bits as two halves, names as in the specification.
OCP = json.dumps(
    {
        "Physical media units written": {"hi": 0, "lo": 633363001344000},
        "Physical media units read": {"hi": 0, "lo": 5},
        "Bad user nand blocks - Raw": 0,
    }
)
OCP_SNAKE = json.dumps(
    {"log": [{"physical_media_units_written": {"hi": "0", "lo": "633363001344000"}}]}
)
INTEL = json.dumps(
    {
        "Intel Smart log": "nvme0n1",
        "Device stats": {
            "program_fail_count": {"normalized": 100, "raw": 0},
            "nand_bytes_written": {"normalized": 100, "raw": 2_400_000},
            "host_bytes_written": {"normalized": 100, "raw": 1_000_000},
        },
    }
)


def test_every_log_is_in_bytes_and_a_missing_value_is_not_zero() -> None:
    assert parse_smart_log(LOG_1) == parse_smart_log(LOG_2) == LOG
    assert parse_smart_log('{"percent_used": 7}') == SmartLog(0.07, None, None)
    assert parse_media_written(OCP) == parse_media_written(OCP_SNAKE) == 633363001344000
    # Intel's log counts in 32 MiB.
    assert parse_intel_log(INTEL) == (2_400_000 * 32 * 1024**2, 1_000_000 * 32 * 1024**2)
    # Amplification is media over host.
    assert write_amplification(3 * 10**9, 2 * 10**9) == 1.5
    assert isinstance(write_amplification(3 * 10**9, None), NotAvailable)
    assert isinstance(write_amplification(10**9, 5 * 512_000), NotAvailable)


@pytest.mark.parametrize(
    "text",
    ["", "nvme: command not found", "{", '{"data_units_written": ', "{}", '{"a": [1, 2]}', "[1]"],
)
def test_an_unreadable_log_says_why(text: str) -> None:
    for parse in (parse_smart_log, parse_media_written, parse_intel_log):
        answer = instance(NotAvailable, parse(text))
        assert answer.reason


def test_an_error_in_json_is_passed_on_and_depth_is_no_way_to_crash_it() -> None:
    answer = parse_smart_log('{"error": "NVMe status: Invalid Log Page (0x4109)"}')
    assert "Invalid Log Page" in instance(NotAvailable, answer).reason
    assert isinstance(parse_media_written('{"a":' * 100_000), NotAvailable)


@given(st.integers(min_value=0, max_value=2**128 - 1))
def test_128_bits_in_every_way_of_writing(number: int) -> None:
    halves = {"hi": number >> 64, "lo": number & (2**64 - 1)}
    assert integer(halves) == integer(str(number)) == integer(f"{number:,}") == number


@pytest.mark.parametrize("value", [None, True, "n/a", "", "1.5", 1.5, {"hi": 1}, {}, [1], "-3"])
def test_what_is_no_counter(value: object) -> None:
    assert integer(value) is None


DRIVE = BlockDevice("nvme0n1", "disk", transport="pcie")


class _Nvme:
    """An nvme-cli that knows some commands."""

    def __init__(self, **answers: str) -> None:
        self.answers = {name.replace("_", " "): text for name, text in answers.items()}
        self.asked: list[str] = []

    def __call__(self, argv: Sequence[str], **_options: object) -> ProcessResult:
        command = " ".join(argv[1:]).partition(" -o")[0]
        self.asked.append(command)
        text = self.answers.get(command.replace("-", " "))
        return ProcessResult(
            argv=tuple(argv),
            stdout=(text or "").encode(),
            stderr=b"" if text else b"NVMe status: Invalid Log Page(0x109)\n",
            exit_code=0 if text else 1,
            signal=None,
            started_at=datetime(2026, 11, 20, tzinfo=UTC),
            elapsed_s=0.01,
            timeout_s=15.0,
        )


def _health(drive: BlockDevice, nvme: Execute, *, on: Host | None = None) -> dict[str, Reading]:
    """Return the health of a drive by name, each reading with the drive as its label."""
    seen = {reading.name: reading for reading in read_drive(on or Host(), drive, nvme)}
    assert tuple(seen) == HEALTH
    assert {reading.label for reading in seen.values()} == {drive.name}
    return seen


def test_a_drive_with_the_ocp_log() -> None:
    nvme = _Nvme(smart_log=LOG_1, ocp_smart_add_log=OCP)
    health = _health(DRIVE, nvme)
    assert health["drive_percentage_used"].value == 0.03
    assert health["drive_media_errors_total"].value == 2
    assert health["drive_write_amplification"].value == pytest.approx(3.0, rel=1e-3)
    assert health["drive_host_written_bytes_total"].value == 412345678 * 512_000
    assert health["drive_media_written_bytes_total"].value == 633363001344000
    log = "nvme smart-log -o json /dev/nvme0n1"
    ocp = "nvme ocp smart-add-log -o json /dev/nvme0n1"
    assert [reading.source for reading in health.values()] == [log, log, ocp, log, ocp]
    # Without any log of media writes the rest is known.
    health = _health(DRIVE, _Nvme(smart_log=LOG_1))
    assert health["drive_percentage_used"].value == 0.03
    assert "Invalid Log Page" in (health["drive_write_amplification"].reason or "")


@pytest.mark.parametrize(
    ("vendor", "command", "text", "amplification"),
    [
        ("0x8086", "intel smart-log-add", INTEL, 2.4),
        ("0x025e", "solidigm smart-log-add", INTEL, 2.4),
        ("0x1b96", "wdc vs-smart-add-log", OCP, 3.0),
    ],
)
def test_a_vendors_own_log(
    vendor: str, command: str, text: str, amplification: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Host, "read_text", lambda self, path, **_options: vendor)
    nvme = _Nvme(smart_log=LOG_1, **{command.replace("-", "_").replace(" ", "_"): text})
    health = _health(DRIVE, nvme)
    assert nvme.asked == ["smart-log", "ocp smart-add-log", command]
    assert health["drive_write_amplification"].value == pytest.approx(amplification, rel=1e-3)
    sources = [reading.source or "" for reading in health.values()]
    with_host = text == INTEL
    assert [command in source for source in sources] == [False, False, True, with_host, True]


def test_what_cannot_be_asked_says_why() -> None:
    nvme = _Nvme(smart_log=LOG_1)
    health = _health(BlockDevice("sda", "disk", transport="sas"), nvme)
    assert {one.reason for one in health.values()} == {"sda is not an NVMe drive (sas)"}
    # Another machine's drive is not asked either.
    assert _health(DRIVE, nvme, on=host("nvme-partition"))["drive_media_errors_total"].reason
    assert nvme.asked == []

    def missing(argv: Sequence[str], **_options: object) -> ProcessResult:
        raise ToolError("nvme is not installed")

    health = _health(DRIVE, missing)
    assert {one.reason for one in health.values()} == {"nvme is not installed"}
