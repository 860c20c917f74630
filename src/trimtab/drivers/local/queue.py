"""Reads one block device's sysfs attributes: kind, queue, drive and link."""

from __future__ import annotations

import re
from posixpath import dirname
from typing import Any, Final

from trimtab.drivers.host import Host
from trimtab.model.filesystem import DeviceKind
from trimtab.model.telemetry import NotAvailable

_ENCODING: Final = (
    # (up to this many GT/s, share of bits that carries data), PCI Express base specification:
    # 8b/10b, then 128b/130b, then 236 bytes of a 256-byte flit.
    (5.0, 0.8),
    (32.0, 128 / 130),
    (64.0, 236 / 256),
)
_CHOSEN: Final = re.compile(r"\[([^\]]+)\]")
_SPEED: Final = re.compile(r"([0-9.]+) GT/s")


def kind_and_label(host: Host, directory: str) -> tuple[DeviceKind, str | None]:
    """Return the kind of the device in a sysfs directory, and its familiar name."""
    if host.exists(f"{directory}/partition"):
        return "partition", None
    if host.exists(f"{directory}/loop"):
        return "loop", None
    if host.exists(f"{directory}/dm"):
        label = _text(host, f"{directory}/dm/name")
        uuid = _text(host, f"{directory}/dm/uuid") or ""
        return ("dm-multipath" if uuid.startswith("mpath-") else "device-mapper"), label
    if host.exists(f"{directory}/md"):
        return "md", _text(host, f"{directory}/md/level")
    if "/nvme-subsystem/" in directory:
        return "nvme-multipath", None
    # Everything that presents itself as a drive has a ``device`` link; zram does not.
    return ("disk" if host.exists(f"{directory}/device") else "other"), None


def queue_attributes(host: Host, directory: str, *, link_rates: bool = True) -> dict[str, Any]:
    """Return the fields of `BlockDevice` that the queue and the drive provide, by name.

    What the device does not report is ``None``: device-mapper and md do no throttling, virtio disks
    have no model.
    """
    queue = f"{directory}/queue"
    throttling_us = host.read_number(f"{queue}/wbt_lat_usec")
    rotational = host.read_number(f"{queue}/rotational")
    transport = transport_of(host, directory)
    link, best_link = None, None
    if link_rates:
        link, best_link = link_rates_bytes_per_s(host, directory, transport)
    return {
        "rotational": None if isinstance(rotational, NotAvailable) else bool(rotational),
        "writeback_throttling_s": (
            None if isinstance(throttling_us, NotAvailable) else throttling_us / 1e6
        ),
        "scheduler": active_choice(_text(host, f"{queue}/scheduler")),
        "write_cache": _text(host, f"{queue}/write_cache"),
        "logical_block_bytes": _number(host, f"{queue}/logical_block_size"),
        "discard_granularity_bytes": _number(host, f"{queue}/discard_granularity"),
        "discard_max_bytes": _number(host, f"{queue}/discard_max_bytes"),
        "model": model_of(host, directory),
        "transport": transport,
        "link_bytes_per_s": link,
        "link_max_bytes_per_s": best_link,
    }


def active_choice(text: str | None) -> str | None:
    """Return the chosen word of a sysfs choice: ``none`` of ``[none] mq-deadline kyber``."""
    if text is None:
        return None
    chosen = _CHOSEN.search(text)
    return chosen.group(1) if chosen else text.strip() or None


def model_of(host: Host, directory: str) -> str | None:
    """Return the drive's model name.

    SCSI and NVMe keep it next to the ``device`` link; an NVMe multipath head links to its
    subsystem, which has one too; the legs of the head are in their controller's directory.
    """
    for place in (f"{directory}/device/model", f"{dirname(directory)}/model"):
        if text := _text(host, place):
            return " ".join(text.split())
    return None


def transport_of(host: Host, directory: str) -> str | None:
    """Return how the drive is attached: ``pcie``, ``tcp``, ``sata``, ``sas``, ``virtio`` ..."""
    for place in (f"{directory}/device/transport", f"{dirname(directory)}/transport"):
        if text := _text(host, place):
            return text  # NVMe's own term
    parts = directory.split("/")
    for mark, transport in (
        ("usb", "usb"),
        ("ata", "sata"),
        ("end_device-", "sas"),
        ("virtio", "virtio"),
        ("mmc", "mmc"),
    ):
        if any(re.match(rf"{mark}\d", part) for part in parts):
            return transport
    return None


def link_rates_bytes_per_s(
    host: Host, directory: str, transport: str | None
) -> tuple[float | None, float | None]:
    """Return the current and the best possible rate of an NVMe drive's PCIe link.

    Packet overhead is not deducted. Only for NVMe on PCIe: a SATA or SAS drive shares its adapter's
    link. A slot that is slower or narrower than the drive by design is not a fault: the port above
    the drive limits the best rate too, if the system reports it.
    """
    if transport != "pcie":
        return None, None
    start = host.resolve(f"{directory}/device")
    end = directory if isinstance(start, NotAvailable) else start
    while end not in ("", "/"):
        port = dirname(end)
        speed = _text(host, f"{end}/current_link_speed")
        if speed is not None:
            width = _number(host, f"{end}/current_link_width")
            return pcie_bytes_per_s(speed, width or 0), _best_link(host, end, port)
        end = port
    return None, None


def _best_link(host: Host, drive: str, port: str) -> float | None:
    """Return the rate at the best speed and width that both ends support."""
    speeds = [_text(host, f"{end}/max_link_speed") for end in (drive, port)]
    widths = [_number(host, f"{end}/max_link_width") for end in (drive, port)]
    known = [speed for speed in speeds if speed is not None and _SPEED.match(speed)]
    lanes = [width for width in widths if width]
    if speeds[0] not in known or not widths[0]:
        return None
    return pcie_bytes_per_s(min(known, key=lambda speed: float(speed.split()[0])), min(lanes))


def pcie_bytes_per_s(speed: str, width: int) -> float | None:
    """Return the data rate of a PCIe link from its speed (``16.0 GT/s PCIe``) and lanes.

    Examples
    --------
    >>> round(pcie_bytes_per_s("16.0 GT/s PCIe", 4) / 1e9, 2)
    7.88
    """
    match = _SPEED.match(speed)
    if match is None or width <= 0:
        return None
    transfers = float(match.group(1))
    share = next((share for limit, share in _ENCODING if transfers <= limit), None)
    return None if share is None else transfers * 1e9 * share * width / 8


def _text(host: Host, path: str) -> str | None:
    text = host.read_text(path)
    return None if isinstance(text, NotAvailable) else text.strip() or None


def _number(host: Host, path: str) -> int | None:
    number = host.read_number(path)
    return None if isinstance(number, NotAvailable) else number
