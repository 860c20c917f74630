"""Bad input to ``trimtab check``: answered clearly, with the right exit code, and nothing lost."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from tests.support import loopback, silent_fuse
from tests.support.command import TRIMTAB, Ended, installed, trimtab

from trimtab.store import checksum, schema
from trimtab.store.store import Store

pytestmark = pytest.mark.system

SHORT = ("--budget", "2s", "--repetitions", 1, "--tasks", 1)
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount or change user")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store" / "trimtab.db"


@pytest.fixture
def target(tmp_path: Path) -> Path:
    directory = tmp_path / "target"
    directory.mkdir()
    return directory


@pytest.fixture
def check(store: Path, target: Path) -> Callable[..., Ended]:
    """Return what checks the target with ``--json``."""
    return partial(trimtab, "check", target, "--json", store=store)


@pytest.fixture
def seen(check: Callable[..., Ended]) -> None:
    """Have a store in which the target was looked at."""
    assert check("--no-probe").code == 0


def assert_clear(ended: Ended, exit_code: int, code: str | None = None, *named: object) -> None:
    """The exit code is right, --json has its code, the message names what, and no traceback."""
    assert ended.code == exit_code, ended.stderr
    assert "Traceback" not in ended.stderr
    for name in named:
        assert str(name) in ended.stderr, ended.stderr
    if code is not None:
        error = ended.document["error"]
        assert (error["code"], error["exit_code"]) == (code, exit_code)


# PATH


def test_a_path_that_cannot_be_looked_at(store, target):
    file, link = target / "file", target / "link"
    file.write_text("x")
    link.symlink_to(target / "gone")
    codes = {
        target / "nowhere": "path-missing",
        file: "not-a-directory",
        link: "path-link-broken",
        "": "path-invalid",
    }
    for path, code in codes.items():
        assert_clear(trimtab("check", path, "--json", store=store), 2, code, path)


def test_hostile_names_do_not_steer_the_terminal(store, target):
    hostile = os.fsdecode(os.fsencode(target) + b"/a\x1b[31m\nb \xff<script>")
    Path(hostile).mkdir()
    ended = trimtab("check", hostile, "--no-probe", store=store)
    assert ended.code == 0, ended.stderr
    assert "\x1b" not in ended.stdout + ended.stderr
    assert trimtab("check", hostile, "--no-probe", "--json", store=store).document["path"]
    words = ("check", hostile, *SHORT, "--probe", "builtin", "--json")
    (run,) = trimtab(*words, store=store).document["runs"]
    for command in (("runs",), ("status",), ("show", run["id"])):
        assert trimtab(*command, store=store).code == 0
        assert trimtab(*command, "--json", store=store).document
    lines = trimtab("show", run["id"], store=store).stdout.splitlines()
    assert not [line for line in lines if line.startswith("b ")]


@needs_root
@loopback.needs_loop_devices("ext4")
def test_a_read_only_file_system_is_looked_at_and_not_probed(store, tmp_path):
    with loopback.mounted(tmp_path, options="ro") as mount:
        ended = trimtab("check", mount.mount_point, "--json", store=store)
        assert_clear(ended, 3, "read-only")
        assert ended.document["targets"][0]["fullness"] is not None
        assert ended.document["runs"] == []
        assert trimtab("check", mount.mount_point, "--no-probe", store=store).code == 0


@needs_root
@loopback.needs_loop_devices("ext4")
def test_a_full_file_system_is_refused_and_still_explained(store, tmp_path):
    with loopback.mounted(tmp_path) as mount:
        loopback.fill_to(mount.mount_point, 0.999)
        ended = trimtab("check", mount.mount_point, "--json", store=store)
        assert_clear(ended, 4, "space-too-small")
        assert "fullness-over-limit" in ended.ids()
        assert ended.finding("fullness-over-limit")["severity"] == "critical"


@needs_root
def test_a_path_without_permission(store, target, tmp_path):
    target.chmod(0o755)
    tmp_path.chmod(0o755)
    shutil.chown(target, "nobody")
    ended = _without_capabilities("check", target, "--json", store=store)
    assert_clear(ended, 3, "no-permission", target)
    (target / "inner").mkdir()
    target.chmod(0o700)
    ended = _without_capabilities("check", target / "inner", "--json", store=store)
    assert_clear(ended, 2, "no-permission")


def _without_capabilities(*arguments: object, store: Path) -> Ended:
    """Run trimtab as a root that may not override permissions: as anybody else."""
    words = ["setpriv", "--inh-caps=-all", "--bounding-set=-all", TRIMTAB, *arguments]
    environment = {**os.environ, "TRIMTAB_STORE": str(store)}
    ended = subprocess.run(
        [*map(str, words)], capture_output=True, text=True, check=False, env=environment
    )
    return Ended(ended.returncode, ended.stdout, ended.stderr)


@needs_root
def test_a_file_system_that_does_not_answer(store, tmp_path):
    reason = silent_fuse.why_not()
    if reason:
        pytest.skip(reason)
    (tmp_path / "silent").mkdir()
    with silent_fuse.silent_mount(tmp_path / "silent") as mount_point:
        ended = trimtab("check", mount_point, "--json", store=store, timeout_s=60.0)
        assert_clear(ended, 3, "no-answer", mount_point)


# The store


def test_a_corrupt_store_measures_nothing(store, target, check):
    store.parent.mkdir()
    store.write_bytes(b"this is no database" * 1000)
    assert_clear(check(*SHORT), 5, "store-damaged", store)
    assert store.read_bytes() == b"this is no database" * 1000
    assert list(target.iterdir()) == []


@pytest.mark.usefixtures("seen")
def test_a_store_of_a_newer_version_is_left_alone(store, target):
    with closing(sqlite3.connect(store)) as database, database:
        database.execute("UPDATE trimtab_schema SET version_num = '9999'")
    for command in (("check", target, "--no-probe"), ("status",), ("runs",)):
        assert_clear(trimtab(*command, "--json", store=store), 5, "store-revision-unknown", store)


@pytest.mark.usefixtures("seen")
@pytest.mark.parametrize("revision", ["0001", "0007"])
def test_a_store_of_an_unreleased_version_is_left_alone(store, target, revision):
    """Its revisions had the numbers of today's: the first of them is not this one."""
    with closing(sqlite3.connect(store)) as database, database:
        database.execute("ALTER TABLE trimtab_schema RENAME TO trimtab_revision")
        database.execute("UPDATE trimtab_revision SET version_num = ?", [revision])
    before = store.read_bytes()
    for command in (("check", target, "--no-probe"), ("status",), ("store", "check")):
        ended = trimtab(*command, "--json", store=store)
        assert_clear(ended, 5, "format-unreleased", store)
        assert "import the raw outputs again" in ended.stderr
    assert store.read_bytes() == before


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    if os.geteuid() != 0:
        pytest.skip("needs root to mount")
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(disk)], check=True)
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_store_on_a_full_disk_measures_nothing(small_disk, target):
    store = small_disk / "trimtab.db"
    assert trimtab("check", target, "--no-probe", store=store).code == 0
    subprocess.run(["dd", "if=/dev/zero", f"of={small_disk}/filler", "bs=4k"], check=False)
    ended = trimtab("check", target, *SHORT, "--json", store=store)
    assert_clear(ended, 5, "store-disk-full", store)
    assert list(target.iterdir()) == []


