"""Each part of a release, as `make release` left it, installed and used: `make release-test`.

Without cargo, without a compiler, and without a network; but the source is compiled, and the image
is made of Debian's packages, which are fetched.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import types
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.docs.test_packages import RUN, in_a_copy

ROOT = Path(__file__).parents[2]
RELEASE = ROOT / "build/release"
SYSTEM = "/usr/sbin:/usr/bin:/sbin:/bin"
C_LIBRARY = (2, 28)
INSTALLED_MB_MAXIMUM = 350
pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not RELEASE.is_dir(), reason="make release was not run"),
]


def only(pattern: str) -> Path:
    (file,) = RELEASE.glob(pattern)
    return file


def run(*words: object, **how: Any) -> str:
    """Run a program that succeeds; return what it printed."""
    argv = [str(word) for word in words]
    ended = subprocess.run(argv, capture_output=True, text=True, check=False, **how)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def extracted(archive: Path, directory: Path) -> Path:
    """Extract an archive into a directory that is empty, and return its only entry."""
    with tarfile.open(archive) as tar:
        tar.extractall(directory, filter="data")
    (entry,) = directory.iterdir()
    return entry


def offline(*words: object, cwd: Path, path: str = SYSTEM, **environment: str) -> str:
    """Run a program in a network namespace of its own, which has no network."""
    variables = {"PATH": path, "HOME": str(cwd), "LC_ALL": "C.UTF-8", **environment}
    return run("unshare", "--net", *words, cwd=cwd, env=variables)


@pytest.fixture(scope="module")
def wheelhouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("wheelhouse")
    return extracted(only("trimtab-wheelhouse-*.tar"), directory)


def newest_c_library(directory: Path) -> tuple[int, ...]:
    """Return the newest glibc of which a program or library below a directory needs a symbol."""
    needed: set[tuple[int, ...]] = set()
    for file in directory.rglob("*"):
        if file.is_file() and not file.is_symlink():
            with file.open("rb") as stream:
                if stream.read(4) != b"\x7fELF":
                    continue
            shown = run("readelf", "--wide", "--version-info", file)
            named = re.findall(r"Name: GLIBC_([0-9.]+)", shown)
            needed |= {tuple(int(part) for part in version.split(".")) for version in named}
    return max(needed)


def environment_of(tmp_path: Path, wheelhouse: Path, *what: object) -> Path:
    """Return a new virtual environment with what pip installs from the wheelhouse alone."""
    home = tmp_path / "trimtab"
    subprocess.run([sys.executable, "-m", "venv", home], check=True)
    pip = (home / "bin/pip", "install", "--quiet", "--no-index", "--find-links", wheelhouse)
    offline(*pip, *what, cwd=tmp_path)
    return home


def used(tmp_path: Path, home: Path, *options: object) -> dict[str, object]:
    """Return what a check says that was run from an environment, without network."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    check = (home / "bin/trimtab", "check", scratch, "--no-probe", "--json")
    answer = json.loads(offline(*check, "--store", tmp_path / "t.db", *options, cwd=tmp_path))
    offline(home / "bin/trimtab", "status", "--store", tmp_path / "t.db", cwd=tmp_path)
    assert "--dir" in offline(home / "bin/trimtab-ioload", "--help", cwd=tmp_path)
    return answer


def test_the_sums_are_those_of_all_files() -> None:
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], check=True, cwd=RELEASE)
    named = {line.split()[1] for line in (RELEASE / "SHA256SUMS").read_text().splitlines()}
    assert named == {file.name for file in RELEASE.iterdir()} - {"SHA256SUMS"}


def test_the_wheel_needs_no_newer_c_library_than_rhel_8(tmp_path: Path) -> None:
    wheel = only("trimtab-*.whl")
    assert "-cp311-abi3-manylinux_2_28_" in wheel.name
    shown = run(ROOT / ".tools/release/bin/auditwheel", "show", wheel)
    tags = set(shown.replace('"', " ").split())
    assert tags & {f"manylinux_2_{minor}_{os.uname().machine}" for minor in (17, 24, 26, 27, 28)}
    zipfile.ZipFile(wheel).extractall(tmp_path)
    assert newest_c_library(tmp_path) <= C_LIBRARY


