"""The packages: built from this tree, installed into a copy of this host, run, and removed."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.system

IN_A_COPY = """
set -e
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/changes" "$1/host"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/changes" "$1/host"
for name in proc dev; do mount --rbind "/$name" "$1/host/$name"; done
cp "$2" "$1/host/tmp/package"
exec chroot "$1/host" /bin/sh -ec "$3"
"""
"""Of the whole file system: what happens there is gone with the process."""

RUN = """
cd /
test "$(command -v trimtab)" = /usr/bin/trimtab
trimtab --version
trimtab-ioload --help > /dev/null
mkdir /tmp/scratch
trimtab check /tmp/scratch --no-probe --json --store /tmp/t.db > /tmp/check.json
trimtab twin list > /dev/null
test -f /usr/lib/systemd/system/trimtab-watch@.service
test -f /usr/lib/systemd/system/trimtab-web.service
test -f /usr/share/trimtab/nginx/trimtab.conf
cmp /usr/share/licenses/trimtab/LICENSE /usr/share/doc/trimtab/LICENSE
test "$(getent passwd trimtab | cut -d : -f 6)" = /var/lib/trimtab
test -d /etc/trimtab/sites
test ! -e /opt/trimtab/etc/clustershell
test "$(stat -c %a /var/lib/trimtab)" = 750
"""


def in_a_copy(tmp_path: Path, package: Path, script: str, timeout_s: float = 300) -> str:
    """Run a script as root in a copy of this host that has the package; return what it printed."""
    copy = tmp_path / "copy"
    copy.mkdir(exist_ok=True)
    words = ["unshare", "--mount", "sh", "-c", IN_A_COPY, "sh", copy, package, script]
    ended = subprocess.run(words, capture_output=True, text=True, check=False, timeout=timeout_s)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def wheel_of_this_tree(out: Path) -> Path:
    """Return a wheel with the modules of this tree and the extension that the tests use.

    What ``maturin build`` makes has the same files; here nothing is compiled.
    """
    metadata = distribution("trimtab")
    name = f"trimtab-{metadata.version}"
    wheel = out / f"{name}-cp311-abi3-linux_{platform.machine()}.whl"
    tag = f"cp311-abi3-linux_{platform.machine()}"
    contents = {
        f"{name}.dist-info/METADATA": (metadata.read_text("METADATA") or "").encode(),
        f"{name}.dist-info/entry_points.txt": (
            metadata.read_text("entry_points.txt") or ""
        ).encode(),
        f"{name}.dist-info/WHEEL": f"Wheel-Version: 1.0\nTag: {tag}\n".encode(),
    }
    for file in sorted((ROOT / "src/trimtab").rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            contents[str(file.relative_to(ROOT / "src"))] = file.read_bytes()
    record = f"{name}.dist-info/RECORD"
    rows = [f"{path},," for path in (*contents, record)]
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, content in contents.items():
            archive.writestr(path, content)
        archive.writestr(record, "\n".join(rows) + "\n")
    return wheel


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Build both packages."""
    uv = shutil.which("uv") or ROOT / ".tools/bin/uv"
    for tool in ("dpkg-deb", "rpmbuild", str(uv)):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    out = tmp_path_factory.mktemp("packages")
    wheel = wheel_of_this_tree(out)
    script = [sys.executable, ROOT / "scripts/packages.py", "--wheel", wheel]
    subprocess.run([*script, "--out", out, "--uv", uv], check=True, cwd=ROOT)
    return {suffix: next(out.glob(f"*.{suffix}")) for suffix in ("deb", "rpm")}


def test_the_deb_is_installed_run_and_removed(tmp_path: Path, packages: dict[str, Path]) -> None:
    script = f"""
dpkg --purge trimtab > /dev/null 2>&1 || true
rm -rf /opt/trimtab /var/lib/trimtab /etc/trimtab
userdel trimtab 2> /dev/null || true
dpkg --install /tmp/package
{RUN}
systemd-analyze verify --man=no trimtab-watch@scratch.service trimtab-web.service
chown trimtab:trimtab /var/lib/trimtab
dpkg --install /tmp/package
test "$(stat -c %U:%a /var/lib/trimtab)" = trimtab:750
touch /etc/trimtab/sites/scratch.toml /var/lib/trimtab/trimtab.db
dpkg --remove trimtab
test ! -e /opt/trimtab
test ! -e /usr/bin/trimtab
test -f /etc/trimtab/sites/scratch.toml
test -f /var/lib/trimtab/trimtab.db
id trimtab > /dev/null
echo all was well
"""
    output = in_a_copy(tmp_path, packages["deb"], script)
    assert "trimtab, version " in output
    assert output.endswith("all was well\n")


def test_the_rpm_is_installed_run_and_removed(tmp_path: Path, packages: dict[str, Path]) -> None:
    """Debian's rpm knows nothing of the packages here: dependencies are not looked at."""
    script = f"""
dpkg --purge trimtab > /dev/null 2>&1 || true
rm -rf /opt/trimtab /var/lib/trimtab /etc/trimtab
userdel trimtab 2> /dev/null || true
rpm --install --nodeps /tmp/package 2> /dev/null
{RUN}
rpm --query --licensefiles trimtab | grep -q licenses/trimtab/LICENSE
rpm --verify --nodeps trimtab
rpm --query --requires trimtab | grep -q /usr/bin/python3
touch /etc/trimtab/sites/scratch.toml /var/lib/trimtab/trimtab.db
rpm --erase trimtab 2> /dev/null
test ! -e /opt/trimtab
test ! -e /usr/bin/trimtab
test -f /etc/trimtab/sites/scratch.toml
test -f /var/lib/trimtab/trimtab.db
echo all was well
"""
    output = in_a_copy(tmp_path, packages["rpm"], script)
    assert "trimtab, version " in output
    assert output.endswith("all was well\n")
