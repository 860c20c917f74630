"""What NVMe drives say of their wear: percentage used, media errors, write amplification.

The parsers are pure and read the JSON of nvme-cli 1.x and 2.x: a counter is a number, a number in
a string (128-bit ones), or an object ``{"hi": ..., "lo": ...}``, under names that changed their
case and spacing between versions.

Sources: SMART / Health Information log [S7]; OCP Datacenter NVMe SSD
Specification, log page C0h; nvme-cli's plugins ``ocp``, ``solidigm``/``intel``, ``wdc``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from trimtab.drivers.host import Host
from trimtab.drivers.local.tools import run_tool
from trimtab.launch.launchers import Execute
from trimtab.model.filesystem import BlockDevice
from trimtab.model.telemetry import NotAvailable, not_available

_TIMEOUT_S: Final = 15.0
_DATA_UNIT_BYTES: Final = 512_000
"""A data unit is a thousand sectors of 512 bytes, whatever the drive's block size."""

_INTEL_UNIT_BYTES: Final = 32 * 1024**2
"""Intel and Solidigm count NAND and host writes in units of 32 MiB."""

# PCI vendor ids whose drives have a log of media writes besides OCP's, and the plugin that reads
# it. Others answer OCP or nothing.
_VENDOR_LOGS: Final[Mapping[str, tuple[str, ...]]] = {
    "0x8086": ("intel", "smart-log-add"),
    "0x025e": ("solidigm", "smart-log-add"),
    "0x1b96": ("wdc", "vs-smart-add-log"),
    "0x15b7": ("wdc", "vs-smart-add-log"),
}


@dataclass(frozen=True, slots=True)
class SmartLog:
    """The standard health log of an NVMe drive.

    Attributes
    ----------
    percentage_used
        As a fraction; the vendor's estimate of life consumed, can pass 1.
    host_written_bytes
        What the host wrote over the drive's life, in steps of 512,000 bytes.
    """

    percentage_used: float | None
    host_written_bytes: int | None
    media_errors: int | None


@dataclass(frozen=True, slots=True)
class DriveHealth:
    """What one drive says, each part with its command or its reason.

    Attributes
    ----------
    write_amplification
        Bytes written to the flash over bytes written by the host, over the drive's whole life.
    host_written_bytes, media_written_bytes
        Both counters, of which two readings give the amplification in between.
    """

    drive: str
    percentage_used: float | NotAvailable
    media_errors: int | NotAvailable
    write_amplification: float | NotAvailable
    log_source: str
    media_source: str
    host_written_bytes: int | NotAvailable
    media_written_bytes: int | NotAvailable
    host_source: str

    @classmethod
    def unknown(cls, drive: str, why: NotAvailable, source: str) -> DriveHealth:
        """Return the health of a drive that says nothing."""
        return cls(drive, why, why, why, source, source, why, why, source)


@dataclass(frozen=True, slots=True)
class Written:
    """What was written to a drive over its life, by the host and to the flash."""

    media_bytes: int | NotAvailable
    host_bytes: int | NotAvailable
    media_source: str
    host_source: str


def read_drive(host: Host, drive: BlockDevice, execute: Execute) -> DriveHealth:
    """Return what a drive says of its health; asking sends it two or three short commands."""
    node = f"/dev/{drive.name}"
    argv = ("nvme", "smart-log", "-o", "json", node)
    source = " ".join(argv)
    if not drive.name.startswith("nvme"):
        kind = drive.transport or drive.kind
        nothing = NotAvailable(f"{drive.name} is not an NVMe drive ({kind})")
        return DriveHealth.unknown(drive.name, nothing, source)
    if not host.is_this_one:
        nothing = not_available("another-machine", "drives of another machine are not queried")
        return DriveHealth.unknown(drive.name, nothing, source)
    result = run_tool(execute, argv, timeout_s=_TIMEOUT_S)
    log = result if isinstance(result, NotAvailable) else parse_smart_log(_decode(result.stdout))
    if isinstance(log, NotAvailable):
        return DriveHealth.unknown(drive.name, log, source)
    missing = NotAvailable(f"{source} does not say")
    host_bytes = missing if log.host_written_bytes is None else log.host_written_bytes
    written = _written(host, drive, Written(missing, host_bytes, source, source), execute)
    amplification: float | NotAvailable
    if isinstance(written.media_bytes, NotAvailable):
        amplification = written.media_bytes
    else:
        known = written.host_bytes
        amplification = write_amplification(
            written.media_bytes, None if isinstance(known, NotAvailable) else known
        )
    return DriveHealth(
        drive=drive.name,
        percentage_used=missing if log.percentage_used is None else log.percentage_used,
        media_errors=missing if log.media_errors is None else log.media_errors,
        write_amplification=amplification,
        log_source=source,
        media_source=written.media_source,
        host_written_bytes=written.host_bytes,
        media_written_bytes=written.media_bytes,
        host_source=written.host_source,
    )


def parse_smart_log(text: str) -> SmartLog | NotAvailable:
    """Return the standard log from ``nvme smart-log -o json``, or why there is none."""
    values = _json_object(text)
    if isinstance(values, NotAvailable):
        return values
    if "error" in values and "data_units_written" not in values:
        return NotAvailable(f"nvme smart-log: {str(values['error'])[:200]}")
    units = integer(values.get("data_units_written"))
    # nvme-cli 2.x prints percent_used in JSON, 1.x both spellings over its versions.
    used = integer(values.get("percent_used", values.get("percentage_used")))
    errors = integer(values.get("media_errors"))
    if units is None and used is None and errors is None:
        return NotAvailable("nvme smart-log printed none of the values of a health log")
    return SmartLog(
        percentage_used=None if used is None else used / 100,
        host_written_bytes=None if units is None else units * _DATA_UNIT_BYTES,
        media_errors=errors,
    )


