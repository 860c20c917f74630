"""The sudoers example allows what is read and refuses what stands beside it, with a real sudo."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest
from tests.docs import sudoers
from tests.support.narrow import present

from trimtab.reach.lustre.read_table import COMMANDS, LAST, server_request
from trimtab.reach.lustre.server_answer import parse_answer, program
from trimtab.reach.lustre.server_query import SUDO
from trimtab.reach.process import ProcessResult, execute

DEPLOY = Path(__file__).parents[2] / "deploy"
FILE = DEPLOY / "sudoers.d" / "trimtab"
PYTHON = "/usr/bin/python3"
"""One that an account without rights can reach."""

DEVICES = ("/dev/nvme0n1", "/dev/nvme42n1", "/dev/nvme127n12")

# A stand-in for lctl, nvme and dmesg: who runs it, and each argument by itself.
STAND_IN = '#!/bin/sh\necho "$(basename "$0") $(id -u)"\nfor a in "$@"; do echo "[$a]"; done\n'


def test_the_file_holds_what_is_read_and_nothing_else() -> None:
    held, wanted = sudoers.aliases(FILE.read_text()), sudoers.wanted()
    assert held == wanted, "\n".join(
        f"{name} = {', '.join(sorted(wanted[name]))}"
        for name in wanted
        if wanted[name] != held.get(name)
    )


def test_every_alias_is_granted_and_nothing_but_aliases() -> None:
    granted = [line for line in FILE.read_text().splitlines() if re.match(r"[^#\s]+ ALL\b", line)]
    assert len(granted) == 1
    who, _, commands = granted[0].partition("NOPASSWD: ")
    assert who == "trimtab ALL = (root) "
    assert commands.split(", ") == list(sudoers.wanted())


def test_a_word_that_sudoers_reads_otherwise_is_not_written_as_it_is() -> None:
    assert sudoers.escaped("osp.*.active") == r"osp.\*.active"
    for word in ("a=b", "a,b", "a:b", "a b", "^a", "a$", "a\\b"):
        with pytest.raises(ValueError, match="cannot stand in sudoers"):
            sudoers.escaped(word)


def test_patterns_of_devices_match_digits_only() -> None:
    assert all(
        re.fullmatch(r"/dev/nvme(\[0-9\])+n(\[0-9\])+", one) for one in sudoers.device_patterns()
    )


@pytest.mark.system
def test_visudo_accepts_it() -> None:
    visudo = _needs("visudo")
    checked = execute((visudo, "-cf", str(FILE)), timeout_s=30)
    assert checked.exit_code == 0, checked.stderr


# With a real sudo


_MOUNTED = (
    'while [ "$1" != -- ]; do mount --bind "$2" "$1" || exit 99; shift 2; done; shift; exec "$@"'
)


@dataclass(frozen=True)
class Account:
    """A user who may run what the file allows, with stand-ins for the programs."""

    name: str
    programs: Path

    def runs(self, *argv: str) -> list[str] | None:
        """Return what the command printed as root, ``None`` when sudo refused it."""
        ran = self.does((*SUDO, *argv))
        if ran.exit_code == 0:
            return ran.stdout.decode().splitlines()
        assert b"password is required" in ran.stderr or b"not allowed" in ran.stderr, ran.stderr
        assert ran.stdout == b""
        return None

    def does(
        self, argv: Sequence[str], *, stdin: bytes = b"", over: Mapping[str, Path] | None = None
    ) -> ProcessResult:
        """Run a program as this user, for whom other directories lie over some of this host's."""
        places = [str(word) for pair in (over or {}).items() for word in pair]
        inside = ("unshare", "--mount", "--propagation", "slave", "sh", "-c", _MOUNTED, "sh")
        as_user = ("runuser", "-u", self.name, "--", *argv)
        return execute((*inside, *places, "--", *as_user), timeout_s=60, stdin=stdin)


def _needs(name: str) -> str:
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


@pytest.fixture(scope="module", params=["patterns", "regular expressions"])
def account(request: pytest.FixtureRequest) -> Iterator[Account]:
    """Yield a throw-away user whom the file allows what it allows, programs exchanged."""
    if os.geteuid() != 0:
        pytest.skip("only root can make users and grant rights")
    for name in ("sudo", "visudo", "useradd", "userdel", "runuser"):
        _needs(name)
    text = FILE.read_text()
    if request.param == "regular expressions":
        if _sudo_version() < (1, 9, 10):
            pytest.skip("needs sudo 1.9.10 or later")
        text = sudoers.with_regular_expressions(text)
    with granted(text, sudoers.PATHS) as user:
        yield user


_NUMBERS = count()


@contextmanager
def granted(text: str, paths: Mapping[str, str]) -> Iterator[Account]:
    """Yield a throw-away user with the rights of a sudoers file, its programs exchanged."""
    user = f"trimtab-test-{os.getpid()}-{next(_NUMBERS)}"
    place = Path(tempfile.mkdtemp(prefix="trimtab-", dir="/run"))
    rules = Path("/etc/sudoers.d") / user
    try:
        place.chmod(0o755)
        for name, path in paths.items():
            (place / name).write_text(STAND_IN)
            (place / name).chmod(0o755)
            text = text.replace(path, str(place / name))
        text = re.sub(r"^(Defaults:)?trimtab\b", rf"\g<1>{user}", text, flags=re.MULTILINE)
        text += f"Defaults:{user} secure_path={place}:/usr/bin\n"
        subprocess.run(("useradd", "--system", "--no-create-home", user), check=True)
        draft = place / "rules"
        draft.write_text(text)
        # A file with a mistake in that directory can lock everybody out of sudo.
        subprocess.run(("visudo", "-cf", str(draft)), check=True, capture_output=True)
        draft.chmod(0o440)
        shutil.copy(draft, rules)
        rules.chmod(0o440)
        yield Account(user, place)
    finally:
        rules.unlink(missing_ok=True)
        subprocess.run(("userdel", user), check=False, capture_output=True)
        shutil.rmtree(place)


