"""Health of NVMe drives: percentage used, media errors, write amplification.

The parsers are pure and read the JSON of nvme-cli 1.x and 2.x: a counter is a number, a number in a
string (128-bit ones), or an object ``{"hi": ..., "lo": ...}``, under names whose case and spacing
differ between versions.

Sources: SMART / Health Information log [S7]; OCP Datacenter NVMe SSD
Specification, log page C0h; nvme-cli's plugins ``ocp``, ``solidigm``/``intel``, ``wdc``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from trimtab.base.filesystem import BlockDevice
from trimtab.base.snapshot import NotAvailable, Reading, not_available
from trimtab.reach.host import Host, run_tool
from trimtab.reach.process import Execute

_Log = TypeVar("_Log")

_TIMEOUT_S: Final = 15.0
_DECODER: Final = json.JSONDecoder()
_DATA_UNIT_BYTES: Final = 512_000
"""A data unit is a thousand sectors of 512 bytes, whatever the drive's block size."""

_INTEL_UNIT_BYTES: Final = 32 * 1024**2
"""Intel and Solidigm count NAND and host writes in units of 32 MiB."""

# PCI vendor ids whose drives have their own log of media writes, and the plugin that reads it. All
# others have OCP's log or none.
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
        The vendor's estimate of life consumed, as a fraction; can exceed 1.
    host_written_bytes
        Bytes the host wrote over the drive's life, in steps of 512,000.
    """

    percentage_used: float | None
    host_written_bytes: int | None
    media_errors: int | None


HEALTH: Final = (
    "drive_percentage_used",
    "drive_media_errors_total",
    "drive_write_amplification",
    "drive_host_written_bytes_total",
    "drive_media_written_bytes_total",
)
"""Readings of each drive. Two readings of the two byte counters give the amplification between
them; `drive_write_amplification` covers the drive's whole life."""


def read_drive(host: Host, drive: BlockDevice, execute: Execute) -> tuple[Reading, ...]:
    """Return a drive's health readings; takes two or three short commands to the drive."""
    argv = ("nvme", "smart-log", "-o", "json", f"/dev/{drive.name}")
    source = " ".join(argv)
    log: SmartLog | NotAvailable
    if not drive.name.startswith("nvme"):
        kind = drive.transport or drive.kind
        log = NotAvailable(f"{drive.name} is not an NVMe drive ({kind})")
    elif not host.is_this_one:
        log = not_available("another-machine", "drives of another machine are not queried")
    else:
        log = _ask(execute, argv, parse_smart_log)
    if isinstance(log, NotAvailable):
        return tuple(Reading.of(name, log, source, drive.name) for name in HEALTH)
    media, of_host, media_source = _flash_writes(host, drive, execute)
    # Take both counts from one log if it has them: the standard log counts in other steps.
    host_source = source if of_host is None else media_source
    of_host = log.host_written_bytes if of_host is None else of_host
    amplified = media if isinstance(media, NotAvailable) else write_amplification(media, of_host)
    missing = NotAvailable(f"{source} does not report it")
    values = (
        (log.percentage_used, source),
        (log.media_errors, source),
        (amplified, media_source),
        (of_host, host_source),
        (media, media_source),
    )
    return tuple(
        Reading.of(name, missing if value is None else value, of, drive.name)
        for name, (value, of) in zip(HEALTH, values, strict=True)
    )


def parse_smart_log(text: str) -> SmartLog | NotAvailable:
    """Parse the standard log of ``nvme smart-log -o json``, or return why it is missing."""
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
        return NotAvailable("nvme smart-log printed no value of a health log")
    return SmartLog(
        percentage_used=None if used is None else used / 100,
        host_written_bytes=None if units is None else units * _DATA_UNIT_BYTES,
        media_errors=errors,
    )


def parse_media_written(text: str) -> int | NotAvailable:
    """Return the bytes written to flash from an OCP or WDC log in JSON, or why not.

    "Physical media units written" counts bytes, both user data and the drive's own (OCP
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
    """Return bytes written to flash and by the host from an Intel or Solidigm log in JSON."""
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
        return NotAvailable("the log lacks the bytes written by the host and to NAND")
    return numbers["nand_bytes_written"], numbers["host_bytes_written"]


def integer(value: Any) -> int | None:
    """Parse a counter as nvme-cli writes it: a number, a string, or two 64-bit halves.

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
    """Return media over host bytes; refused for a drive with hardly any writes.

    The host's count is rounded up to 512,000 bytes, so below 1 GB the ratio would be noise.
    """
    if host_bytes is None:
        return NotAvailable("the drive does not report host writes")
    if host_bytes < 10**9:
        return NotAvailable(f"the host has written only {host_bytes} bytes to the drive")
    return media_bytes / host_bytes


def _flash_writes(
    host: Host, drive: BlockDevice, execute: Execute
) -> tuple[int | NotAvailable, int | None, str]:
    """Query OCP's log first, then the vendor's.

    Returns
    -------
    tuple
        Bytes written to flash; bytes written by the host, if the same log has them; the command
        that printed the log.
    """
    node = f"/dev/{drive.name}"
    argv = ("nvme", "ocp", "smart-add-log", "-o", "json", node)
    media = _ask(execute, argv, parse_media_written)
    if not isinstance(media, NotAvailable):
        return media, None, " ".join(argv)
    vendor = host.read_text(f"/sys/class/block/{drive.name}/device/device/vendor")
    plugin = None if isinstance(vendor, NotAvailable) else _VENDOR_LOGS.get(vendor.strip())
    if plugin is None:
        reason = f"no log of media writes: no OCP log ({media.reason}) and no vendor log"
        return NotAvailable(reason), None, " ".join(argv)
    argv = ("nvme", *plugin, "-o", "json", node)
    if plugin[0] == "wdc":
        return _ask(execute, argv, parse_media_written), None, " ".join(argv)
    both = _ask(execute, argv, parse_intel_log)
    if isinstance(both, NotAvailable):
        return both, None, " ".join(argv)
    return *both, " ".join(argv)


def _ask(
    execute: Execute, argv: Sequence[str], parse: Callable[[str], _Log | NotAvailable]
) -> _Log | NotAvailable:
    result = run_tool(execute, argv, timeout_s=_TIMEOUT_S)
    if isinstance(result, NotAvailable):
        return result
    return parse(result.stdout.decode("utf-8", "replace"))


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
    # nvme-cli may print warnings before the object.
    start = text.find("{")
    if start < 0:
        return NotAvailable("nvme printed no JSON")
    try:
        value, _ = _DECODER.raw_decode(text[start:])
    except (ValueError, RecursionError) as error:
        return NotAvailable(f"nvme printed invalid JSON: {error}")
    return value
