"""``python -m tests.live --site FILE --directory DIR``: see docs/maturity.md."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

from tests.live.cluster import Cluster, Mounted, servers_of
from tests.live.rows import CAPABILITIES
from tests.live.running import Results, run, table
from tests.live.subject import Subject

UNDERSTOOD = "--i-know-this-is-a-test-file-system"


def parser() -> argparse.ArgumentParser:
    """Return the options."""
    made = argparse.ArgumentParser(
        prog="make live",
        description="Check every capability of Trimtab on a Lustre that holds nothing of value: "
        "targets are stopped, filled and made read-only, servers are reset, files are deleted.",
    )
    made.add_argument(
        "--site", type=Path, help="site file, except with --list; its policies are not used"
    )
    made.add_argument(
        "--directory", type=Path, help="on that file system (default: live below its path)"
    )
    made.add_argument("--state", type=Path, default=Path("build/live"), help="on a local disk")
    made.add_argument("--minutes", type=float, default=60.0, help="of random work")
    made.add_argument("--only", action="append", metavar="CAPABILITY", choices=list(CAPABILITIES))
    made.add_argument("--again", action="store_true", help="also what has passed on this commit")
    made.add_argument("--list", action="store_true", help="print the table, run nothing")
    made.add_argument("--out", type=Path, help="also write what was seen, with versions, to a file")
    made.add_argument("--commit", help="what is tested, where this is no checkout")
    made.add_argument("--trimtab", default="trimtab", help="the command, with fixed arguments")
    made.add_argument("--ssh", default="ssh -oBatchMode=yes -lroot", help="to a server, as root")
    made.add_argument("--second-client", help="another client, for what needs two; also by --ssh")
    made.add_argument(UNDERSTOOD, action="store_true", dest="understood")
    return made


def main() -> int:
    """Run what did not pass yet; return 0 if every row that was to be run has passed."""
    words = parser().parse_args()
    chosen = [row for row in CAPABILITIES.values() if not words.only or row.name in words.only]
    if words.site is None:
        if words.list:
            print(table(chosen, {}))
            return 0
        print("error: --site is missing: the file of the site under test", file=sys.stderr)
        return 2
    if not (words.understood or words.list):
        print(
            f"error: this destroys what is on the file system of {words.site}\n"
            f"hint: on a test file system, give {UNDERSTOOD}",
            file=sys.stderr,
        )
        return 2
    if os.geteuid() != 0 and not words.list:
        print("error: only root can check what Trimtab does as root\nhint: sudo", file=sys.stderr)
        return 2
    words.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    state = words.state.resolve()
    site = tomllib.loads(words.site.read_text())
    commit = words.commit or commit_of_checkout()
    results = Results(state / "results.json", f"{commit} {site['site']['name']}")
    if words.again:
        for row in chosen:
            results.outcomes.pop(row.name, None)
    if not words.list:
        subject = subject_of(words, site, state)
        run(chosen, subject, results, lambda text: print(text, file=sys.stderr, flush=True))
        if words.out is not None:
            seen = {"commit": commit, **subject.cluster.versions(), "rows": results.as_rows()}
            words.out.write_text(json.dumps(seen, indent=1) + "\n")
    print(table(chosen, results.outcomes))
    return (
        0
        if all(row.name in results.outcomes and results.outcomes[row.name].passed for row in chosen)
        else 1
    )


def commit_of_checkout() -> str:
    """Return the commit that is checked out here, with a word where files differ from it."""
    words = ("git", "describe", "--always", "--abbrev=12", "--dirty")
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def subject_of(words: argparse.Namespace, site: dict, state: Path) -> Subject:
    """Return the site under test; where its targets are mounted is kept from the first run on."""
    path = Path(site["site"]["path"])
    servers = site["servers"]
    names = [*servers_of(servers.get("mds", "")), *servers_of(servers.get("oss", ""))]
    fsname = site["site"].get("file_system") or path.name
    cluster = Cluster(fsname, path, names, shlex.split(words.ssh))
    cluster.second_client = words.second_client
    home = state / "targets.json"
    if not home.exists():
        mounted = cluster.mounted().values()
        home.write_text(
            json.dumps([[one.name, one.server, one.device, one.point] for one in mounted])
        )
    cluster.home = {row[0]: Mounted(*row) for row in json.loads(home.read_text())}
    cluster.put_back()
    directory = words.directory or path / "live"
    directory.mkdir(exist_ok=True)
    subject = Subject(site, cluster, directory, state, shlex.split(words.trimtab), words.minutes)
    if not (state / "store.db").exists():
        cluster.forget_other_stores()
        subject.trimtab("snapshot", subject.site("plain"), code=None)  # makes the store
    return subject


if __name__ == "__main__":
    sys.exit(main())
