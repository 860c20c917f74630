"""Turns a machine's answer into its inventory: values by name, and links as negotiated. Pure.

What differs on every machine of one make is left out: names, addresses, serial numbers, UUIDs, and
the numbers of interrupts. Devices are counted by model, not listed by slot.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final

from trimtab.base.error import visible
from trimtab.base.inventory import DeviceLink, ServerInventory
from trimtab.base.snapshot import NotAvailable
from trimtab.base.units import is_digits
from trimtab.reach.lustre import inventory_table as tables
from trimtab.reach.lustre.lustre_view import ServerView
from trimtab.reach.path_description import active_choice, pcie_bytes_per_s

_VALUE_LONGEST: Final = 300
_OWN_OPTION: Final = re.compile(r"(svname|mgsnode|osd|param|failover\.node)=|mgs\Z|nomgs\Z")
_OWN_WORD: Final = re.compile(
    r"(BOOT_IMAGE|root|rootflags|ip|initrd|resume|ifname|nameserver|[\w.]*hostname|rd\.\w+)\b"
    r"|.*\b[0-9a-f]{8}-[0-9a-f]{4}-"
)
"""Words of mount options and of the kernel's command line that each machine has of its own."""
_OF_TARGET: Final = re.compile(r"[^.]*-(?:OST|MDT)[0-9a-f]{4}[^.]*")
_STARTED: Final = re.compile(r"name: (\S{1,40})\s+state: started")
_RATE: Final = re.compile(r"([0-9.]{1,8}) Gb/sec")
_WITHOUT_NUMBERS: Final = ("raid/", "lustre/", "mount/")
"""Values of what a failover moves to another server: how many there are is no difference."""

Texts = defaultdict[str, list[str]]


def server_inventory(server: ServerView, role: str) -> ServerInventory:
    """Return the inventory of one machine; a silent one has the reason."""
    if not server.answered:
        return ServerInventory(server.name, role, problem=server.why_no("parameters"))
    texts = Texts(list)
    for path, text in server.answer.files.items():
        if (name := _name_of(path)) is not None:
            texts[name].append(active_choice(_clean(text)) or "none")
    _machine(server, texts)
    _lustre(server, texts)
    links = tuple(_hardware(server, texts))
    values = {name: _folded(name, of_name) for name, of_name in sorted(texts.items())}
    targets = tuple(sorted(server.served))
    return ServerInventory(server.name, role, values, links, _unread(server), targets=targets)


def _folded(name: str, texts: Sequence[str]) -> str:
    """Return several texts as one value: ``3 x performance, 1 x powersave``."""
    counts = Counter(texts)
    if len(counts) > 1 and name.startswith(_WITHOUT_NUMBERS):
        return ", ".join(sorted(counts))
    if len(counts) > 1 or name.endswith("/models"):
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        return ", ".join(f"{number} x {text}" for text, number in ordered)
    return texts[0]


def _clean(text: str) -> str:
    words = visible(" ".join(text[: 4 * _VALUE_LONGEST].split()))
    return words[:_VALUE_LONGEST] or "none"


@lru_cache(maxsize=1)
def _patterns() -> list[tuple[re.Pattern[str], str]]:
    return [
        (re.compile(re.escape(pattern).replace(r"\*", "([^/]+)"), re.DOTALL), name)
        for pattern, name in tables.VALUES.items()
    ]


@lru_cache(maxsize=1 << 16)
def _name_of(path: str) -> str | None:
    """Return the name of the value that a file holds; ``None``: it is not one alone."""
    for pattern, name in _patterns():
        if match := pattern.fullmatch(path):
            return name.format(*map(_clean, match.groups()[-1:]))
    return None


def _machine(server: ServerView, texts: Texts) -> None:
    """Add memory, processor, boot options, modules, and the geometry of arrays."""
    files = server.answer.files
    total = re.match(r"MemTotal:\s+([0-9]{1,15}) kB", files.get("/proc/meminfo", ""))
    if total and (gib := int(total[1]) / 2**20) > 0:
        # Kernels keep a few percent to themselves: round up to what was installed.
        step = 2.0 ** (math.floor(math.log2(gib)) - 4)
        texts["memory/size"].append(f"{math.ceil(gib / step) * step:g} GiB")
    if (options := files.get("/proc/cmdline")) is not None:
        words = (word for word in options.split() if _OWN_WORD.match(word) is None)
        texts["kernel/boot options"].append(_clean(" ".join(words)))
    if (model := files.get(tables.CPU_MODEL)) is not None:
        texts["cpu/model"].append(_clean(model.partition(":feature")[0]))
    if present := set(server.answer.directories.get("/sys/module", ())):
        listed = (name for name in tables.MODULES if name in present)
        texts["module/loaded"].append(_clean(", ".join(listed)))
    for of in _devices(server, tables.DISK).values():
        if of.get("md/level", "none") != "none":
            disks, chunk, layout = (
                of.get(f"md/{key}", "?") for key in ("raid_disks", "chunk_size", "layout")
            )
            text = f"{of['md/level']} of {disks}, chunk {chunk} B, layout {layout}"
            texts["raid/geometry"].append(text)


def _devices(server: ServerView, root: str) -> dict[str, dict[str, str]]:
    """Return the devices below a directory of /sys, each with its files by relative path."""
    of_device: dict[str, dict[str, str]] = {}
    for path, text in server.answer.files.items():
        if path.startswith(f"{root}/"):
            name, _, rest = path[len(root) + 1 :].partition("/")
            of_device.setdefault(_clean(name), {})[rest] = _clean(text)
    return of_device


