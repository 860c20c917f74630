"""Build the packages of Trimtab: a .deb and a .rpm of one tree, ``/opt/trimtab``.

The tree is a virtual environment of the system's Python with the locked dependencies; it works with
the minor version of Python that it was built with. ``make packages`` builds the wheel first.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
UNITS: Final = (
    ROOT / "src/trimtab/watch/trimtab-watch@.service",
    ROOT / "deploy/trimtab-web.service",
)
LAYOUT: Final = ROOT / "deploy/tmpfiles.d/trimtab.conf"
PREFIX: Final = Path("opt/trimtab")
SUMMARY: Final = "Keeps an all-flash parallel file system fast and predictable"
DESCRIPTION: Final = (
    "It measures bandwidth and metadata rates on schedule, records them with the state of",
    "every target, judges them, explains changes, and acts: settings, trims, full targets.",
)
COMMANDS: Final = ("trimtab", "trimtab-ioload")
DEBIAN_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, slots=True)
class Release:
    """What is packaged.

    Attributes
    ----------
    python
        The system's interpreter, ``python3.11``.
    c_library
        The oldest glibc that the wheel runs with, ``2.28``.
    """

    version: str
    machine: str
    python: str
    c_library: str


def run(*words: object, **environment: str) -> None:
    """Run a program; it ends the build where it fails."""
    argv = [str(word) for word in words]
    ended = subprocess.run(
        argv, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    if ended.returncode != 0:
        raise SystemExit(f"{argv[0]} failed:\n{ended.stdout[-2000:]}{ended.stderr[-4000:]}")


def c_library(wheel: Path) -> str:
    """Return the glibc that a wheel is for: its tag's, or this host's, which it was built for."""
    tagged = re.search(r"manylinux_(\d+)_(\d+)_", wheel.name)
    return ".".join(tagged.groups()) if tagged else platform.libc_ver()[1]


def install_environment(tree: Path, wheel: Path, release: Release, uv: str) -> None:
    """Make the virtual environment of a tree, as it is where the tree is the root."""
    home = tree / PREFIX
    interpreter = shutil.which(release.python, path="/usr/bin:/usr/local/bin") or sys.executable
    run(interpreter, "-m", "venv", "--without-pip", home)
    python = home / "bin" / "python"
    locked = ("--require-hashes", "-r", ROOT / "requirements.lock")
    run(uv, "pip", "install", "--quiet", "--link-mode=copy", "--python", python, *locked)
    run(uv, "pip", "install", "--quiet", "--link-mode=copy", "--python", python, "--no-deps", wheel)
    for name in ("python", "python3", release.python):
        (home / "bin" / name).unlink(missing_ok=True)
    (home / "bin" / "python").symlink_to(f"/usr/bin/{release.python}")
    for script in (home / "bin").iterdir():
        if script.is_symlink() or not script.is_file():
            continue
        text = script.read_bytes()
        script.write_bytes(text.replace(str(home).encode(), f"/{PREFIX}".encode()))
        if script.name not in COMMANDS:
            script.unlink()
    (home / ".lock").unlink(missing_ok=True)
    # ClusterShell's examples, among them groups of hosts that are nobody's.
    shutil.rmtree(home / "etc/clustershell")
    for built_where in home.rglob("trimtab-*.dist-info/direct_url.json"):
        built_where.unlink()
    (home / "pyvenv.cfg").write_text("home = /usr/bin\ninclude-system-site-packages = false\n")
    library = home / "lib"
    for cache in library.rglob("__pycache__"):
        shutil.rmtree(cache)
    run(interpreter, "-m", "compileall", "-q", "-j", 0, "-s", tree, "-p", "/", library)


def staged(tree: Path, wheel: Path, release: Release, uv: str) -> None:
    """Fill a tree with everything that a package brings."""
    install_environment(tree, wheel, release, uv)
    links = tree / "usr/bin"
    links.mkdir(parents=True)
    for name in COMMANDS:
        (links / name).symlink_to(f"/{PREFIX}/bin/{name}")
    place(tree / "usr/lib/systemd/system", *UNITS)
    for kind in ("sysusers.d", "tmpfiles.d"):
        place(tree / "usr/lib" / kind, ROOT / "deploy" / kind / "trimtab.conf")
    run(sys.executable, ROOT / "scripts/shell_files.py", tree / "usr/share")
    place(tree / "usr/share/doc/trimtab", ROOT / "LICENSE", ROOT / "CHANGELOG.md")
    place(tree / "usr/share/licenses/trimtab", ROOT / "LICENSE")
    for examples in ("sudoers.d", "prometheus", "grafana", "nginx"):
        shutil.copytree(ROOT / "deploy" / examples, tree / "usr/share/trimtab" / examples)
    for directory, mode in directories_of_root():
        (tree / directory.lstrip("/")).mkdir(parents=True, exist_ok=True)
        (tree / directory.lstrip("/")).chmod(int(mode, 8))


def directories_of_root() -> list[tuple[str, str]]:
    """Return path and mode of every directory of the layout that is root's.

    That of the user is made by systemd-tmpfiles: while a package is unpacked there is no user yet.
    """
    lines = (line.split() for line in LAYOUT.read_text().splitlines() if line.startswith("d "))
    return [(path, mode) for _, path, mode, user, *_ in lines if user == "root"]


def place(directory: Path, *sources: Path) -> None:
    """Copy files into a directory, mode 0644."""
    directory.mkdir(parents=True, exist_ok=True)
    for source in sources:
        shutil.copyfile(source, directory / source.name)
        (directory / source.name).chmod(0o644)


def debian(tree: Path, out: Path, release: Release) -> Path:
    """Build the .deb of a tree."""
    control = tree / "DEBIAN"
    control.mkdir()
    minor = release.python.removeprefix("python")
    following = f"3.{int(minor.partition('.')[2]) + 1}"
    architecture = DEBIAN_ARCHITECTURES.get(release.machine, release.machine)
    size_kib = sum(file.lstat().st_size for file in tree.rglob("*") if file.is_file()) // 1024
    (control / "control").write_text(
        f"Package: trimtab\nVersion: {release.version}\nArchitecture: {architecture}\n"
        f"Maintainer: the Trimtab developers <root@localhost>\nSection: admin\nPriority: optional\n"
        f"Installed-Size: {size_kib}\n"
        f"Depends: python3 (>= {minor}), python3 (<< {following}), libc6 (>= {release.c_library}), "
        f"systemd | systemd-standalone-sysusers | systemd-sysusers\n"
        f"Recommends: openssh-client\nSuggests: fio\nDescription: {SUMMARY}\n"
        + "".join(f" {line}\n" for line in DESCRIPTION)
    )
    write_script(
        control / "postinst", f'{SHELL}if [ "$1" = configure ]; then\n{SET_UP}fi\n{RELOAD}'
    )
    write_script(control / "prerm", STOP_DEBIAN)
    write_script(control / "postrm", SHELL + RELOAD)
    package = out / f"trimtab_{release.version}_{architecture}.deb"
    run("dpkg-deb", "--build", "--root-owner-group", "-Zzstd", "-z3", tree, package)
    shutil.rmtree(control)
    return package


def rpm(tree: Path, out: Path, release: Release) -> Path:
    """Build the .rpm of a tree."""
    top = out / "rpmbuild"
    spec = top / "trimtab.spec"
    top.mkdir(parents=True, exist_ok=True)
    version, _, suffix = release.version.partition("-")
    spec.write_text(
        SPEC.format(
            version=version.replace("-", "~"),
            release=suffix or "1",
            summary=SUMMARY,
            description="\n".join(DESCRIPTION),
            python=f"/usr/bin/{release.python}",
            c_library=f"libc.so.6(GLIBC_{release.c_library})(64bit)",
            tree=tree,
            set_up=SET_UP,
            reload=RELOAD,
            stop=STOP_RPM,
            directories="\n".join(
                f"%dir %attr({mode},root,root) {path}" for path, mode in directories_of_root()
            ),
        )
    )
    run("rpmbuild", "-bb", "--define", f"_topdir {top}", spec, HOME=str(top))
    (built,) = (top / "RPMS").rglob("*.rpm")
    package = out / built.name
    built.replace(package)
    shutil.rmtree(top)
    return package


def write_script(path: Path, text: str) -> None:
    """Write a script that a package runs."""
    path.write_text(text)
    path.chmod(0o755)


SHELL: Final = "#!/bin/sh\nset -e\n"
SET_UP: Final = """if command -v systemd-sysusers >/dev/null; then systemd-sysusers trimtab.conf; fi
if command -v systemd-tmpfiles >/dev/null; then systemd-tmpfiles --create trimtab.conf || true; fi
"""
"""The user, and the place of the store; a host without systemd has no services either."""
RELOAD: Final = "if [ -d /run/systemd/system ]; then systemctl daemon-reload || true; fi\n"
_STOP: Final = """if [ -d /run/systemd/system ]; then
  systemctl stop 'trimtab-watch@*.service' trimtab-web.service || true
