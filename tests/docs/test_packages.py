"""The packages: built from this tree, installed into a copy of this host, run, and removed."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest
from tests.support import loopback

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
test "$(getent passwd trimtab | cut -d : -f 6)" = /var/lib/trimtab-user
test -d /etc/trimtab/sites
test ! -e /opt/trimtab/etc/clustershell
"""
CLEAN = """
dpkg --purge trimtab > /dev/null 2>&1 || true
rm -rf /opt/trimtab /var/lib/trimtab* /var/spool/trimtab /etc/trimtab
userdel trimtab 2> /dev/null || true
"""
"""What a host may have of an installation before."""
KEPT = """
test ! -e /opt/trimtab
test ! -e /usr/bin/trimtab
test -f /etc/trimtab/sites/scratch.toml
test -f /var/lib/trimtab/trimtab.db
"""
"""A removal leaves what a site wrote."""
LAYOUT = "".join(
    f'test "$(stat -c %U:%a {path})" = {user}:{int(mode, 8):o}\n'
    for kind, path, mode, user, *_ in map(
        str.split, (ROOT / "deploy/tmpfiles.d/trimtab.conf").read_text().splitlines()
    )
    if kind == "d"
)
"""Every directory is there, with its owner and mode."""
WALK = (
    IN_A_COPY.replace(
        "exec chroot", 'mkdir "$1/host/srv/tests"\nmount --bind "$4" "$1/host/srv/tests"\nchroot'
    )
    + """
cd "$1/upper"
echo made:
find . -not -type c -not -path './srv/*' -not -path './tmp/*' \\
    \\( -type f -o -type l -o -path '*trimtab*' \\) | cut -c 2-
"""
)
"""The same, with the tests in it; then what was made or changed there and still is is listed."""
CHANGED = re.compile(
    r"/etc/(?:passwd|shadow|group|gshadow|sub[ug]id)-?|/var/(?:lib/dpkg|log|cache)/.*|/etc/\.pwd\.lock|/run/.*"
)
"""What belongs to the host: its users, what dpkg knows, logs."""


def in_a_copy(
    tmp_path: Path,
    package: Path,
    script: str,
    *more: Path,
    timeout_s: float = 300,
    how: str = IN_A_COPY,
) -> str:
    """Run a script as root in a copy of this host that has the package; return what it printed."""
    copy = tmp_path / "copy"
    copy.mkdir(exist_ok=True)
    inside = ["unshare", "--mount", "--propagation", "slave", "sh", "-c", how, "sh"]
    words = [*inside, copy, package, script, *more]
    ended = subprocess.run(words, capture_output=True, text=True, check=False, timeout=timeout_s)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def wheel_of_this_tree(out: Path) -> Path:
    """Return a wheel with the modules of this tree and the extension that the tests use.

    What ``maturin build`` makes has the same files; here nothing is compiled.
    """
    metadata = distribution("trimtab")
    name = f"trimtab-{metadata.version}"
    tag = f"cp311-abi3-linux_{platform.machine()}"
    made = {"WHEEL": f"Wheel-Version: 1.0\nTag: {tag}\n"}
    made |= {file: metadata.read_text(file) or "" for file in ("METADATA", "entry_points.txt")}
    contents = {f"{name}.dist-info/{file}": text.encode() for file, text in made.items()}
    for file in sorted((ROOT / "src/trimtab").rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            contents[str(file.relative_to(ROOT / "src"))] = file.read_bytes()
    record = f"{name}.dist-info/RECORD"
    contents[record] = "".join(f"{path},,\n" for path in (*contents, record)).encode()
    wheel = out / f"{name}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, content in contents.items():
            archive.writestr(path, content)
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
    script = f"""{CLEAN}dpkg --install /tmp/package
{RUN}{LAYOUT}
systemd-analyze verify --man=no trimtab-watch@scratch.service trimtab-web.service
chown trimtab:trimtab /var/lib/trimtab /var/lib/trimtab/purge
dpkg --install /tmp/package
{LAYOUT}
touch /etc/trimtab/sites/scratch.toml /var/lib/trimtab/trimtab.db
dpkg --remove trimtab
{KEPT}
id trimtab > /dev/null
echo all was well
"""
    output = in_a_copy(tmp_path, packages["deb"], script)
    assert "trimtab, version " in output
    assert output.endswith("all was well\n")


def test_watch_purge_and_dashboard_work_together_and_nothing_stays(
    tmp_path: Path, packages: dict[str, Path]
) -> None:
    reason = loopback.why_no_loop_devices("ext4")
    if reason is not None:
        pytest.skip(reason)
    script = (
        CLEAN
        + """dpkg --install /tmp/package > /dev/null
export PATH=/srv/fake/bin:$PATH PYTHONPATH=/srv PYTHONDONTWRITEBYTECODE=1
mkdir /srv/scratch /srv/files /srv/metrics
truncate --size 64M /srv/image
mkfs.ext4 -q /srv/image
mount -o loop /srv/image /srv/files
trap 'umount /srv/files' EXIT
chmod 0755 /srv/files
rmdir /srv/files/lost+found
/opt/trimtab/bin/python -m tests.fake_lustre /srv/fake --like pair --mount /srv/scratch > /dev/null
chmod -R a+rwX /srv/fake
unset PYTHONPATH
/opt/trimtab/bin/python /srv/tests/docs/installed.py /srv/page
"""
    )
    script = script.replace("/srv/page", str(ROOT / "docs/install.md"))
    printed = in_a_copy(tmp_path, packages["deb"], script, ROOT / "tests", timeout_s=600, how=WALK)
    walked, _, made = printed.partition("made:\n")
    assert walked.endswith("removed: well\n")
    assert [path for path in made.splitlines() if CHANGED.fullmatch(path) is None] == []


def test_the_rpm_is_installed_run_and_removed(tmp_path: Path, packages: dict[str, Path]) -> None:
    """Debian's rpm knows nothing of the packages here: dependencies are not looked at."""
    script = f"""{CLEAN}rpm --install --nodeps /tmp/package 2> /dev/null
{RUN}{LAYOUT}
rpm --query --licensefiles trimtab | grep -q licenses/trimtab/LICENSE
rpm --verify --nodeps trimtab
rpm --query --requires trimtab | grep -q /usr/bin/python3
touch /etc/trimtab/sites/scratch.toml /var/lib/trimtab/trimtab.db
rpm --erase trimtab 2> /dev/null
{KEPT}
echo all was well
"""
    output = in_a_copy(tmp_path, packages["rpm"], script)
    assert "trimtab, version " in output
    assert output.endswith("all was well\n")