def _models(server: ServerView) -> Iterator[tuple[str, str, str, str | None, Mapping[str, str]]]:
    """Yield kind, name, model, firmware and files of each drive and network card.

    A card's model has its name: cards of one name are in like slots of like servers.
    """
    for name, of in _devices(server, tables.DRIVE).items():
        if "model" in of:
            yield "drive", name, of["model"], of.get("firmware_rev"), of
    for name, of in _devices(server, tables.DISK).items():
        if name.startswith("sd") and "device/model" in of:
            model = f"{of.get('device/vendor', '')} {of['device/model']}".strip()
            yield "drive", name, model, of.get("device/rev"), of
    firmware = {
        command.argv[-1]: _clean(match[1])
        for command in server.answer.commands
        if (match := re.search(r"(?m)^firmware-version: (.+)$", command.stdout))
    }
    for name, of in _devices(server, tables.CARD).items():
        if "device/vendor" in of:
            card = f"{of['device/vendor'][2:]}:{of.get('device/device', '')[2:]}"
            yield "network", name, f"{name} ({card})", firmware.get(name), of
    for name, of in _devices(server, tables.ADAPTER).items():
        model = f"{name} ({of.get('hca_type', 'unknown')})"
        yield "network", name, model, of.get("fw_ver"), of


def _hardware(server: ServerView, texts: Texts) -> Iterator[DeviceLink]:
    """Yield the links of drives and cards, and add what these are."""
    nodes = {
        path.split("/")[-2]: processors(text)
        for path, text in server.answer.files.items()
        if path.endswith("/cpulist")
    }
    for kind, name, model, firmware, of in _models(server):
        texts[f"{kind}/models"].append(model)
        if firmware is not None:
            texts[f"{kind}/firmware of {model}"].append(firmware)
        if "device/numa_node" in of:
            texts[f"numa/node of {model}"].append(of["device/numa_node"])
        if of.get("operstate") == "up" and "mtu" in of:
            texts[f"network/mtu of {model}"].append(of["mtu"])
        used = {
            node
            for number in server.answer.directories.get(f"{tables.CARD}/{name}/device/msi_irqs", ())
            for cpu in processors(server.answer.files.get(_AFFINITY.format(number), ""))
            for node, of_node in nodes.items()
            if cpu in of_node
        }
        if used:
            texts[f"numa/interrupts of {model}"].append(", ".join(sorted(used)))
        for noun, text, rate in _links(of):
            texts[f"{kind}/{noun} of {model}"].append(text)
            yield DeviceLink(name, model, kind if noun == "PCIe link" else noun, text, rate)


_AFFINITY: Final = "/proc/irq/{}/smp_affinity_list"


def _links(of: Mapping[str, str]) -> Iterator[tuple[str, str, float]]:
    """Yield the PCIe link of a device and its network port: noun, text, bytes per second."""
    speed, lanes = (of.get(f"device/current_link_{key}", "") for key in ("speed", "width"))
    if is_digits(lanes) and (rate := pcie_bytes_per_s(speed, int(lanes[:4]))) is not None:
        yield "PCIe link", f"x{int(lanes[:4])} at {float(speed.split()[0]):g} GT/s", rate
    megabits = of.get("speed", "")
    if is_digits(megabits) and int(megabits[:9]) and of.get("operstate") == "up":
        yield "port", f"{int(megabits[:9]) / 1000:g} Gb/s", int(megabits[:9]) * 1e6 / 8
    text = of.get("ports/1/rate", "")
    if (match := _RATE.match(text)) and of.get("ports/1/link_layer") == "InfiniBand":
        yield "port", text, float(match[1]) * 1e9 / 8


@lru_cache(maxsize=4096)
def processors(text: str) -> frozenset[int]:
    """Return the processors of a list as the kernel writes it: ``0-3,8``; none of another text."""
    numbers: set[int] = set()
    for part in text.strip().split(","):
        if (match := re.fullmatch(r"([0-9]{1,5})(?:-([0-9]{1,5}))?", part)) is None:
            return frozenset()
        numbers.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return frozenset(numbers)


def _lustre(server: ServerView, texts: Texts) -> None:
    """Add settings of Lustre, of all targets of a server together, and its mount options."""
    for name in server.parameters.names:
        text = server.parameters.get(name) or ""
        if name.endswith(".nrs_policies"):
            text = " ".join(_STARTED.findall(text))  # the rest are counters
        known = ".".join("*" if _OF_TARGET.fullmatch(part) else part for part in name.split("."))
        texts[f"lustre/{visible(known)}"].append(active_choice(_clean(text)) or "none")
    mounts = [("target", mount) for mount in server.target_mounts.values()]
    for kind, mount in [*mounts, ("client", server.client_mount)]:
        if not isinstance(mount, NotAvailable):
            words = (word for word in mount.all_options if _OWN_OPTION.match(word) is None)
            texts[f"mount/options of a {kind}"].append(_clean(",".join(words)))


def _unread(server: ServerView) -> dict[str, str]:
    """Return what could not be read, to the reason."""
    unread = {
        _name_of(path) or _clean(path): visible(reason[:200])
        for path, reason in server.answer.skipped.items()
        if _name_of(path) is not None or not path.startswith("/")
    }
    for key, noun in (("parameters", "settings of Lustre"), ("card", "firmware of network cards")):
        command = server.answer.command(key)
        if command is not None and (command.error is not None or not command.stdout):
            unread[noun] = server.why_no(key)
    return unread
