"""What one snapshot of a large site costs: 298 OSTs and 16 MDTs on 157 servers, 12 drives an OST.

The servers are prepared answers of the fake Lustre (``tests/fake_lustre``), handed out by a
stand-in for ssh that prints a file: what is measured is Trimtab, from the fan-out to the last
reading. A real ssh costs processor time besides, for each server the same whatever is asked.

Bound: each of some 100,000 collected values is looked up once, and some 27,000 readings are made of
them. The bound's own loop, timed beside it, parses the answers as JSON and does nothing else.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.measured import measured_at
from tests.fake_lustre.state import FakeLustre

from trimtab.base.site import Servers, Ssh
from trimtab.reach.lustre.lustre_driver import LustreDriver
from trimtab.reach.lustre.read_table import server_request
from trimtab.reach.lustre.server_answer import program
from trimtab.reach.lustre.server_query import SUDO
from trimtab.store.snapshot_batch import Base, frame_of

RESULTS = Path(__file__).with_name("results")
STAND_IN = """\
#!/bin/sh
while [ $# -gt 2 ]; do shift; done
cat >/dev/null
echo "$1" >>{directory}/asked
exec cat {directory}/answers/"$1"
"""


def prepare(
    directory: Path, fake: FakeLustre, request: Mapping[str, Any]
) -> tuple[FakeLustre, Servers]:
    """Write an answer for each server and the stand-in for ssh."""
    names = tuple(server.name for server in fake.servers)
    answers = fake.fan_out(names, ("python3",), timeout_s=20.0, stdin=program(request))
    (directory / "answers").mkdir()
    for name, answer in answers.items():
        (directory / "answers" / name).write_bytes(answer.stdout)
    ssh = directory / "ssh"
    ssh.write_text(STAND_IN.format(directory=directory))
    ssh.chmod(0o755)
    return fake, Servers(oss=names, ssh=Ssh((str(ssh),)), sudo=True)


def measure(fake: FakeLustre, servers: Servers) -> dict[str, float]:
    """Return what one snapshot took, in seconds of this process, of its children and of time."""
    driver = LustreDriver(fake.mount, fake.file_system, servers, execute=fake.execute)
    own, children = (resource.getrusage(who) for who in (0, resource.RUSAGE_CHILDREN))
    started_s = time.perf_counter()
    snapshot = driver.snapshot(datetime.now(UTC))
    elapsed_s = time.perf_counter() - started_s
    own_after, children_after = (resource.getrusage(who) for who in (0, resource.RUSAGE_CHILDREN))
    assert snapshot.complete
    before_s = time.process_time()
    Base.of(frame_of(snapshot))
    return {
        "cpu_s": _cpu(own_after) - _cpu(own),
        "stand_in_cpu_s": _cpu(children_after) - _cpu(children),
        "elapsed_s": elapsed_s,
        "encode_cpu_s": time.process_time() - before_s,
        "targets": len(snapshot.targets),
        "readings": sum(len(one.readings) for one in snapshot.targets),
    }


def bound(directory: Path) -> float:
    """Return the processor time of parsing every answer as JSON, in seconds."""
    texts = [path.read_bytes() for path in sorted((directory / "answers").iterdir())]
    before_s = time.process_time()
    for text in texts:
        json.loads(text)
    return time.process_time() - before_s


def _cpu(usage: resource.struct_rusage) -> float:
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    """Measure, print, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        request = server_request(deadline_s=Servers().timeout_s, sudo=SUDO)
        fake, servers = prepare(directory, FakeLustre.perlmutter(), request)
        measure(fake, servers)  # loads what is loaded once, and lets the fake make its answers
        (directory / "asked").unlink()
        found = []
        bounds = []
        for number in range(rounds):
            bounds.append(bound(directory))
            found.append(measure(fake, servers))
            print(f"{number + 1}: {found[-1]['cpu_s']:.2f} s, bound {bounds[-1]:.2f} s")
        asked = (directory / "asked").read_text().split()
        size = sum(path.stat().st_size for path in (directory / "answers").iterdir())
    result = {
        "what": "one snapshot of 298 OSTs and 16 MDTs on 157 servers, 3,768 drives",
        **measured_at(),
        "rounds": rounds,
        "connections_per_server_and_snapshot": len(asked) / rounds / len(set(asked)),
        "answers_bytes": size,
        "bound_json_cpu_s_median": statistics.median(bounds),
        **{
            f"{key}_median": statistics.median(one[key] for one in found)
            for key in ("cpu_s", "stand_in_cpu_s", "elapsed_s", "encode_cpu_s")
        },
        "cpu_s": [round(one["cpu_s"], 3) for one in found],
        "targets": found[0]["targets"],
        "readings": found[0]["readings"],
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / "snapshot_of_a_large_site.json"
    path.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
