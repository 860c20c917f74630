"""Build everything that a release consists of, under ``build/release``: ``make release``.

========================  ==========================================================================
``trimtab-*.whl``         for Python 3.11 and later; linked by zig against glibc 2.28 (RHEL 8)
``trimtab-*.tar.gz``      the source, for those who build it themselves
``trimtab-wheelhouse-*``  the wheel with all that it needs, for hosts without internet
``*.deb``, ``*.rpm``      ``/opt/trimtab`` with everything (`packages`)
``package.py``            the recipe of Spack, for that wheelhouse
``trimtab.cdx.json``      what is in it, as CycloneDX: packages of Python and crates of Rust
``SHA256SUMS``            of all of them
========================  ==========================================================================

``deploy/container/Containerfile`` makes an image of this directory.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
MANYLINUX: Final = "manylinux_2_28"
"""The oldest C library that the wheel runs with: RHEL 8's, and what numpy's wheels need."""


def run(*words: object, **environment: str) -> None:
    """Run a program with its output shown; a failure ends the build."""
    argv = [str(word) for word in words]
    print("+", " ".join(argv), flush=True)
    subprocess.run(argv, env={**os.environ, **environment}, check=True, cwd=ROOT)


def build_wheel(out: Path, maturin: str) -> Path:
    """Build the wheel for the oldest C library that is supported."""
    options = ("--release", "--locked", "--zig", "--compatibility", MANYLINUX)
    # Else it asks the first python3 of the path for zig, which is another environment's.
    run(maturin, "build", *options, "--out", out, CARGO_ZIGBUILD_PYTHON_PATH=sys.executable)
    (wheel,) = out.glob("trimtab-*.whl")
    return wheel


def build_wheelhouse(out: Path, wheel: Path) -> Path:
    """Download what the wheel needs, for this minor version of Python and the same C library."""
    version, machine = wheel.name.split("-")[1], os.uname().machine
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    house = out / f"trimtab-wheelhouse-{version}-{tag}-{machine}"
    house.mkdir()
    names = [f"manylinux_2_{minor}" for minor in (28, 27, 26, 24, 17, 12, 5)]
    names += [f"manylinux{year}" for year in ("2014", "2010", "1")]
    platforms = [word for name in names for word in ("--platform", f"{name}_{machine}")]
    options = ("--quiet", "--require-hashes", "--only-binary=:all:", *platforms)
    lock = ROOT / "requirements.lock"
    run(sys.executable, "-m", "pip", "download", *options, "--dest", house, "--requirement", lock)
    shutil.copy(wheel, house)
    (house / "INSTALL").write_text(INSTALL)
    return house


INSTALL: Final = """In this directory, without internet:

    python3.11 -m venv /opt/trimtab
    /opt/trimtab/bin/pip install --no-index --find-links . 'trimtab[charts,metrics,postgresql,web]'
    rm -r /opt/trimtab/etc/clustershell  # examples of ClusterShell's, which Trimtab does not read
    ln -s /opt/trimtab/bin/trimtab /usr/local/bin/trimtab