def test_the_wheel_alone_is_small_and_says_what_it_lacks(tmp_path: Path, wheelhouse: Path) -> None:
    home = environment_of(tmp_path, wheelhouse, only("trimtab-*.whl"))
    packages = next(home.glob("lib/python3*/site-packages"))
    ours = [file for file in packages.rglob("*") if file.is_file() and not file.is_symlink()]
    installers = ("pip", "setuptools", "_distutils_hack", "pkg_resources")
    size = sum(
        file.stat().st_size
        for file in ours
        if file.relative_to(packages).parts[0].split("-")[0] not in installers
    )
    assert size < INSTALLED_MB_MAXIMUM * 1e6
    answer = used(tmp_path, home)
    assert "charts-missing" in json.dumps(answer)


def test_the_wheelhouse_installs_everything_without_a_network(
    tmp_path: Path, wheelhouse: Path
) -> None:
    home = environment_of(tmp_path, wheelhouse, "trimtab[charts,metrics,postgresql,web]")
    assert newest_c_library(home) <= C_LIBRARY
    page = tmp_path / "page.html"
    used(tmp_path, home, "--out", page)
    assert "</html>" in page.read_text()
    offline(home / "bin/python", "-c", "import fastapi, psycopg, uvicorn, vl_convert", cwd=tmp_path)


def test_the_source_builds(tmp_path: Path) -> None:
    """Without link-time optimisation, beside what is compiled already."""
    source = extracted(only("trimtab-*.tar.gz"), tmp_path)
    maturin = ROOT / ".tools/release/bin/maturin"
    build = ["nice", "-n", "19", maturin, "build", "--release", "--locked", "--out", tmp_path]
    settings = {"CARGO_TARGET_DIR": str(ROOT / "target"), "CARGO_PROFILE_RELEASE_LTO": "off"}
    subprocess.run([*build, "--quiet"], check=True, cwd=source, env={**os.environ, **settings})
    assert list(tmp_path.glob("trimtab-*.whl"))


SHELL_FILES = (
    "man/man1/trimtab.1",
    "man/man1/trimtab-check.1",
    "bash-completion/completions/trimtab",
    "zsh/site-functions/_trimtab",
    "fish/vendor_completions.d/trimtab.fish",
    "trimtab/sudoers.d/trimtab",
    "trimtab/prometheus/trimtab.rules.yml",
    "trimtab/grafana/trimtab.json",
    "doc/trimtab/LICENSE",
)


@pytest.mark.parametrize(
    ("pattern", "install", "remove"),
    [
        ("*.deb", "dpkg --install", "dpkg --purge trimtab"),
        ("*.rpm", "rpm --install --nodeps", "rpm --erase trimtab"),
    ],
)
def test_packages_install_run_and_leave_nothing(
    tmp_path: Path, pattern: str, install: str, remove: str
) -> None:
    """What the package managers themselves write lies in `/var/lib` and `/var/log`."""
    files = " ".join(f"/usr/share/{name}" for name in SHELL_FILES)
    script = f"""
dpkg --purge trimtab > /dev/null 2>&1 || true
rm -rf /opt/trimtab /var/lib/trimtab /etc/trimtab
everything() {{ find /etc /opt /usr /var/lib/trimtab 2> /dev/null | sort; }}
everything > /tmp/before
{install} /tmp/package 2> /dev/null
{RUN}
for file in {files}; do test -s "$file" || {{ echo "$file is missing" >&2; exit 1; }}; done
{remove} > /dev/null 2>&1
everything > /tmp/after
comm -13 /tmp/before /tmp/after > /tmp/left
if test -s /tmp/left; then cat /tmp/left >&2; exit 1; fi
"""
    assert "trimtab, version " in in_a_copy(tmp_path, only(pattern), script, timeout_s=1500)


def test_packages_need_no_newer_c_library_than_they_say(tmp_path: Path) -> None:
    package = only("*.deb")
    subprocess.run(["dpkg-deb", "--extract", package, tmp_path], check=True)
    assert newest_c_library(tmp_path / "opt/trimtab") <= C_LIBRARY
    assert "libc6 (>= 2.28)" in run("dpkg-deb", "--field", package, "Depends")
    required = run("rpm", "--query", "--package", "--requires", only("*.rpm"))
    assert "libc.so.6(GLIBC_2.28)(64bit)" in required.split()