def _sudo_version() -> tuple[int, ...]:
    text = subprocess.run(("sudo", "--version"), capture_output=True, text=True, check=True).stdout
    return tuple(map(int, present(re.search(r"version (\d+)\.(\d+)\.(\d+)", text)).groups()))


def _argvs() -> list[tuple[str, ...]]:
    return [
        tuple(device if word == "{}" else word for word in command["argv"])
        for command in COMMANDS.values()
        if command.get("sudo")
        for device in (DEVICES if "{}" in command["argv"] else DEVICES[:1])
    ]


@pytest.mark.system
def test_every_command_that_is_read_runs_as_root(account: Account) -> None:
    for argv in _argvs():
        printed = account.runs(*argv)
        assert printed == [f"{argv[0]} 0", *(f"[{word}]" for word in argv[1:])], argv


@pytest.mark.system
def test_near_misses_are_refused(account: Account) -> None:
    parameters, imports = COMMANDS["parameters"]["argv"], COMMANDS["imports"]["argv"]
    refused: list[tuple[str, ...]] = [
        ("lctl", "set_param", "osp.*.active=0"),
        ("lctl", "set_param", *parameters[2:]),
        (*parameters, "nis"),
        imports[:-1],
        parameters[:-1],
        (*imports, "osp.*.active"),
        # What an unescaped asterisk would let through.
        ("lctl", "get_param", "osp.scratch-OST0000-osc-MDT0000.import"),
        ("lctl", "get_param", "osp.x -R y.import"),
        ("lctl", "get_param", "-n", *imports[2:]),
        ("lctl",),
        ("dmesg", "-C"),
        ("dmesg", "--clear"),
        ("dmesg", "-n", "1"),
        ("nvme", "format", DEVICES[0]),
        ("nvme", "smart-log", "-o", "json", DEVICES[0], DEVICES[1]),
        ("nvme", "smart-log", "-o", "json", f"{DEVICES[0]} {DEVICES[1]}"),
        ("nvme", "smart-log", "-o", "json", f"{DEVICES[0]} --output-format=binary"),
        ("nvme", "smart-log", "-o", "json", "/dev/nvme0"),
        ("nvme", "smart-log", "-o", "json", "/dev/nvme0n1p1"),
        ("nvme", "smart-log", "-o", "json", "/dev/nvme0n1/../sda"),
        ("nvme", "smart-log", "-o", "json", "/dev/nvme n1"),
        ("nvme", "smart-log", "-o", "json", "/dev/sda"),
        ("nvme", "smart-log", "-o", "binary", DEVICES[0]),
        ("nvme", "ocp", "smart-add-log", "-o", "json", f"{DEVICES[0]}\n"),
        ("nvme", "ocp", "clear-fw-activate-history", DEVICES[0]),
        ("sh", "-c", "id"),
        (str(account.programs / "sh"),),
        ("cat", "/etc/shadow"),
    ]
    allowed = [argv for argv in refused if account.runs(*argv) is not None]
    assert allowed == []


@pytest.mark.system
def test_a_program_of_the_same_name_elsewhere_is_refused(account: Account) -> None:
    with tempfile.TemporaryDirectory(dir="/run") as elsewhere:
        Path(elsewhere).chmod(0o755)
        impostor = Path(elsewhere) / "dmesg"
        impostor.write_text(STAND_IN)
        impostor.chmod(0o755)
        assert account.runs(str(impostor)) is None


@pytest.mark.system
def test_the_collector_gets_everything_as_that_user(account: Account) -> None:
    if not Path(PYTHON).exists():
        pytest.skip(f"{PYTHON} is not installed")
    with tempfile.TemporaryDirectory(dir="/run") as root:
        Path(root).chmod(0o755)
        for name in ("nvme0n1", "nvme12n1", "nvme0n1p1", "nvme0"):
            (Path(root) / name).touch()
        for name in ("null", "tty", "urandom", "zero"):
            os.mknod(Path(root) / name, 0o666 | stat.S_IFCHR, Path("/dev", name).stat().st_rdev)
            (Path(root) / name).chmod(0o666)
        request = server_request(deadline_s=30, sudo=SUDO)
        ran = account.does(
            (PYTHON, "-I", "-S", "-"), stdin=program(request), over={"/dev": Path(root)}
        )
    answer = parse_answer("oss1", ran)
    assert answer.problem is None
    found = {
        (command.key, command.argv[-1]): command.stdout
        for command in answer.commands
        if COMMANDS[command.key].get("sudo")
    }
    drives = ("/dev/nvme0n1", "/dev/nvme12n1")
    assert set(found) == {
        ("parameters", LAST),
        ("imports", LAST),
        ("kernel-log", "dmesg"),
        *(("smart", drive) for drive in drives),
        *(("flash-writes", drive) for drive in drives),
    }
    # The others are filtered by what their lines must look like.
    assert found["parameters", LAST].startswith("lctl 0\n[get_param]\n")
    for key in ("smart", "flash-writes"):
        for drive in drives:
            assert found[key, drive].startswith("nvme 0\n")
    assert {one.exit_code for one in answer.commands if COMMANDS[one.key].get("sudo")} == {0}
