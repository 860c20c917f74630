"""The commands that there are, by name, with the faults that meet them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from . import answers, faults, lfs, parameters
from .devices import device_list
from .state import FakeDrive, FakeLustre, FakeTarget, Output
from .surveying import batch, not_a_command, on_device


def run(state: FakeLustre, host: str | None, argv: Sequence[str]) -> Output:
    """Return what a command answers on a host, with whatever goes wrong."""
    state.calls += 1
    name = argv[0].rsplit("/", 1)[-1]
    happening = faults.due(state, host, name, " ".join((name, *argv[1:2])))
    refused = next((fault for fault in happening if fault.kind == "refuse"), None)
    if refused is not None:
        return Output("", refused.text, refused.code)
    # What swallows a change answers from a state that nobody keeps.
    swallowed = any(fault.kind == "swallow" for fault in happening)
    told = FakeLustre.from_json(state.to_json()) if swallowed else state
    output = answer(told, host, (name, *argv[1:]))
    for fault in happening:
        faults.spoil(state, host, fault, output)
    return output


def answer(state: FakeLustre, host: str | None, argv: Sequence[str]) -> Output:
    """Return what a command answers on a host when all is well."""
    name, rest = argv[0], list(argv[1:])
    if name == "sudo":
        while rest and rest[0].startswith("-"):
            rest.pop(0)
        return answer(state, host, rest)
    known = _ANSWERS.get(name)
    output = known(state, host, rest) if known else Output("", f"{name}: command not found\n", 127)
    answers.check(argv, output.exit_code)
    return output


def lctl(state: FakeLustre, host: str | None, argv: Sequence[str]) -> Output:
    """Return what ``lctl ARGV...`` answers."""
    command, rest = (argv[0], argv[1:]) if argv else ("", ())
    match command:
        case "get_param":
            return parameters.get_param(state, host, rest)
        case "set_param":
            return parameters.set_param(state, host, rest)
        case "dl":
            return device_list(state, host, rest)
        case "--device":
            return on_device(state, host, rest)
        case "--stdin":  # how the program on disk hands over what it reads
            return batch(state, host, rest)
        case "--version":
            return Output(f"lctl {state.lustre_version}\n")
    return not_a_command(command)


def fstrim(state: FakeLustre, host: str | None, argv: Sequence[str]) -> Output:
    """Return what fstrim answers: free space that is trimmed already is not trimmed again."""
    letters = "".join(word[1:] for word in argv if re.fullmatch("-[a-z]+", word))
    letters += "v" if "--verbose" in argv else ""
    path = next((word for word in argv if word.startswith("/")), "")
    start, length = (_number_behind(argv, option) for option in ("--offset", "--length"))
    if state.is_client(host) and path == state.mount:
        return Output("", f"fstrim: {path}: the discard operation is not supported\n", 1)
    name = state.client if host is None else host
    target = next((one for one in state.served_by(name or "") if one.mount_point == path), None)
    if target is None:
        return Output("", f"fstrim: stat of {path} failed: No such file or directory\n", 1)
    if not target.discard_granularity:
        return Output("", f"fstrim: {path}: the discard operation is not supported\n", 1)
    # With its journal aborted it says so even less: 0 bytes and exit code 0, as recorded.
    trimmed = 0 if target.aborted else target.untrimmed_bytes
    if start is not None and start >= target.capacity_bytes:
        return Output("", f"fstrim: {path}: FITRIM ioctl failed: Invalid argument\n", 1)
    if length is not None:
        trimmed = min(trimmed, length, target.capacity_bytes - (start or 0))
    if trimmed:
        target.untrimmed_bytes -= trimmed
        target.discarded_kib += trimmed >> 10
        target.discard_ops += max(1, trimmed >> 27)
    return Output(
        f"{path}: {_binary(trimmed)} ({trimmed} bytes) trimmed\n" if "v" in letters else ""
    )


def _number_behind(argv: Sequence[str], option: str) -> int | None:
    return int(argv[list(argv).index(option) + 1], 0) if option in argv else None


def _binary(size_bytes: int) -> str:
    """Return a size as util-linux writes it for people."""
    value, units = float(size_bytes), ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
    place = 0
    while value >= 1024 and place < len(units) - 1:
        value /= 1024
        place += 1
    text = f"{value:.1f}".removesuffix(".0")
    return f"{text} {units[place]}"


def drives_of(state: FakeLustre, host: str | None) -> list[tuple[FakeTarget, FakeDrive]]:
    """Return every drive of a host with the target that it is beneath."""
    name = state.client if host is None else host
    return [(one, drive) for one in state.served_by(name or "") for drive in one.drives]


def nvme(state: FakeLustre, host: str | None, argv: Sequence[str]) -> Output:
    """Return the health logs of a drive, in the JSON of nvme-cli 2."""
    node = next((word for word in argv if word.startswith("/dev/")), "")
    drive = next((d for _, d in drives_of(state, host) if f"/dev/{d.name}" == node), None)
    if drive is None or drive.dead:
        return Output("", f"{node}: No such file or directory\n", 1)
    if argv[:1] == ["smart-log"]:
        rows = ",\n".join(f'  "{name}":{value}' for name, value in _smart_log(drive).items())
        return Output(f"{{\n{rows}\n}}\n")
    if argv[:2] == ["ocp", "smart-add-log"] and drive.flash_written_bytes is not None:
        written = drive.flash_written_bytes
        high, low = written >> 64, written & (2**64 - 1)
        return Output(
            f'{{\n  "Physical media units written":{{\n    "hi":{high},\n    "lo":{low}\n  }},\n'
            f'  "Physical media units read":{{\n    "hi":0,\n    "lo":{drive.read_bytes}\n  }},\n'
            '  "Bad user nand blocks - Raw":0,\n  "Log page version":3\n}\n'
        )
    return Output(
        "", "NVMe status: Invalid Log Page: The log page indicated is invalid(0x109)\n", 1
    )


def _smart_log(drive: FakeDrive) -> dict[str, int]:
    return {
        "critical_warning": 0,
        "temperature": 308,
        "avail_spare": 100,
        "spare_thresh": 10,
        "percent_used": drive.percentage_used,
        "endurance_grp_critical_warning_summary": 0,
        "data_units_read": drive.read_bytes // 512000,
        "data_units_written": drive.written_bytes // 512000,
        "host_read_commands": drive.read_bytes >> 17,
        "host_write_commands": drive.written_bytes >> 17,
        "controller_busy_time": 61,
        "power_cycles": 12,
        "power_on_hours": 21000,
        "unsafe_shutdowns": 5,
        "media_errors": drive.media_errors,
        "num_err_log_entries": 0,
        "warning_temp_time": 0,
        "critical_comp_time": 0,
    }


def systemctl(state: FakeLustre, host: str | None, argv: Sequence[str]) -> Output:
    """Return the state of the trim timer: there is none that runs."""
    wanted = [argv[n + 1] for n, word in enumerate(argv[:-1]) if word in ("-p", "--property")]
    known = {"ActiveState": "inactive", "LastTriggerUSec": "", "UnitFileState": "disabled"}
    return Output("".join(f"{name}={known.get(name, '')}\n" for name in wanted))


def dmesg(state: FakeLustre, host: str | None, argv: Sequence[str]) -> Output:
    """Return the kernel's log from the boot on: mounts, aborted journals, what was added."""
    name = state.client if host is None else host
    lines = [f"[    0.000000] Linux version {state.kernel} (build@lustre) #1 SMP"]
    server = next((one for one in state.servers if one.name == name), None)
    at = 74.0
    for one in state.served_by(name or ""):
        if one.osd != "ldiskfs":
            continue
        at += 2.1
        lines.append(
            f"[{at:12.6f}] LDISKFS-fs ({one.device}): mounted filesystem "
            "4dfbf48f-2812-4520-9d19-b6a6af13f2e3 r/w with ordered data mode. "
            "Quota mode: journalled."
        )
        if one.aborted:
            lines += [
                f"[{at + 100:12.6f}] LDISKFS-fs error (device {one.device}): "
                "ldiskfs_get_group_desc:280: comm head: block_group >= groups_count - "
                "block_group = 32, groups_count = 32",
                f"[{at + 100.1:12.6f}] Aborting journal on device {one.device}-8.",
                f"[{at + 100.2:12.6f}] LDISKFS-fs ({one.device}): Remounting filesystem read-only",
            ]
    lines += [] if server is None else server.kernel_log
    return Output("".join(f"{line}\n" for line in lines))


_ANSWERS: dict[str, Callable[[FakeLustre, str | None, Sequence[str]], Output]] = {
    "lfs": lfs.run,
    "lctl": lctl,
    "fstrim": fstrim,
    "nvme": nvme,
    "systemctl": systemctl,
    "dmesg": dmesg,
    "uname": lambda state, host, argv: Output(f"{state.kernel}\n"),
    "hostname": lambda state, host, argv: Output(f"{host or state.client_name}\n"),
}
COMMANDS = tuple(_ANSWERS)
