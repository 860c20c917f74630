"""What smartctl says of NVMe, SCSI and ATA drives, as JSON."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from tests.formats.damage import cuts
from tests.formats.of_formats import read_or_none, recognised
from tests.formats.recorded import FIXTURES
from tests.support.codes import raises

from trimtab.base.error import DataError
from trimtab.base.run import RunStatus
from trimtab.formats.measurement import Measurement
from trimtab.formats.smartctl import FORMAT
from trimtab.formats.source import OutputFile

NVME = {
    "json_format_version": [1, 0],
    "smartctl": {
        "version": [7, 3],
        "argv": ["smartctl", "-j", "-a", "/dev/nvme0"],
        "exit_status": 0,
    },
    "local_time": {"time_t": 1795855853},
    "device": {"name": "/dev/nvme0", "type": "nvme", "protocol": "NVMe"},
    "model_name": "SAMSUNG MZWLR7T6HBLA",
    "serial_number": "S6EXNE0R",
    "smart_status": {"passed": True},
    "nvme_smart_health_information_log": {
        "critical_warning": 0,
        "available_spare": 100,
        "percentage_used": 7,
        "data_units_read": 3_000_000,
        "data_units_written": 2_000_000,
        "media_errors": 3,
    },
    "power_on_time": {"hours": 9000},
}
SCSI = {
    "scsi_grown_defect_list": 2,
    "scsi_error_counter_log": {
        "read": {"total_uncorrected_errors": 4},
        "write": {"total_uncorrected_errors": 1},
    },
}
ATA = {
    "ata_smart_attributes": {
        "table": [{"id": 5, "name": "Reallocated_Sector_Ct", "raw": {"value": 8, "string": "8"}}]
    },
    "ata_device_statistics": {
        "pages": [{"table": [{"name": "Percentage Used Endurance Indicator", "value": 12}]}]
    },
}


def document(*parts: dict[str, Any], **changes: object) -> str:
    head = {name: NVME[name] for name in ("json_format_version", "smartctl", "smart_status")}
    merged: dict[str, object] = {} if parts and parts[0] is NVME else dict(head)
    for part in parts:
        merged |= part
    return json.dumps(merged | changes, indent=2)


def read(text: str) -> Measurement:
    source = OutputFile("smart.json", text.encode())
    assert recognised(source) == ["smartctl"]
    (measured,) = FORMAT.read(source)
    return measured


def test_an_nvme_drive() -> None:
    measured = read(document(NVME))
    assert (measured.status, measured.layer) == (RunStatus.OK, "drive")
    assert measured.began == datetime(2026, 11, 28, 8, 50, 53, tzinfo=UTC)
    told = measured.reported
    assert (told["percentage_used"], told["media_errors"]) == (0.07, 3)
    assert told["host_written_bytes"] == 2_000_000 * 512_000
    assert "7 % of its life used, 3 media errors" in str(told["answer"])
    assert measured.samples == ()


def test_scsi_drives_of_old_and_new_versions_and_an_ata_drive() -> None:
    old: dict[str, object] = {"scsi_percentage_used_endurance_indicator": 9}
    for used in (old, {"endurance_used": {"current_percent": 9}}):
        told = read(document(SCSI, used)).reported
        assert (told["percentage_used"], told["media_errors"]) == (0.09, 5)
        assert told["grown_defects"] == 2
    told = read(document(ATA)).reported
    assert (told["reallocated_sectors"], told["percentage_used"]) == (8, 0.12)
    assert "media_errors" not in told


def test_a_drive_that_fails_says_so() -> None:
    measured = read(document(NVME, smart_status={"passed": False}))
    assert measured.warnings == ("the drive reports that it is failing",)


def test_what_was_not_read_is_told() -> None:
    content = (FIXTURES / "smartctl/7.3/absent.json").read_bytes()
    with raises(DataError, "no-result", "Unable to detect device type"):
        FORMAT.read(OutputFile("absent.json", content))
    partly = read(document(NVME, smartctl={"exit_status": 4, "messages": [{"string": "odd"}]}))
    assert (partly.status, partly.warnings) == (RunStatus.PARTIAL, ("odd",))


def test_cut_and_odd_documents_are_refused() -> None:
    for cut in cuts(document(NVME).encode(), seed=1, count=20):
        assert read_or_none(FORMAT, OutputFile("x", cut)) is None
    for value in ("x", None, [], 1e999, -1, True):
        odd = document(NVME, nvme_smart_health_information_log={"percentage_used": value})
        assert "percentage_used" not in read(odd).reported