def test_the_bill_of_materials_has_every_locked_part() -> None:
    parts = json.loads((RELEASE / "trimtab.cdx.json").read_text())["components"]
    crates = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    expected = {f"pkg:cargo/{one['name']}@{one['version']}" for one in crates if "source" in one}
    urls = {part["purl"].replace("%2B", "+") for part in parts}
    assert expected <= urls
    assert {"pkg:pypi/polars", "pkg:pypi/numpy"} <= {url.partition("@")[0] for url in urls}
    assert all(part["hashes"] for part in parts)


def test_the_recipe_of_spack_installs_from_the_wheelhouse(
    tmp_path: Path, wheelhouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spack itself is not here: its functions that the recipe calls are."""
    directives: dict[str, tuple[object, dict[str, object]]] = {}

    def directive(name: str) -> object:
        return lambda value, **more: directives.__setitem__(name, (value, more))

    def executable(path: str) -> object:
        return lambda *words: offline(path, *words, cwd=wheelhouse)

    stub = types.ModuleType("spack.package")
    made = {"mkdirp": lambda path: Path(path).mkdir(parents=True), "symlink": os.symlink}
    made |= {name: directive(name) for name in ("depends_on", "license", "version")}
    vars(stub).update(made, Package=object, Executable=executable, join_path=os.path.join)
    monkeypatch.setitem(sys.modules, "spack", types.ModuleType("spack"))
    monkeypatch.setitem(sys.modules, "spack.package", stub)
    recipe: dict[str, Any] = {}
    exec(compile((RELEASE / "package.py").read_text(), "package.py", "exec"), recipe)

    name = only("trimtab-wheelhouse-*.tar").name
    (sums,) = (each for each in (RELEASE / "SHA256SUMS").read_text().splitlines() if name in each)
    assert directives["version"][1]["sha256"] == sums.split()[0]
    python = types.SimpleNamespace(command=executable(sys.executable))
    recipe["Trimtab"]().install({"python": python}, str(tmp_path / "prefix"))
    used(tmp_path, tmp_path / "prefix")
    assert not (tmp_path / "prefix/lib/trimtab/etc/clustershell").exists()


BUILDAH = """
set -- buildah --root "$1/storage" --runroot "$1/run" --storage-driver vfs
container=$("$@" from scratch)
"$@" add --quiet "$container" "$TAR" / > /dev/null
"$@" commit --quiet "$container" localhost/base > /dev/null
"$@" rm "$container" > /dev/null
"$@" build --quiet --isolation chroot --pull-never --build-arg BASE=localhost/base \
    --file "$FILE" --tag localhost/trimtab "$RELEASE" > /dev/null
container=$("$@" from --pull-never localhost/trimtab)
"$@" run --isolation chroot "$container" -- id -un
"$@" run --isolation chroot "$container" -- sh -c \
    'test ! -e /opt/trimtab/etc/clustershell && trimtab check /tmp --no-probe --json'
"$@" rm "$container" > /dev/null
"""
"""An image from a base of Debian's packages: no registry of images can be relied upon."""


@pytest.fixture
def image_store(tmp_path: Path) -> Iterator[Path]:
    """Return a directory for images, which are gigabytes: they go with the test."""
    store = tmp_path / "images"
    store.mkdir()
    yield store
    shutil.rmtree(store)


def test_the_container_file_makes_an_image_that_checks(image_store: Path) -> None:
    for tool in ("buildah", "mmdebstrap"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    base = image_store / "base.tar"
    subprocess.run(["mmdebstrap", "--quiet", "--variant=minbase", "bookworm", base], check=True)
    file = ROOT / "deploy/container/Containerfile"
    named = {"TAR": str(base), "FILE": str(file), "RELEASE": str(RELEASE)}
    printed = run("sh", "-ec", BUILDAH, "sh", image_store, env={**os.environ, **named})
    user, answer = printed.split("\n", 1)
    assert user == "trimtab"
    assert json.loads(answer)