"""


def bill_of_materials(wheel: Path, wheelhouse: Path) -> str:
    """Return what a release contains as CycloneDX 1.6, JSON.

    Packages of Python as they are in the wheelhouse, crates from ``Cargo.lock``, with their hashes.
    """
    from cyclonedx.model import HashAlgorithm, HashType  # pyrefly: ignore[missing-import]
    from cyclonedx.model.bom import Bom  # pyrefly: ignore[missing-import]
    from cyclonedx.model.component import Component, ComponentType  # pyrefly: ignore[missing-import]
    from cyclonedx.output.json import JsonV1Dot6  # pyrefly: ignore[missing-import]
    from cyclonedx.schema import SchemaVersion  # pyrefly: ignore[missing-import]
    from cyclonedx.validation.json import JsonStrictValidator  # pyrefly: ignore[missing-import]
    from packageurl import PackageURL  # pyrefly: ignore[missing-import]

    def part(kind: str, name: str, version: str, sha256: str) -> Component:
        url = PackageURL(kind, None, name, version)
        hashes = [HashType(alg=HashAlgorithm.SHA_256, content=sha256)]
        return Component(name=name, version=version, bom_ref=str(url), purl=url, hashes=hashes)

    parts: list[Component] = []
    for file in sorted(wheelhouse.glob("*.whl")):
        if file.name != wheel.name:
            name, version = file.name.split("-")[:2]
            parts.append(part("pypi", name.lower().replace("_", "-"), version, sha256_of(file)))
    for crate in tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]:
        if "source" in crate:  # the others are ours
            parts.append(part("cargo", crate["name"], crate["version"], crate["checksum"]))
    trimtab = Component(
        name="trimtab",
        version=wheel.name.split("-")[1],
        type=ComponentType.APPLICATION,
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=sha256_of(wheel))],
    )
    bom = Bom(components=parts)
    bom.metadata.component = trimtab
    bom.register_dependency(trimtab, parts)
    text = JsonV1Dot6(bom).output_as_string(indent=1)
    if problem := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        raise SystemExit(f"the bill of materials is not valid CycloneDX: {problem}")
    return text


def spack_recipe(wheelhouse: Path) -> str:
    """Return the recipe of Spack for a wheelhouse."""
    values = {
        "FILE": wheelhouse.name,
        "VERSION": wheelhouse.name.split("-")[2],
        "SHA256": sha256_of(wheelhouse),
        "PYTHON": f"{sys.version_info.major}.{sys.version_info.minor}",
    }
    text = (ROOT / "deploy/spack/package.py.in").read_text()
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text


def sha256_of(file: Path) -> str:
    """Return the hash of a file, in hexadecimal."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def checksums(directory: Path) -> str:
    """Return the lines of ``SHA256SUMS`` for the files of a directory."""
    files = sorted(file for file in directory.iterdir() if file.name != "SHA256SUMS")
    return "".join(f"{sha256_of(file)}  {file.name}\n" for file in files)


def main(arguments: Sequence[str] | None = None) -> None:
    """Build a release."""
    parser = argparse.ArgumentParser(description="Build a release.")
    parser.add_argument("--out", type=Path, default=ROOT / "build/release")
    parser.add_argument("--uv", default="uv")
    parser.add_argument("--python", default=sys.executable, help="one that has Trimtab")
    parser.add_argument("--wheel", type=Path, help="a wheel that is built already")
    options = parser.parse_args(arguments)
    # The packages are built last: what they lack would be said after half an hour.
    if missing := [tool for tool in ("dpkg-deb", "rpmbuild") if shutil.which(tool) is None]:
        raise SystemExit(f"missing: {', '.join(missing)} (Debian: apt-get install dpkg rpm)")
    out: Path = options.out.resolve()
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    maturin = str(Path(sys.executable).with_name("maturin"))
    wheel = Path(shutil.copy(options.wheel, out)) if options.wheel else build_wheel(out, maturin)
    run(maturin, "sdist", "--out", out)
    wheelhouse = build_wheelhouse(out, wheel)
    (out / "trimtab.cdx.json").write_text(bill_of_materials(wheel, wheelhouse) + "\n")
    with tarfile.open(out / f"{wheelhouse.name}.tar", "w") as tar:
        tar.add(wheelhouse, wheelhouse.name)
    shutil.rmtree(wheelhouse)
    (out / "package.py").write_text(spack_recipe(out / f"{wheelhouse.name}.tar"))
    packages = ROOT / "scripts/packages.py"
    run(options.python, packages, "--wheel", wheel, "--out", out, "--uv", options.uv)
    (out / "SHA256SUMS").write_text(checksums(out))
    print((out / "SHA256SUMS").read_text(), end="")


if __name__ == "__main__":
    main()