def test_a_disk_that_fills_up_while_measuring_loses_no_result(small_disk, target, tmp_path):
    """The result that cannot be kept is still printed, and the report still written."""
    store, report = small_disk / "trimtab.db", tmp_path / "report.html"
    assert trimtab("check", target, "--no-probe", store=store).code == 0
    fio = shutil.which("fio")
    if fio is None:
        pytest.skip("fio is not installed")
    path = fake_fio(
        tmp_path / "bin", f'dd if=/dev/zero of={small_disk}/filler bs=4k 2>/dev/null; {fio} "$@"'
    )
    arguments = ("check", target, *SHORT, "--probe", "fio", "--json", "--out", report)
    ended = trimtab(*arguments, store=store, PATH=path)
    assert_clear(ended, 5, "raw-output-inaccessible", small_disk)
    assert [one for one in ended.document["runs"][0]["samples"] if one["value"]]
    assert report.exists()
    (small_disk / "filler").unlink()
    assert trimtab("status", store=store).code == 0


def test_an_unreachable_report_is_refused_before_measuring(target, check):
    ended = check("--out", target / "no" / "r.html")
    assert_clear(ended, 2, "directory-missing", target / "no")
    assert not list(target.iterdir())


# Tools


def fake_fio(directory: Path, script: str) -> str:
    """Return a PATH with a fio that says its version and then behaves as ``script`` says."""
    directory.mkdir()
    program = directory / "fio"
    program.write_text(
        f'#!/bin/sh\nif [ "$1" = --version ]; then echo fio-3.33; exit 0; fi\n{script}\n'
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return f"{directory}:{os.environ['PATH']}"


@pytest.mark.parametrize(
    ("script", "named"),
    [
        ("echo rubbish; echo '{ \"jobs\": [' ", ()),
        ("head -c 100000 /dev/urandom", ()),
        ("exit 0", ()),
        ("exit 1", ("exit code 1",)),
        ("kill -9 $$", ("SIGKILL",)),
        ("head -c 1073741824 /dev/zero", ("64.0 MiB",)),
        ('echo \'{"fio version": "fio-3.33", "jobs": []}\'', ()),
    ],
    ids=["rubbish", "random bytes", "nothing", "exits 1", "is killed", "1 GiB", "no jobs"],
)
def test_a_tool_that_fails(script, named, store, target, check, tmp_path):
    ended = check("--probe", "fio", *SHORT, PATH=fake_fio(tmp_path / "bin", script))
    assert_clear(ended, 3, "probe-failed", "write 0", *named)
    (run,) = ended.document["runs"]
    assert run["status"] in {"failed", "invalid_workload"}
    assert not [sample for sample in run["samples"] if sample["value"] and not sample["reason"]]
    assert list(target.iterdir()) == []
    # What it printed is kept, so that the failure can be looked into.
    assert trimtab("show", run["id"], "--output", 0, store=store).code == 0


@pytest.mark.parametrize("script", ["sleep 600", "trap '' TERM; sleep 600 & wait; sleep 600"])
def test_a_tool_that_hangs_counts_as_unfinished(script, target, check, tmp_path):
    path = fake_fio(tmp_path / "bin", script)
    ended = check("--probe", "fio", *SHORT, "--timeout", "2s", timeout_s=60.0, PATH=path)
    assert_clear(ended, 3, "probe-unfinished")
    (run,) = ended.document["runs"]
    assert run["status"] == "unfinished"
    assert list(target.iterdir()) == []


def test_a_run_of_another_workload_is_kept_and_never_judged(store, check, tmp_path):
    fio = shutil.which("fio")
    if fio is None:
        pytest.skip("fio is not installed")
    # It does half of what is asked: transfers of another size.
    path = fake_fio(tmp_path / "bin", f'exec {fio} "$@" --bs=512k')
    ended = check("--probe", "fio", *SHORT, PATH=path)
    assert_clear(ended, 3, "probe-invalid-workload")
    (run,) = ended.document["runs"]
    assert run["status"] == "invalid_workload"
    assert run["samples"]
    assert all(verdict["n"] == 0 for verdict in ended.document["verdicts"])
    (shown,) = trimtab("status", "--json", store=store).document["runs"]
    assert shown["status"] == "invalid_workload"


def test_a_tool_that_is_missing(check, tmp_path):
    ended = check("--probe", "fio", PATH=str(tmp_path))
    assert_clear(ended, 3, "no-benchmark", "fio")
    assert ended.document["targets"]


# Wrong use


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--transfer-size", "1000"), "transfer-size-unaligned"),
        (("--budget", "soon"), "usage"),
        (("--space", "much"), "usage"),
        (("--space", "-1"), "usage"),
        (("--probe", "guess"), "usage"),
        (("--repetitions", "0"), "usage"),
        (("--fullness-limit", "175%"), "usage"),
        (("--no-such-option",), "usage"),
        (("--budget", "9" * 400), "usage"),
        (("--space", "9" * 400), "usage"),
        (("--repetitions", "200000000"), "usage"),
    ],
)
def test_wrong_options(arguments, code, target, check):
    assert_clear(check(*arguments), 2, code)
    assert list(target.iterdir()) == []