fi
"""
STOP_DEBIAN: Final = f'{SHELL}if [ "$1" = remove ]; then\n{_STOP}fi\n'
STOP_RPM: Final = f'if [ "$1" = 0 ]; then\n{_STOP}fi'
SPEC: Final = """%global __os_install_post %{{nil}}
%global debug_package %{{nil}}
%global _build_id_links none
%define _binary_payload w3.zstdio
AutoReqProv: no
Name: trimtab
Version: {version}
Release: {release}
Summary: {summary}
License: Apache-2.0
Requires: {python} {c_library}
%description
{description}
%install
mkdir -p %{{buildroot}}
cp -a {tree}/. %{{buildroot}}/
%post
{set_up}{reload}
%preun
{stop}
%postun
{reload}
%files
%defattr(-,root,root,-)
/opt/trimtab
/usr/bin/trimtab
/usr/bin/trimtab-ioload
/usr/lib/systemd/system/trimtab-watch@.service
/usr/lib/systemd/system/trimtab-web.service
/usr/lib/sysusers.d/trimtab.conf
/usr/lib/tmpfiles.d/trimtab.conf
/usr/share/doc/trimtab
%dir /usr/share/licenses/trimtab
%license /usr/share/licenses/trimtab/LICENSE
/usr/share/trimtab
/usr/share/man/man1/trimtab*
/usr/share/bash-completion/completions/trimtab
/usr/share/zsh/site-functions/_trimtab
/usr/share/fish/vendor_completions.d/trimtab.fish
%dir /usr/share/bash-completion
%dir /usr/share/bash-completion/completions
%dir /usr/share/zsh
%dir /usr/share/zsh/site-functions
%dir /usr/share/fish
%dir /usr/share/fish/vendor_completions.d
{directories}
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Build what is asked for and print the paths."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wheel", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=ROOT / "build/packages")
    parser.add_argument("--uv", default="uv")
    parser.add_argument("--kind", choices=("deb", "rpm"), action="append")
    options = parser.parse_args(arguments)
    version = options.wheel.name.split("-")[1]
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    release = Release(version, platform.machine(), python, c_library(options.wheel))
    options.out.mkdir(parents=True, exist_ok=True)
    tree = options.out / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir()
    staged(tree, options.wheel.resolve(), release, options.uv)
    build = {"deb": debian, "rpm": rpm}
    for kind in options.kind or build:
        print(build[kind](tree, options.out.resolve(), release))
    shutil.rmtree(tree)


if __name__ == "__main__":
    main()
