"""Site file and service put in place: shown, whole, never over what somebody else wrote."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.support.codes import raises
from tests.support.command import TRIMTAB, trimtab
from tests.support.documents import misfits

from trimtab.base.error import RefusedError
from trimtab.base.site import Site
from trimtab.watch.service import UNIT, FileState, files_of, install, unit_text

SITE = Site("scratch", "local", "/scratch")
TEXT = '[site]\nname = "scratch"\ndriver = "local"\npath = "/scratch"\n'


def test_each_file_is_written_once(tmp_path: Path) -> None:
    planned = files_of(SITE, TEXT, root=tmp_path, program="/opt/trimtab/bin/trimtab")
    assert [Path(file.path).relative_to(tmp_path).as_posix() for file in planned] == [
        "etc/trimtab/sites/scratch.toml",
        "etc/systemd/system/trimtab-watch@.service",
        "etc/systemd/system/trimtab-watch@scratch.service.d/site.conf",
    ]
    assert {file.state for file in planned} == {FileState.ABSENT}
    assert install(planned) == tuple(file.path for file in planned)
    assert [Path(file.path).read_text() for file in planned] == [file.text for file in planned]
    assert {Path(file.path).stat().st_mode & 0o777 for file in planned} == {0o644}
    again = files_of(SITE, TEXT, root=tmp_path, program="/opt/trimtab/bin/trimtab")
    assert {file.state for file in again} == {FileState.SAME}
    assert install(again) == ()
    assert not list(tmp_path.rglob(".*"))


def test_what_somebody_else_wrote_stays_unless_it_is_to_be_replaced(tmp_path: Path) -> None:
    install(files_of(SITE, TEXT, root=tmp_path))
    unit = tmp_path / "etc/systemd/system" / UNIT
    unit.write_text("[Service]\n")
    changed = files_of(SITE, TEXT + "# more\n", root=tmp_path)
    assert [file.state for file in changed] == [
        FileState.DIFFERS, FileState.DIFFERS, FileState.SAME,
    ]  # fmt: skip
    with raises(RefusedError, "file-differs"):
        install(changed)
    assert unit.read_text() == "[Service]\n"
    assert len(install(changed, replace=True)) == 2
    assert unit.read_text() == unit_text()


def test_the_unit_of_a_package_is_enough(tmp_path: Path) -> None:
    packaged = tmp_path / "usr/lib/systemd/system"
    packaged.mkdir(parents=True)
    (packaged / UNIT).write_text(unit_text())
    names = [Path(file.path).name for file in files_of(SITE, TEXT, root=tmp_path)]
    assert names == ["scratch.toml", "site.conf"]


def test_the_unit_in_deploy_is_the_one_that_is_installed() -> None:
    deployed = Path(__file__).parents[2] / "deploy" / UNIT
    assert deployed.read_text() == unit_text()


@pytest.mark.system
@pytest.mark.parametrize("path", ["/scratch", "/two words", '/per%n"cent\\', "/line\nUser=nobody"])
def test_systemd_reads_it_as_it_is_meant(tmp_path: Path, path: str) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed")
    site = Site("scratch", "local", path)
    conf = files_of(site, TEXT, root=tmp_path, program="/usr/bin/true")[-1].text
    (tmp_path / UNIT).write_text(unit_text())
    directory = tmp_path / "trimtab-watch@scratch.service.d"
    directory.mkdir()
    (directory / "site.conf").write_text(conf)
    assert "\nUser=" not in conf
    checked = subprocess.run(
        [analyze, "verify", "--man=no", "trimtab-watch@scratch.service"],
        capture_output=True, text=True, check=False, timeout=60,
        env={"SYSTEMD_UNIT_PATH": f"{tmp_path}:", "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    complaints = [line for line in checked.stderr.splitlines() if "trimtab-watch" in line]
    assert checked.returncode == 0, checked.stderr
    assert complaints == []


@pytest.mark.system
def test_the_command_asks_and_then_writes(tmp_path: Path) -> None:
    """In a mount namespace whose /etc takes writes of its own."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    command = ["init", str(scratch), "--name", "itest", "--install"]
    unasked = trimtab(*command, "--json", store=tmp_path / "t.db")
    assert unasked.code == 4
    assert unasked.document["error"]["code"] == "install-unconfirmed"
    assert "trimtab-watch@itest.service.d/site.conf" in unasked.stderr
    assert trimtab("init", scratch, "--yes", store=tmp_path / "t.db").code == 2
    for name in ("upper", "work", "layers"):
        (tmp_path / name).mkdir()
    script = (
        'mount -t tmpfs tmpfs "$1/layers" && mkdir "$1/layers/u" "$1/layers/w" && '
        'mount -t overlay overlay -o "lowerdir=/etc,upperdir=$1/layers/u,workdir=$1/layers/w" /etc '
        '&& shift && "$@" --yes --json && cat /etc/trimtab/sites/itest.toml >&2'
    )
    ended = subprocess.run(
        ["unshare", "--mount", "--propagation", "slave", "sh", "-c", script, "sh", tmp_path,
         TRIMTAB, *command],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    document = json.loads(ended.stdout)
    assert misfits(document, "init-install") == []
    assert document["next"][2] == "systemctl enable --now trimtab-watch@itest"
    assert str(scratch) in ended.stderr
    assert not Path("/etc/trimtab/sites/itest.toml").exists()