def test_more_space_than_there_is_is_refused(check):
    assert_clear(check("--space", "1000TiB"), 4, "space-too-small")


def test_a_store_that_is_not_there_is_not_made_by_looking(store):
    for command in ("status", "runs", "show 0123"):
        ended = trimtab(*command.split(), "--json", store=store)
        assert_clear(ended, 5, "store-missing", store)
    assert not store.parent.exists()


def test_unknown_runs_and_sites(store, target, tmp_path):
    (tmp_path / "other").mkdir()
    assert trimtab("check", target, "--no-probe", "--site", "mine", store=store).code == 0
    for command, name, code in (
        ("show", "0123", "run-unknown"),
        ("status", "no-such-site", "site-unknown"),
        ("status", "/no/such/path", "path-missing"),
    ):
        assert_clear(trimtab(command, name, "--json", store=store), 2, code, name)
    assert trimtab("status", "mine", store=store).code == 0
    assert trimtab("status", target, store=store).code == 0


@pytest.mark.usefixtures("seen")
def test_output_that_cannot_be_written(store):
    for redirect, code in ((">&-", 0), (">/dev/full", 5)):
        words = ["sh", "-c", f'exec "$0" runs --store "$1" {redirect}', str(TRIMTAB), str(store)]
        ended = subprocess.run(words, capture_output=True, text=True, check=False)
        assert "Traceback" not in ended.stderr
        assert ended.returncode == code, ended.stderr


def test_names_that_the_terminal_cannot_show(store, tmp_path):
    (tmp_path / "é日").mkdir()
    words = ("check", tmp_path / "é日", "--no-probe")
    ended = installed(*words, store=store, PYTHONIOENCODING="ascii", LC_ALL="C")
    assert ended.code == 0, ended.stderr


def test_a_spec_of_another_version_is_passed_over(store, check):
    assert check(*SHORT, "--probe", "builtin").code == 0
    with Store.open(store) as opened, opened._writing() as connection:
        words = {"spec": {"tasks": 1, "new": 2}}
        connection.execute(schema.run.update().values(parameters=words))
        checksum.resum(connection, schema.run)
    assert check(*SHORT, "--probe", "builtin").code == 0
