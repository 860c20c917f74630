"""What the fake answers, and which recording of a running Lustre says so: one table.

`check` is in the way of every answer: one that is in neither table is an error, so a new answer
needs its recording, or a line that says what rests on having assumed it. `test_answers` compares
each recorded one with its recording, and `scripts/maturity_page.py` prints both.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

MASTER = "2.17.57"
"""A directory of recordings beside the project."""
RELEASE = "2.17.0"
"""A directory of recordings in ``tests/fixtures/lustre``."""


@dataclass(frozen=True)
class Answer:
    """One kind of answer of one command, or the text of one kind of file.

    Attributes
    ----------
    form
        The words by which a command is known, or a pattern of paths after ``file``.
    exit_code
        How the command ends; of a file 0.
    recording
        Version and name; ``None``: it is assumed.
    example
        A shell line that has the fake give this answer, or a path.
    on
        Whose answer: a host of `world`.
    world
        The state of the fake: what is changed of a fresh one.
    rests
        What rests on an assumption.
    changes
        Whether a write, a limit or a deletion rests on it.
    """

    form: str
    exit_code: int = 0
    recording: tuple[str, str] | None = None
    example: str = ""
    on: str | None = None
    world: str = "small"
    rests: str = ""
    changes: bool = False
    words: tuple[str, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", tuple(self.form.split()))


def _recorded(
    form: str, exit_code: int, version: str, name: str, example: str = "", **more: str
) -> Answer:
    return Answer(form, exit_code, (version, name), example or form, **more)  # type: ignore[arg-type]


def _assumed(form: str, exit_code: int, rests: str, *, changes: bool = False) -> Answer:
    return Answer(form, exit_code, rests=rests, changes=changes)


_MDT = "scratch-MDT0000"
_MGS_LOG = "lctl --device MGS llog_print params"
_NONE = "llite.*.t_fake_none=1"
_FILE = "/scratch/t-fake/a"
_MISSING = "/scratch/t-fake/none"

_ECHO = "lctl --device scratch-OST0001_ecc"
_ATTACH = "lctl --stdin 'attach echo_client x_ecc x_ecc_UUID'"
_ON_ECHO = {"on": "lustre1", "world": "echo client"}

RECORDED = (
    _recorded("lfs df", 0, MASTER, "versions/lfs_df"),
    _recorded("lfs df", 4, MASTER, "versions/lfs_df_json", "lfs df -j"),
    _recorded("lfs df", 107, RELEASE, "lfs-df-lost-ost", "lfs df -lv", world="lost OST"),
    _recorded("lfs osts", 0, MASTER, "versions/lfs_osts"),
    _recorded("lfs mdts", 0, MASTER, "versions/lfs_mdts"),
    _recorded("lfs check", 0, MASTER, "versions/lfs_check_all", "lfs check all"),
    _recorded(
        "lfs check", 19, RELEASE, "server-refusals", "lfs check osts", on="oss1", world="pair"
    ),
    _recorded("lfs pool_list", 0, RELEASE, "client-files", "lfs pool_list scratch"),
    _recorded("lfs pool_list", 2, RELEASE, "client-files", "lfs pool_list scratch.none"),
    _recorded("lfs pool_list", 4, RELEASE, "client-files"),
    _recorded("lfs getname", 0, MASTER, "versions/lfs_getname", "lfs getname /scratch"),
    _recorded("lfs setstripe", 0, RELEASE, "client-files", f"lfs setstripe -c 1 -i 2 {_FILE}"),
    _recorded(
        "lfs setstripe", 17, RELEASE, "client-files", f"lfs setstripe -c 1 {_FILE}", world="file"
    ),
    _recorded("lfs getstripe", 0, RELEASE, "client-files", f"lfs getstripe {_FILE}", world="file"),
    _recorded("lfs getstripe", 2, RELEASE, "client-files", f"lfs getstripe {_MISSING}"),
    _recorded("lfs getstripe", 4, RELEASE, "client-options", f"lfs getstripe -- {_FILE}"),
    _recorded("lfs path2fid", 0, RELEASE, "client-files", f"lfs path2fid {_FILE}", world="file"),
    _recorded("lfs path2fid", 2, RELEASE, "client-files", f"lfs path2fid {_MISSING}"),
    _recorded(
        "lfs migrate",
        0,
        RELEASE,
        "client-files",
        f"lfs migrate --non-block -W 10M --copy {_FILE} {_FILE}",
        world="file",
    ),
    _recorded(
        "lfs migrate",
        2,
        RELEASE,
        "client-files",
        f"lfs migrate --non-block -W 10M --copy {_MISSING} {_MISSING}",
    ),
    _recorded("lfs --version", 0, MASTER, "versions/lfs_version"),
    _recorded("lfs", 1, RELEASE, "client-files", "lfs nonsense"),
    _recorded("lctl get_param", 0, MASTER, "params/osp_create", "lctl get_param osp.*.active"),
    _recorded("lctl get_param", 2, MASTER, "params/get_missing", "lctl get_param nosuch.param"),
    _recorded(
        "lctl set_param",
        0,
        RELEASE,
        "set-param-answers",
        "lctl set_param lod.scratch-MDT0000-mdtlov.qos_threshold_rr=20",
    ),
    _recorded("lctl set_param", 2, RELEASE, "set-param-answers", "lctl set_param nosuch.x=1"),
    _recorded(
        "lctl set_param",
        22,
        RELEASE,
        "set-param-answers",
        "lctl set_param lod.scratch-MDT0000-mdtlov.qos_threshold_rr=101",
    ),
    _recorded(
        "lctl set_param",
        34,
        RELEASE,
        "set-param-answers",
        "lctl set_param osp.scratch-OST0003-osc-MDT0000.max_create_count=5",
    ),
    _recorded(
        "lctl set_param",
        13,
        RELEASE,
        "server-refusals",
        "lctl set_param obdfilter.scratch-OST0000.degraded=0",
        on="mds1",
        world="user",
    ),
    _recorded(
        "lctl set_param",
        110,
        MASTER,
        "ost_down/13_reactivate",
        "lctl set_param osc.scratch-OST0001-*.active=1",
        world="lost OST",
    ),
    _recorded(
        "lctl set_param -P",
        0,
        RELEASE,
        "set-param-permanent-first",
        "lctl set_param -P llite.*.max_read_ahead_whole_mb=16",
        on="mds1",
        world="pair",
    ),
    _recorded(
        "lctl set_param -P -d",
        0,
        MASTER,
        "params/set_param_P_delete",
        "lctl set_param -P -d osp.scratch-OST0001-osc-MDT*.max_create_count",
        on="mds1",
        world="pair",
    ),
    _recorded(
        "lctl set_param -P",
        13,
        RELEASE,
        "server-refusals",
        f"lctl set_param -P {_NONE}",
        on="mds1",
        world="user",
    ),
    _recorded(
        "lctl set_param -P",
        19,
        RELEASE,
        "set-param-permanent-no-mgs",
        f"lctl set_param -P {_NONE}",
        on="mds2",
        world="pair",
    ),
    _recorded("lctl dl", 0, MASTER, "versions/lctl_dl"),
    _recorded("lctl --version", 0, MASTER, "versions/lctl_version"),
    _recorded("lctl list_nids", 0, RELEASE, "server-refusals", on="mds1", world="pair"),
    _recorded("lctl", 1, RELEASE, "server-refusals", "lctl nonsense"),
    _recorded(
        "lctl --device llog_print", 0, RELEASE, "llog-print-params", _MGS_LOG, on="mds1",
        world="permanent",
    ),
    _recorded(
        "lctl --device llog_print", 1, RELEASE, "llog-print-no-mgs", _MGS_LOG, on="mds2",
        world="pair",
    ),
    _recorded(
        "lctl --device llog_print", 2, RELEASE, "llog-print-never-set", _MGS_LOG, on="mds1",
        world="pair",
    ),
    _recorded(
        "lctl --device llog_print", 13, RELEASE, "llog-print-params", _MGS_LOG, on="mds1",
        world="user",
    ),
    _recorded(
        "lctl --device changelog_register", 0, MASTER, "changelog/004_register_named",
        f"lctl --device {_MDT} changelog_register -u trimtab", on="mds1", world="reader",
    ),
    _recorded(
        "lctl --device changelog_register", 13, RELEASE, "server-refusals",
        f"lctl --device {_MDT} changelog_register -u t_fake", on="mds1", world="user",
    ),
    _recorded(
        "lctl --device changelog_deregister", 0, MASTER, "changelog/deregister",
        f"lctl --device {_MDT} changelog_deregister cl1", on="mds1", world="reader",
    ),
    _recorded(
        "lctl --device changelog_deregister", 2, RELEASE, "server-refusals",
        f"lctl --device {_MDT} changelog_deregister -u t_fake", on="mds1", world="pair",
    ),
    _recorded(
        "lctl --device changelog_deregister", 13, RELEASE, "server-refusals",
        f"lctl --device {_MDT} changelog_deregister -u t_fake", on="mds1", world="user",
    ),
    _recorded(
        "lctl --device", 1, MASTER, "discard/16_lctl_errors",
        "lctl --device nosuch changelog_register",
    ),
    _recorded("fstrim", 0, MASTER, "block/fstrim_ost0", "fstrim -v /mnt/lustre/ost0"),
    _recorded("fstrim", 1, MASTER, "block/fstrim_client", "fstrim -v /scratch"),
    _recorded("dmesg", 0, MASTER, "readonly_target/dmesg_full", world="aborted"),
    _recorded(
        "sudo", 1, RELEASE, "server-refusals", "sudo -n lctl dl", on="mds1", world="sudo user"
    ),
    *(
        _recorded(f"lctl {command}", code, RELEASE, f"echo-{name}", example, **_ON_ECHO)
        for command, code, name, example in (
            ("--device destroy", 0, "destroy", f"{_ECHO} destroy 0x2"),
            ("--device destroy", 2, "destroy-gone", f"{_ECHO} destroy 0x3"),
            ("--device cleanup", 0, "cleanup", f"{_ECHO} cleanup"),
            ("--device detach", 0, "detach", f"{_ECHO} detach"),
            ("--stdin", 0, "setup", f"{_ATTACH} 'setup scratch-OST0001'"),
            ("--stdin", 19, "setup-missing", f"{_ATTACH} 'setup scratch-OST0099'"),
        )
    ),
    _recorded("write", 0, MASTER, "block/wbt_write"),
    _recorded("write", 13, RELEASE, "server-refusals"),
    _recorded("write", 22, MASTER, "block/wbt_bad"),
    _recorded("write", 34, MASTER, "mballoc/03_write_bad"),
    _recorded("file .*/mb_groups", 0, MASTER, "ldiskfs/mb_groups_head_vdd", "/vdd/mb_groups"),
    _recorded("file /proc/self/mountinfo", 0, RELEASE, "server-mounts", "/proc/self/mountinfo"),
    _recorded("file /sys/fs/ldiskfs/.*", 0, MASTER, "ldiskfs/dump_sys_vdd", "/sys/fs/ldiskfs/vdd/"),
    _recorded(
        "file /proc/fs/ldiskfs/.*", 0, MASTER, "ldiskfs/dump_proc_vdd", "/proc/fs/ldiskfs/vdd/"
    ),
    _recorded("file /proc/mounts", 0, MASTER, "readonly_target/mount", "/proc/mounts"),
    _recorded("file .*/queue/[a-z_]+", 0, MASTER, "block/queue_vdd", "/queue/"),
    _recorded("file /sys/devices/.*/stat", 0, RELEASE, "fstrim-after-purge", "/vdd/stat"),
)  # fmt: skip

ASSUMED = (
    _assumed("lfs setstripe", 28, "what a survey says when no OST may get objects"),
    _assumed(
        "lfs migrate", 28, "what `balance --migrate` says of a file for which there is no room"
    ),
    _assumed("write", 2, "a file of a setting that is gone since it was listed is not written"),
    _assumed("nvme", 0, "wear and errors of drives, reported only; no NVMe drive was recorded"),
    _assumed("nvme", 1, "a drive or log that is not there is named"),
    _assumed("systemctl", 0, "whether a trim timer runs beside Trimtab's: a finding"),
    _assumed("uname", 0, "nothing: POSIX"),
    _assumed("hostname", 0, "nothing: every system's"),
    _assumed("", 127, "nothing: the shell's own"),
    _assumed(
        "file /sys/devices/.*/(?:dev|size|partition)",
        0,
        "the kernel's own documentation of block devices",
    ),
    _assumed(
        "file .*/md/[a-z_]+",
        0,
        "a degraded or rebuilding array is a finding, and excuses a slow target",
    ),
    _assumed("file .*/(?:model|vendor|firmware_rev|state|transport)", 0, "what drives are called"),
    _assumed("file .*/(?:current|max)_link_(?:speed|width)", 0, "a slow PCIe link is a finding"),
    _assumed("file /dev/.*", 0, "names of devices"),
    _assumed("file /proc/(?:stat|uptime)", 0, "load of servers, proc(5)"),
    _assumed("file /proc/sys/kernel/.*", 0, "names of host, kernel and boot, proc(5)"),
    _assumed(
        "file /etc/.*|file /usr/lib/systemd/.*|file /run/systemd/.*", 0, "other trims: a finding"
    ),
)

ANSWERS = RECORDED + ASSUMED

ASSUMED_AS_A_WHOLE = (
    _assumed(
        "Lustre before 2.17",
        0,
        "formats and errors of 2.10 to 2.16, from their sources; among them that before 2.16 stat "
        "of a target's mount answers the number in the table of mounts",
        changes=True,
    ),
    _assumed(
        "targets on ZFS", 0, "their parameters are read and set as those of ldiskfs", changes=True
    ),
    _assumed("failover", 0, "which server has a target, and under which address"),
    _assumed("ssh", 255, "a server that was not reached: nothing was written there"),
    _assumed(
        "a Lustre in memory with changelogs",
        0,
        "what `purge follow` keeps in an index; a purge looks at each file again",
    ),
)
"""Of many answers at once: what they are given on, or come from."""


def check(argv: Sequence[str], exit_code: int) -> None:
    """Raise `AssertionError` for an answer, or an option, that nobody has recorded or assumed."""
    row_of(_form(argv), exit_code)
    strange = _options(argv) - recorded_options()
    if argv[0] in _PROGRAMS and exit_code == 0 and strange:
        raise AssertionError(
            f"{' '.join(sorted(strange)[0])} is an option in no recorded command: record it"
        )


_PROGRAMS = ("lfs", "lctl", "fstrim", "dmesg")
_FIXTURES = Path(__file__).parents[1] / "fixtures/lustre" / RELEASE


def _options(argv: Sequence[str]) -> set[tuple[str, ...]]:
    """Return each option of a command with the command, ``-lv`` as two."""
    command = argv[:1] if argv[0] in ("fstrim", "dmesg") else argv[:2]
    letters = [
        f"-{letter}"
        for word in argv[1:]
        if re.fullmatch(r"-[A-Za-z]+", word)
        for letter in word[1:]
    ]
    long = [word.partition("=")[0] for word in argv[1:] if word.startswith("--")]
    return {(*command, option) for option in (*letters, *long)}


_MASTER_OPTIONS = {
    ("fstrim", "-n"),
    ("lctl", "get_param", "-N"),
    ("lfs", "df", "-h"),
    ("lfs", "df", "-o"),
}
"""Of recordings beside the project, which are not here wherever tests run."""


@lru_cache(maxsize=1)
def recorded_options() -> frozenset[tuple[str, ...]]:
    """Return the options of the commands that were recorded, here or beside the project."""
    options: set[tuple[str, ...]] = set(_MASTER_OPTIONS)
    for row in RECORDED:
        if row.words[0] in _PROGRAMS:
            options |= _options(shlex.split(row.example))
    for file in _FIXTURES.glob("**/*.cmd"):
        for text in re.split(r"[;|&\n]|\bdo\b|\$\(", file.read_text()):
            words = re.sub(r"\d?>\S*", "", text).split()
            if words and words[0] in _PROGRAMS:
                options |= _options(words)
    return frozenset(options)


def _form(argv: Sequence[str]) -> tuple[str, ...]:
    """Return the words of a command that tell what kind of answer it gets."""
    if (argv[0], *argv[1:2]) == ("lctl", "--device"):
        return ("lctl", "--device", *argv[3:4])
    return (argv[0], *argv[1:2], *(word for word in argv[2:] if word in ("-P", "-d")))


@lru_cache(maxsize=4096)
def row_of(words: tuple[str, ...], exit_code: int) -> Answer:
    """Return the row of a command's answer: the one of most words."""
    fitting = [
        row
        for row in ANSWERS
        if row.exit_code == exit_code
        and row.words[:1] != ("file",)
        and row.words[:1] in ((), words[:1])
        and set(row.words) <= set(words)
        and _is_of_its_command(row, words)
    ]
    if not fitting:
        raise AssertionError(
            f"{' '.join(words)} that ends with {exit_code} is in no table of "
            "tests/fake_lustre/answers.py: name its recording, or what rests on assuming it"
        )
    return max(fitting, key=lambda row: len(row.words))


def _is_of_its_command(row: Answer, words: tuple[str, ...]) -> bool:
    """Return whether a row is not one of a whole program where its command has rows of its own."""
    return len(row.words) != 1 or not any(
        other.words[:2] == words[:2] for other in ANSWERS if len(other.words) > 1
    )


def row_of_file(path: str) -> Answer:
    """Return the row of a file: the first whose pattern it fits."""
    for row in ANSWERS:
        patterns = row.form.split("|file ")
        if row.words[:1] == ("file",) and any(
            re.fullmatch(one.removeprefix("file "), path) for one in patterns
        ):
            return row
    raise AssertionError(f"{path} is in no table of tests/fake_lustre/answers.py")