def parse_media_written(text: str) -> int | NotAvailable:
    """Return the bytes written to the flash from an OCP or WDC log in JSON, or why not.

    "Physical media units written" counts bytes, user data and the drive's own alike (OCP
    specification, SMART-1).
    """
    values = _json_object(text)
    if isinstance(values, NotAvailable):
        return values
    for name, value in _walk(values):
        if name == "physical_media_units_written":
            number = integer(value)
            return NotAvailable("its count is not a number") if number is None else number
    return NotAvailable("the log has no physical media units written")


def parse_intel_log(text: str) -> tuple[int, int] | NotAvailable:
    """Return bytes written to the flash and by the host, from the Intel or Solidigm log in JSON."""
    values = _json_object(text)
    if isinstance(values, NotAvailable):
        return values
    numbers: dict[str, int] = {}
    for name, value in _walk(values):
        if name in {"nand_bytes_written", "host_bytes_written"}:
            raw = integer(value.get("raw") if isinstance(value, dict) else value)
            if raw is not None:
                numbers[name] = raw * _INTEL_UNIT_BYTES
    if len(numbers) < 2:
        return NotAvailable("the log has no bytes written by host and to NAND")
    return numbers["nand_bytes_written"], numbers["host_bytes_written"]


def integer(value: Any) -> int | None:
    """Return a counter as nvme-cli writes it: number, text of one, or halves of 64 bits each.

    Examples
    --------
    >>> integer(7), integer("123,456"), integer({"hi": 1, "lo": 0}), integer("n/a")
    (7, 123456, 18446744073709551616, None)
    """
    match value:
        case bool():
            return None
        case int():
            return value
        case float():
            return int(value) if value.is_integer() else None
        case str():
            digits = value.replace(",", "").strip().removesuffix("%")
            return int(digits) if digits.isdecimal() else None
        case {"hi": hi, "lo": lo}:
            high, low = integer(hi), integer(lo)
            return None if high is None or low is None else (high << 64) + low
        case _:
            return None


def write_amplification(media_bytes: int, host_bytes: int | None) -> float | NotAvailable:
    """Return media over host bytes; not for a drive that was hardly written to.

    The host's count is rounded up to 512,000 bytes, so below 1 GB the ratio would be noise.
    """
    if host_bytes is None:
        return NotAvailable("the drive does not say what the host wrote")
    if host_bytes < 10**9:
        return NotAvailable(f"the host has written only {host_bytes} bytes to the drive")
    return media_bytes / host_bytes


def _written(host: Host, drive: BlockDevice, standard: Written, execute: Execute) -> Written:
    """Ask OCP's log first, then the vendor's; return both counts and the commands they are of."""
    node = f"/dev/{drive.name}"
    argv = ("nvme", "ocp", "smart-add-log", "-o", "json", node)
    result = run_tool(execute, argv, timeout_s=_TIMEOUT_S)
    media = (
        result if isinstance(result, NotAvailable) else parse_media_written(_decode(result.stdout))
    )
    if not isinstance(media, NotAvailable):
        return replace(standard, media_bytes=media, media_source=" ".join(argv))
    vendor = host.read_text(f"/sys/class/block/{drive.name}/device/device/vendor")
    plugin = None if isinstance(vendor, NotAvailable) else _VENDOR_LOGS.get(vendor.strip())
    if plugin is None:
        reason = f"no log of media writes: OCP's is not there ({media.reason}), nor a vendor's"
        return replace(standard, media_bytes=NotAvailable(reason), media_source=" ".join(argv))
    argv = ("nvme", *plugin, "-o", "json", node)
    source = " ".join(argv)
    result = run_tool(execute, argv, timeout_s=_TIMEOUT_S)
    if isinstance(result, NotAvailable):
        return replace(standard, media_bytes=result, media_source=source)
    text = _decode(result.stdout)
    if plugin[0] == "wdc":
        return replace(standard, media_bytes=parse_media_written(text), media_source=source)
    both = parse_intel_log(text)
    if isinstance(both, NotAvailable):
        return replace(standard, media_bytes=both, media_source=source)
    # Both counts of one log: it counts in other steps than the standard one.
    return Written(*both, media_source=source, host_source=source)


def _walk(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield every name, in lower case with underscores, and its value, at any depth."""
    waiting = [value]
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, dict):
            for name, inner in node.items():
                yield re.sub(r"[^a-z0-9]+", "_", str(name).lower()).strip("_"), inner
                waiting.append(inner)
        elif isinstance(node, list):
            waiting += node


def _json_object(text: str) -> dict[str, Any] | NotAvailable:
    # Warnings of nvme-cli may stand before the object.
    start = text.find("{")
    if start < 0:
        return NotAvailable("nvme printed no JSON")
    try:
        value, _ = json.JSONDecoder().raw_decode(text[start:])
    except (ValueError, RecursionError) as error:
        return NotAvailable(f"nvme printed JSON that cannot be read: {error}")
    return value


def _decode(output: bytes) -> str:
    return output.decode("utf-8", "replace")
