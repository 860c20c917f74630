"""What the fake answers, and which recording of a running Lustre says so: one table.

`check` is in the way of every answer: one that is in neither table is an error, so a new answer
needs its recording, or a line that says what rests on having assumed it. `test_recorded` compares
each recorded one with its recording, and `scripts/maturity_page.py` prints both.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
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
    version: str,
    *rows: tuple[int, str, str] | tuple[int, str, str, str],
    on: str | None = None,
    world: str = "small",
) -> Iterator[Answer]:
    """Yield recorded answers: exit code, recording, example, and a form where it tells another."""
    for exit_code, recording, example, *form in rows:
        known = form[0] if form else " ".join(_form(shlex.split(example)))
        yield Answer(known, exit_code, (version, recording), example, on, world)


def _assumed(form: str, exit_code: int, rests: str, *, changes: bool = False) -> Answer:
    return Answer(form, exit_code, rests=rests, changes=changes)


def _form(argv: Sequence[str]) -> tuple[str, ...]:
    """Return the words of a command that tell what kind of answer it gets."""
    if (argv[0], *argv[1:2]) == ("lctl", "--device"):
        return ("lctl", "--device", *argv[3:4])
    return (argv[0], *argv[1:2], *(word for word in argv[2:] if word in ("-P", "-d")))


_MDT = "lctl --device scratch-MDT0000"
_MGS_LOG = "lctl --device MGS llog_print params"
_NONE = "lctl set_param -P llite.*.t_fake_none=1"
_FILE = "/scratch/t-fake/a"
_MISSING = "/scratch/t-fake/none"
_MIGRATE = "lfs migrate --non-block -W 10M --copy"
_QOS = "lctl set_param lod.scratch-MDT0000-mdtlov.qos_threshold_rr"
_ECHO = "lctl --device scratch-OST0001_ecc"
_ATTACH = "lctl --stdin 'attach echo_client x_ecc x_ecc_UUID'"

RECORDED = (
    *_recorded(
        MASTER,
        (0, "versions/lfs_df", "lfs df"),
        (4, "versions/lfs_df_json", "lfs df -j"),
        (0, "versions/lfs_osts", "lfs osts"),
        (0, "versions/lfs_mdts", "lfs mdts"),
        (0, "versions/lfs_version", "lfs --version"),
        (0, "params/osp_create", "lctl get_param osp.*.active"),
        (2, "params/get_missing", "lctl get_param nosuch.param"),
        (0, "versions/lctl_dl", "lctl dl"),
        (0, "versions/lctl_version", "lctl --version"),
        (1, "discard/16_lctl_errors", "lctl --device nosuch changelog_register", "lctl --device"),
        (0, "block/fstrim_ost0", "fstrim -v /mnt/lustre/ost0", "fstrim"),
        (1, "block/fstrim_client", "fstrim -v /scratch", "fstrim"),
        (0, "block/wbt_write", "write"),
        (22, "block/wbt_bad", "write"),
        (34, "mballoc/03_write_bad", "write"),
        (0, "ldiskfs/mb_groups_head_vdd", "/vdd/mb_groups", "file .*/mb_groups"),
        (0, "ldiskfs/dump_sys_vdd", "/sys/fs/ldiskfs/vdd/", "file /sys/fs/ldiskfs/.*"),
        (0, "ldiskfs/dump_proc_vdd", "/proc/fs/ldiskfs/vdd/", "file /proc/fs/ldiskfs/.*"),
        (0, "readonly_target/mount", "/proc/mounts", "file /proc/mounts"),
        (0, "block/queue_vdd", "/queue/", "file .*/queue/[a-z_]+"),
    ),
    *_recorded(
        RELEASE,
        (0, "client-files", "lfs pool_list scratch"),
        (2, "client-files", "lfs pool_list scratch.none"),
        (4, "client-files", "lfs pool_list"),
        (0, "client-files", f"lfs setstripe -c 1 -i 2 {_FILE}"),
        (2, "client-files", f"lfs getstripe {_MISSING}"),
        (4, "client-options", f"lfs getstripe -- {_FILE}"),
        (2, "client-files", f"lfs path2fid {_MISSING}"),
        (2, "client-files", f"{_MIGRATE} {_MISSING} {_MISSING}"),
        (1, "client-files", "lfs nonsense", "lfs"),
        (0, "set-param-answers", f"{_QOS}=20"),
        (2, "set-param-answers", "lctl set_param nosuch.x=1"),
        (22, "set-param-answers", f"{_QOS}=101"),
        (
            *(34, "set-param-answers"),
            "lctl set_param osp.scratch-OST0003-osc-MDT0000.max_create_count=5",
        ),
        (1, "server-refusals", "lctl nonsense", "lctl"),
        (13, "server-refusals", "write"),
        (0, "server-mounts", "/proc/self/mountinfo", "file /proc/self/mountinfo"),
        (0, "fstrim-after-purge", "/vdd/stat", "file /sys/devices/.*/stat"),
    ),
    *_recorded(
        RELEASE,
        (17, "client-files", f"lfs setstripe -c 1 {_FILE}"),
        (0, "client-files", f"lfs getstripe {_FILE}"),
        (0, "client-files", f"lfs path2fid {_FILE}"),
        (0, "client-files", f"{_MIGRATE} {_FILE} {_FILE}"),
        world="file",
    ),
    *_recorded(RELEASE, (107, "lfs-df-lost-ost", "lfs df -lv"), world="lost OST"),
    *_recorded(
        MASTER,
        (110, "ost_down/13_reactivate", "lctl set_param osc.scratch-OST0001-*.active=1"),
        world="lost OST",
    ),
    *_recorded(MASTER, (0, "readonly_target/dmesg_full", "dmesg"), world="aborted"),
    *_recorded(
        RELEASE,
        (
            *(0, "set-param-permanent-first"),
            "lctl set_param -P llite.*.max_read_ahead_whole_mb=16",
        ),
        (2, "llog-print-never-set", _MGS_LOG),
        (2, "server-refusals", f"{_MDT} changelog_deregister -u t_fake"),
        on="mds1",
        world="pair",
    ),
    *_recorded(
        MASTER,
        (
            *(0, "params/set_param_P_delete"),
            "lctl set_param -P -d osp.scratch-OST0001-osc-MDT*.max_create_count",
        ),
        on="mds1",
        world="pair",
    ),
    *_recorded(
        RELEASE,
        (19, "set-param-permanent-no-mgs", _NONE),
        (1, "llog-print-no-mgs", _MGS_LOG),
        on="mds2",
        world="pair",
    ),
    *_recorded(RELEASE, (0, "llog-print-params", _MGS_LOG), on="mds1", world="permanent"),
    *_recorded(
        MASTER,
        (0, "changelog/004_register_named", f"{_MDT} changelog_register -u trimtab"),
        (0, "changelog/deregister", f"{_MDT} changelog_deregister cl1"),
        on="mds1",
        world="reader",
    ),
    *_recorded(
        RELEASE,
        (13, "server-refusals", "lctl set_param obdfilter.scratch-OST0000.degraded=0"),
        (13, "server-refusals", _NONE),
        (13, "llog-print-params", _MGS_LOG),
        (13, "server-refusals", f"{_MDT} changelog_register -u t_fake"),
        (13, "server-refusals", f"{_MDT} changelog_deregister -u t_fake"),
        on="mds1",
        world="user",
    ),
    *_recorded(
        RELEASE, (1, "server-refusals", "sudo -n lctl dl", "sudo"), on="mds1", world="sudo user"
    ),
    *_recorded(
        RELEASE,
        (0, "echo-destroy", f"{_ECHO} destroy 0x2"),
        (2, "echo-destroy-gone", f"{_ECHO} destroy 0x3"),
        (0, "echo-cleanup", f"{_ECHO} cleanup"),
        (0, "echo-detach", f"{_ECHO} detach"),
        (0, "echo-setup", f"{_ATTACH} 'setup scratch-OST0001'"),
        (19, "echo-setup-missing", f"{_ATTACH} 'setup scratch-OST0099'"),
        on="lustre1",
        world="echo client",
    ),
)

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
    ("lctl", "get_param", "-N"),
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
