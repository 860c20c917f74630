"""Install a fake Lustre to play with: ``python -m tests.fake_lustre DIRECTORY``."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from tests.fake_lustre.state import FakeLustre


def main() -> None:
    """Write the programs and print how they are used."""
    parser = argparse.ArgumentParser(prog="python -m tests.fake_lustre")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--like", choices=("small", "pair", "perlmutter"), default="pair")
    parser.add_argument("--mount", default="/scratch", help="what lfs df calls the mount")
    words = parser.parse_args()
    state: FakeLustre = getattr(FakeLustre, words.like)(mount=words.mount)
    installed = state.install(words.directory.resolve())
    servers = {
        role: [
            server.name
            for server in state.servers
            if any(one.kind == kind for one in state.served_by(server.name))
        ]
        for role, kind in (("mds", "MDT"), ("oss", "OST"))
    }
    print(f"export PATH={shlex.quote(str(installed.bin))}:$PATH")
    print("# in the site file:")
    print("[servers]")
    for role, names in servers.items():
        print(f'{role} = "{",".join(names)}"')
    print("[servers.ssh]")
    print(f'command = "{installed.ssh[0]}"')


if __name__ == "__main__":
    main()
