"""``lfs`` on a client: df, osts, mdts, pool_list, setstripe, getstripe, migrate, path2fid."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .state import FakeLustre, FakeTarget, Output

_DF_USAGE = """\
report filesystem disk space usage or inodes usage of each MDS and all OSDs or a batch belonging to a specific pool.
Usage: df [--inodes|-i] [--human-readable|-h] [--lazy|-l]
[--mdt|-m[INDEX]] [--ost|-o[INDEX]] [--output|-u FIELD_LIST] [--no-header|-N]
[--only-summary|-s] [--pool|-p FSNAME[.POOL]] [PATH]
"""  # noqa: E501 (as it is printed)


_RECORDED = Path(__file__).parents[1] / "fixtures/lustre/2.17.0/client-options.out"


def run(state: FakeLustre, host: str | None, argv: Sequence[str]) -> Output:
    """Return what ``lfs ARGV...`` answers."""
    if not argv:
        return Output("", "lfs: no command\n", 1)
    command, rest = argv[0], list(argv[1:])
    if command in ("--version", "version"):
        return Output(f"lfs {state.lustre_version}\n")
    known = {
        "df": df,
        "osts": lambda one, words: _list(one, words, "OBDS:", one.osts),
        "mdts": lambda one, words: _list(one, words, "MDTS:", one.mdts),
        "pool_list": pool_list,
        "setstripe": setstripe,
        "getstripe": getstripe,
        "migrate": migrate,
        "path2fid": path2fid,
    }.get(command)
    if known is None:
        words = f"lfs: '{command}' is not a valid command. See 'lfs --list-commands'.\n"
        return Output("", words, 1)
    if not state.is_client(host):
        return Output()
    return known(state, rest)


def root_is_dead(state: FakeLustre) -> bool:
    """Return whether the client's root directory gives EIO: MDT0000 has aborted."""
    return any(target.aborted for target in state.mdts if target.index == 0)


# -- df --


def df(state: FakeLustre, argv: Sequence[str]) -> Output:
    """Return ``lfs df``, as the version prints it."""
    letters, path = "", None
    for word in argv:
        if word.startswith("-"):
            letters += word[1:]
        else:
            path = word
    wrong = [letter for letter in letters if letter not in "liv"]
    if wrong:
        return Output(_DF_USAGE, f"lfs: unrecognized option '-{wrong[-1]}'\n", 4)
    inside = path is None or path == state.mount or path.startswith(state.mount + "/")
    if not inside or root_is_dead(state):
        return Output("" if path is None else f"df:{path} Not a Lustre filesystem\n")
    return _Df(state, letters).output()


