"""``smartctl --json``: wear and errors of one drive.

It is a measurement without samples: wear explains a bandwidth but is not one. A drive does not know
its target, so nothing becomes the target's telemetry; ``trimtab snapshot`` reads the same from the
drives beneath a target.

NVMe drives have a health log, SCSI drives error counters, ATA drives attributes with
vendor-specific numbers, of which only those named by smartctl itself are read.

Source: smartmontools 7.0 to 7.4, nvmeprint.cpp, scsiprint.cpp, ataprint.cpp (``jglb``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from trimtab.base.error import DataError
from trimtab.base.plain import as_dict, as_list, as_number, as_text, present, time_since_1970
from trimtab.base.run import RunStatus
from trimtab.base.units import format_value
from trimtab.formats.measurement import Measurement, Notes, OutputFile, OutputFormat

KIND: Final = "smartctl"
_DATA_UNIT_BYTES: Final = 512_000
"""NVMe's unit: a thousand sectors of 512 bytes, whatever the drive's block size."""
_RETURNED_NOTHING: Final = 0b111
"""Bits of the exit status: the command line, the device or a command of the drive failed."""


def read(source: OutputFile) -> tuple[Measurement, ...]:
    """Return the drive's figures; raise DataError if there are none."""
    start = source.text.find("{")
    try:
        document = as_dict(json.loads(source.text[start:])) if start >= 0 else {}
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"not a complete JSON document: {error}", code="not-json", line=1
        ) from error
    smartctl = as_dict(document.get("smartctl"))
    if not smartctl:
        raise DataError("not the JSON of smartctl", code="not-this-format", line=1)
    complaints = [
        text
        for message in as_list(smartctl.get("messages"))
        if (text := as_text(as_dict(message).get("string"))) is not None
    ]
    health = _health(document)
    if not health:
        why = "; ".join(complaints) or "neither wear nor errors: run smartctl with --json --all"
        raise DataError(
            f"smartctl reports nothing about the drive: {why}", code="no-result", line=1
        )
    return (_measurement(document, health, complaints),)


def _health(document: Mapping[str, Any]) -> dict[str, object]:
    """Return wear, errors and bytes, in base units."""
    log = as_dict(document.get("nvme_smart_health_information_log"))
    counters = as_dict(document.get("scsi_error_counter_log"))
    statistics = as_dict(document.get("endurance_used"))
    pages = as_list(as_dict(document.get("ata_device_statistics")).get("pages"))
    device_statistics = [row for page in pages for row in as_list(as_dict(page).get("table"))]
    used = [
        as_number(log.get("percentage_used")),
        as_number(statistics.get("current_percent")),
        as_number(document.get("scsi_percentage_used_endurance_indicator")),
        as_number(
            _row(device_statistics, "name", "Percentage Used Endurance Indicator").get("value")
        ),
    ]
    uncorrected = [
        as_number(as_dict(counters.get(way)).get("total_uncorrected_errors"))
        for way in ("read", "write", "verify")
    ]
    written, units_read = (as_number(log.get(f"data_units_{way}")) for way in ("written", "read"))
    errors = as_number(log.get("media_errors"))
    if errors is None and any(count is not None for count in uncorrected):
        errors = sum(count or 0 for count in uncorrected)
    percent = next((value for value in used if value is not None), None)
    spare = as_number(log.get("available_spare"))
    attributes = as_dict(document.get("ata_smart_attributes"))
    # 5 has the same meaning for all vendors.
    reallocated = _row(as_list(attributes.get("table")), "id", 5)
    passed = as_dict(document.get("smart_status")).get("passed")
    return present(
        {
            "passed": passed if isinstance(passed, bool) else None,
            "percentage_used": None if percent is None else percent / 100,
            "media_errors": None if errors is None else int(errors),
            "available_spare": None if spare is None else spare / 100,
            "critical_warning": as_number(log.get("critical_warning")),
            "grown_defects": as_number(document.get("scsi_grown_defect_list")),
            "reallocated_sectors": as_number(as_dict(reallocated.get("raw")).get("value")),
            "host_written_bytes": None if written is None else int(written) * _DATA_UNIT_BYTES,
            "host_read_bytes": None if units_read is None else int(units_read) * _DATA_UNIT_BYTES,
            "power_on_hours": as_number(as_dict(document.get("power_on_time")).get("hours")),
        }
    )


def _row(rows: Iterable[object], key: str, value: object) -> dict[str, Any]:
    """Return the first row of a table with this value; an empty one if there is none."""
    return next((row for row in map(as_dict, rows) if row.get(key) == value), {})


def _measurement(
    document: Mapping[str, Any], health: dict[str, object], complaints: list[str]
) -> Measurement:
    problems, warnings = Notes(), Notes(complaints)
    status = as_dict(document.get("smartctl")).get("exit_status")
    if isinstance(status, int) and status & _RETURNED_NOTHING:
        problems.add("tool-exit", f"smartctl exited with {status}: some data is missing")
    if health.get("passed") is False:
        warnings.add("drive-failing", "the drive reports that it is failing")
    device = as_text(as_dict(document.get("device")).get("name"))
    moment = as_number(as_dict(document.get("local_time")).get("time_t"))
    facts = present(
        {
            "drive": device,
            "model": as_text(document.get("model_name"))
            or as_text(document.get("scsi_model_name")),
            "serial": as_text(document.get("serial_number")),
        }
    )
    serial = facts.get("serial")
    return Measurement(
        kind=KIND,
        status=RunStatus.PARTIAL if problems else RunStatus.OK,
        problems=tuple(problems),
        layer="drive",
        began=time_since_1970(moment),
        requested={} if serial is None else {"serial": serial},
        reported=facts | health | {"answer": _answer(facts, health)},
        warnings=tuple(warnings),
    )


def _answer(facts: Mapping[str, object], health: Mapping[str, object]) -> str:
    """Summarise the drive: ``/dev/nvme0 SAMSUNG MZ...: 3 % used, 0 media errors``."""
    parts = []
    if isinstance(used := health.get("percentage_used"), float):
        parts.append(f"{used * 100:.0f} % of its life used")
    if (errors := health.get("media_errors")) is not None:
        parts.append(f"{errors} media errors")
    for name, words in (
        ("grown_defects", "grown defects"),
        ("reallocated_sectors", "reallocated sectors"),
    ):
        if isinstance(count := health.get(name), float):
            parts.append(f"{count:.0f} {words}")
    if isinstance(written := health.get("host_written_bytes"), int):
        parts.append(f"{format_value(float(written), 'B')} written")
    if not parts:
        parts.append("self-assessment passed" if health.get("passed") else "self-assessment failed")
    name = " ".join(str(facts[key]) for key in ("drive", "model") if key in facts)
    return f"{name or 'the drive'}: {', '.join(parts)}"


def _recognises(source: OutputFile) -> bool:
    head = source.head.lstrip()
    return head.startswith("{") and '"smartctl"' in head and any(key in head for key in _KEYS)


_KEYS: Final = ('"json_format_version"', '"smart_status"', '"nvme_smart_health_information_log"')


FORMAT: Final = OutputFormat(KIND, _recognises, read)