class _Df:
    """One table: its lines as far as the servers answer."""

    def __init__(self, state: FakeLustre, letters: str) -> None:
        self.state = state
        self.inodes = "i" in letters
        self.lazy = "l" in letters
        self.verbose = "v" in letters
        self.old = state.version < (2, 11)
        self.lines: list[str] = []
        self.exit_code = 0

    def output(self) -> Output:
        self.lines.append(self._header())
        seen: list[FakeTarget] = []
        for target in sorted(self.state.targets, key=lambda one: (one.kind, one.index)):
            name = f"{self.state.file_system}-{target.name}_UUID"
            if not target.client_active:
                if self.verbose:
                    self.lines.append(f"{target.name:<20s}: inactive device")
            elif self.state.reaches(target) or not (self.lazy or self.state.plain_df_hangs):
                # Seen once: plain df went on with the last numbers of a target just lost.
                if target.name in self.state.complained:
                    self.state.complained.remove(target.name)
                seen.append(target)
                self.lines.append(self._line(target, name))
            elif self.lazy:
                self._lost(target, name)
            else:
                return Output(self._text(), "", 0, hang_s=float("inf"))
        self.lines += ["", self._summary(seen), ""]
        return Output(self._text(), "", self.exit_code)

    def _lost(self, target: FakeTarget, name: str) -> None:
        """Complain the first time; afterwards its line is just not there."""
        if target.name not in self.state.complained:
            self.state.complained.append(target.name)
            self.lines.append(f"{name:<20s}: Transport endpoint is not connected")
            self.exit_code = 107

    def _text(self) -> str:
        return "".join(f"{line}\n" for line in self.lines)

    def _header(self) -> str:
        gap = " " if self.state.version < (2, 16) else "  "
        if self.inodes:
            return _row("UUID", ("Inodes", "IUsed", "IFree"), "IUse%") + f"{gap}Mounted on"
        return _row("UUID", ("1K-blocks", "Used", "Available"), "Use%") + f"{gap}Mounted on"

    def _line(self, target: FakeTarget, name: str) -> str:
        place = f"{self.state.mount}[{target.kind}:{target.index}]"
        flags = self._flags(target)
        if self.state.version >= (2, 16):
            place = f" {place} {flags}"
        elif flags:
            place = f"{place} {flags}"
        return f"{self._numbers(name, *self._of(target))} {place}"

    def _flags(self, target: FakeTarget) -> str:
        if self.old:
            return ""
        no_create = "N" if self.state.version >= (2, 16) else ""
        return (
            ("D" if target.degraded else "")
            + ("R" if target.readonly else "")
            + (no_create if target.no_create else "")
            + ("f" if self.verbose and not target.rotational else "")
        )

    def _of(self, target: FakeTarget) -> tuple[int, int, int]:
        if self.inodes:
            free = target.inodes_total - target.inodes_used
            return target.inodes_total, target.inodes_used, free
        return target.capacity_bytes >> 10, target.used_bytes >> 10, target.available_bytes >> 10

    def _summary(self, seen: Sequence[FakeTarget]) -> str:
        if self.inodes:
            osts = [one for one in seen if one.kind == "OST"]
            mdts = [one for one in seen if one.kind == "MDT"]
            used = sum(one.inodes_used for one in mdts)
            free = sum(one.inodes_total - one.inodes_used for one in mdts)
            # What OSTs cannot hold, MDTs cannot make: the smaller number of free inodes counts.
            if osts:
                free = min(free, sum(one.inodes_total - one.inodes_used for one in osts))
            numbers = (used + free, used, free)
        else:
            counted = [one for one in seen if one.kind == "OST"] or list(seen)
            # Of no target at all, where every server is dead, the sums are 0.
            rows = [(0, 0, 0), *map(self._of, counted)]
            total, used, free = (sum(column) for column in zip(*rows, strict=True))
            numbers = (total, used, free)
        label = "filesystem summary:" if self.old else "filesystem_summary:"
        gap, end = ("  ", " ") if self.state.version >= (2, 16) else (" ", "")
        return f"{self._numbers(label, *numbers)}{gap}{self.state.mount}{end}"

    def _numbers(self, name: str, total: int, used: int, free: int) -> str:
        share = used + free
        percent = 0 if share == 0 else (used * 100 + share // 2) // share
        if share and not self.old:
            percent = -(-used * 100 // share)
        return _row(name, (str(total), str(used), str(free)), f"{percent}%")


def _row(name: str, columns: tuple[str, str, str], share: str) -> str:
    first, second, third = columns
    return f"{name:<20s} {first:>11s} {second:>11s} {third:>11s} {share:>4s}"


# -- lists and checks --


def _list(
    state: FakeLustre, argv: Sequence[str], title: str, targets: Sequence[FakeTarget]
) -> Output:
    lines = [title]
    for target in targets:
        active = "ACTIVE" if target.client_active else "INACTIVE"
        lines.append(f"{target.index}: {state.file_system}-{target.name}_UUID {active}")
    return Output("".join(f"{line}\n" for line in lines))


def mgs_nid(state: FakeLustre) -> str:
    """Return the address of the MGS, which is with MDT0000."""
    home = next((one.home for one in state.mdts if one.index == 0), None)
    server = state.server(home) if home else state.servers[0]
    return server.nids[0] if server.nids else "0@lo"


def pool_list(state: FakeLustre, argv: Sequence[str]) -> Output:
    """Return the pools of a file system, or the OSTs of a pool."""
    whole = argv[0] if len(argv) == 1 else ""
    file_system, dot, pool = whole.partition(".")
    if not whole:
        usage = "List pools or pool OSTs\nusage: pool_list <fsname>[.<pool>] | <pathname>\n\n"
        return Output(usage, "", 4)
    if file_system != state.file_system:
        return Output("", "", 2)
    if not dot:
        lines = [f"Pools from {file_system}:", *(f"{file_system}.{one}" for one in state.pools)]
    elif pool not in state.pools:
        place = f"/proc/fs/lustre/lov/{file_system}-clilov-{state.client_id}/pools/{pool}"
        words = f"lfs pool_list: cannot open {place}: No such file or directory (2)\n"
        return Output(f"Pool: {whole}\n", words, 2)
    else:
        members = [f"{file_system}-{name}_UUID" for name in state.pools[pool]]
        lines = [f"Pool: {whole}", *members]
    return Output("".join(f"{line}\n" for line in lines))


# -- files --


def setstripe(state: FakeLustre, argv: Sequence[str]) -> Output:
    """Make a file on the OSTs that may get objects, whichever were asked for."""
    count, index = 1, -1
    paths: list[str] = []
    words = list(argv)
    while words:
        word = words.pop(0)
        if word in ("-c", "--stripe-count"):
            count = int(words.pop(0))
        elif word in ("-i", "--stripe-index"):
            index = int(words.pop(0))
        elif word.startswith("-"):
            words.pop(0)
        else:
            paths.append(word)
    assert paths, argv
    for path in paths:
        place = Path(path)
        real = place.parent.is_dir()  # the mount may be a directory of this machine
        if path in state.layouts and (place.exists() or not real):
            return Output(
                "", f"lfs setstripe: setstripe error for '{path}': stripe already set\n", 17
            )
        chosen = allocate(state, count, index)
        if not chosen:
            return Output(
                "", f"lfs setstripe: setstripe error for '{path}': No space left on device\n", 28
            )
        state.layouts[path] = chosen
        if real:
            place.touch()
    return Output()


def allocate(state: FakeLustre, count: int = 1, index: int = -1, mdt: str = "MDT0000") -> list[int]:
    """Return the indices of the OSTs that a new file gets, one after another.

    An OST that was asked for and is gated is silently replaced, as recorded.
    """
    willing = [
        one
        for one in state.osts
        if not one.no_create
        and one.max_create_count.get(mdt, 1) != 0
        and state.prealloc_status(one, mdt) == 0
    ]
    healthy = [one for one in willing if not one.degraded]
    willing = healthy or willing  # degraded only lowers the preference
    if not willing:
        return []
    count = len(willing) if count == -1 else min(count, len(willing))
    start = next((n for n, one in enumerate(willing) if one.index == index), None)
    if start is None:
        start = state.next_ost % len(willing)
        state.next_ost += 1
    chosen = [willing[(start + n) % len(willing)] for n in range(count)]
    for one in chosen:
        one.inodes_used += 1
    return [one.index for one in chosen]


def migrate(state: FakeLustre, argv: Sequence[str]) -> Output:
    """Return ``lfs migrate`` of one file: its objects go where a new file's would."""
    path = argv[-1]
    layout = state.layouts.get(path)
    if layout is None:
        words = f"can't create composite layout from file {path}: No such file or directory"
        return Output("", f"lfs migrate: {words}\n", 2)
    chosen = allocate(state, len(layout))
    if not chosen:
        words = "cannot create volatile file: No space left on device"
        return Output("", f"error: lfs migrate: {path}: {words}\n", 28)
    state.layouts[path] = chosen
    return Output()


def path2fid(state: FakeLustre, argv: Sequence[str]) -> Output:
    """Return the FID of a file: by its place among those that there are."""
    if argv[-1] not in state.layouts:
        words = f"cannot get fid for '{argv[-1]}': No such file or directory"
        return Output("", f"lfs path2fid: {words}\n", 2)
    return Output(f"[0x200000402:{list(state.layouts).index(argv[-1]) + 1:#x}:0x0]\n")


def getstripe(state: FakeLustre, argv: Sequence[str]) -> Output:
    """Return the layout of a file: with ``-i`` or ``-c`` the number and an empty line."""
    if "--" in argv:
        usage = _RECORDED.read_text().partition("\nrc=4")[0].split("\n", 2)[2]
        return Output(f"{usage}\n", "error: getstripe: no filename|pathname\n", 4)
    path = next((word for word in argv if not word.startswith("-")), "")
    layout = state.layouts.get(path)
    if layout is None:
        words = f"lfs: getstripe for '{path}' failed: No such file or directory\n"
        return Output("", words, 2)
    if "-i" in argv:
        return Output(f"{layout[0]}\n\n")
    if "-c" in argv:
        return Output(f"{len(layout)}\n\n")
    lines = [
        path,
        f"lmm_stripe_count:  {len(layout)}",
        "lmm_stripe_size:   4194304",
        "lmm_pattern:       raid0",
        "lmm_layout_gen:    0",
        f"lmm_stripe_offset: {layout[0]}",
        "\tobdidx\t\t objid\t\t objid\t\t group",
    ]
    for n, index in enumerate(layout):
        number = 2 + n
        group = f"0x{0x280000400 + index * 0x40000000:x}"
        lines.append(f"\t{index:6d}\t{number:14d}\t{number:#13x}\t{group:>14s}")
    return Output("".join(f"{line}\n" for line in (*lines, "")))
