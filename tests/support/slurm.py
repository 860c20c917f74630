"""A real Slurm on loopback, for tests: controller, several nodes on this host, accounting, munge.

Everything stands in one new directory and listens on free ports of 127.0.0.1: the Slurm of the
machine, if it has one, is not touched, and test runs may go on side by side. All of it runs in the
foreground as children of the test and is ended by its process number.

::

    munged ── slurmctld ── slurmd n1 ... n6        partitions: main and brief (n1-n2), low and
                 └── slurmdbd ── mariadbd                    high (n3), lonely (n4), doomed (n5-n6)

Nodes are told apart by their ports (``slurmd -N``). Processes are followed by their parents and
memory is counted by Slurm itself, since control groups cannot be taken for granted; what is left
out is therefore what depends on them: binding to cores, and the kernel's own killing for memory.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

NODES = ("n1", "n2", "n3", "n4", "n5", "n6")
PROCESSORS_OF_A_NODE = 4
MEMORY_OF_A_NODE_MIB = 1000
_UP_WITHIN_S = 60.0
_PROGRAMS = (
    "munged",
    "slurmctld",
    "slurmd",
    "slurmdbd",
    "mariadbd",
    "mariadb-install-db",
    "mariadb",
)
_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"

_CONF = """\
ClusterName=tests
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ctld_port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={directory}/munge.socket
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={dbd_port}
AccountingStoragePass={directory}/munge.socket
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool-%n
TmpFS={directory}/tmp-%n
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd-%n.pid
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SchedulerParameters=batch_sched_delay=0,bf_interval=1,sched_min_interval=0
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
MpiDefault=none
ReturnToService=2
SlurmctldTimeout=10
SlurmdTimeout=4
KillWait=6
MinJobAge=300
NodeName=DEFAULT CPUs={processors} RealMemory={memory} State=UNKNOWN
{nodes}
PartitionName=DEFAULT MaxTime=60 DefMemPerNode=400 State=UP
PartitionName=main Nodes=n[1-2] Default=YES
PartitionName=brief Nodes=n[1-2] MaxTime=1
PartitionName=low Nodes=n3 PriorityTier=1 PreemptMode=CANCEL
PartitionName=high Nodes=n3 PriorityTier=10 PreemptMode=OFF
PartitionName=lonely Nodes=n4
PartitionName=doomed Nodes=n[5-6]
"""

_DBD_CONF = """\
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={dbd_port}
SlurmUser={user}
AuthType=auth/munge
AuthInfo=socket={directory}/munge.socket
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={mariadb_port}
StorageUser=slurm
StoragePass=slurm
PidFile={directory}/slurmdbd.pid
"""


def missing() -> str | None:
    """Return why there can be no Slurm here; ``None`` if there can."""
    lacking = [name for name in _PROGRAMS if shutil.which(name, path=_PATH) is None]
    lacking += [name for name in ("sbatch", "srun", "sacct") if shutil.which(name) is None]
    if lacking:
        return f"{', '.join(lacking)} (slurm-wlm, slurmdbd, munge, mariadb-server-core) are missing"
    return None if os.geteuid() == 0 else "a Slurm of several nodes on one host needs root here"


@dataclass
class Cluster:
    """A Slurm that runs.

    Attributes
    ----------
    directory
        Its configuration, state and logs.
    daemons
        Name (``slurmctld``, ``n1`` ...) to process.
    said
        By the last question that failed.
    """

    directory: Path
    user: str
    daemons: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    said: str = ""

    @property
    def conf(self) -> Path:
        """What ``SLURM_CONF`` is to name."""
        return self.directory / "slurm.conf"

    def ask(self, *argv: str) -> str:
        """Return what one of Slurm's commands prints; it has to succeed."""
        environment = {**os.environ, "SLURM_CONF": str(self.conf), "SLURM_TIME_FORMAT": "%s"}
        done = subprocess.run(
            argv,
            cwd=self.directory,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, f"{argv}: {done.stderr}{done.stdout}"
        return done.stdout

    def queue(self) -> list[str]:
        """Return id, state and name of all jobs that wait, run or are being ended.

        Jobs of the partition ``doomed`` are not among them: they are of tests that take long.
        """
        partitions = "--partition=main,brief,low,high,lonely"
        return self.ask("squeue", "--noheader", partitions, "--format=%i %T %j").splitlines()

    def steps(self) -> list[str]:
        """Return the steps of commands that run, of all jobs."""
        partitions = "--partition=main,brief,low,high,lonely"
        found = self.ask("squeue", "--noheader", "--steps", partitions, "--format=%i").split()
        return [step for step in found if step.rpartition(".")[2].isdigit()]

    def start(self, name: str) -> None:
        """Start one daemon by its name; from the main thread, with whose end it is killed."""
        argv = {
            "munged": ("munged", "--foreground", *self._munge_options()),
            "mariadbd": ("mariadbd", *self._mariadb_options()),
            "slurmdbd": ("slurmdbd", "-D"),
            "slurmctld": ("slurmctld", "-D", "-f", str(self.conf)),
        }.get(name, ("slurmd", "-D", "-N", name, "-f", str(self.conf)))
        program = shutil.which(argv[0], path=_PATH)
        assert program is not None
        with (self.directory / f"{name}.log").open("ab") as log:
            self.daemons[name] = subprocess.Popen(
                # A test run that is killed takes its daemons along.
                ("setpriv", "--pdeathsig=KILL", program, *argv[1:]),
                cwd=self.directory,
                env={**_plain_environment(), "SLURM_CONF": str(self.conf)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def stop(self, name: str, number: int = signal.SIGTERM) -> None:
        """End one daemon and collect it."""
        daemon = self.daemons.pop(name)
        daemon.send_signal(number)
        _collect(daemon)

    def wait(self, what: str, is_so: Callable[[], bool], within_s: float = _UP_WITHIN_S) -> None:
        """Wait for something; fail with the ends of the logs if it does not come."""
        end_s = time.monotonic() + within_s
        while not is_so():
            if time.monotonic() > end_s:
                logs = "\n".join(
                    f"--- {log.name}\n{log.read_text(errors='replace')[-1500:]}"
                    for log in sorted(self.directory.glob("*.log"))
                )
                pytest.fail(f"{what} did not come about in {within_s:g} s\n{self.said}\n{logs}")
            time.sleep(0.05)

    def answers(self, *argv: str) -> bool:
        """Return whether one of Slurm's commands succeeds."""
        try:
            self.ask(*argv)
        except (AssertionError, subprocess.TimeoutExpired) as error:
            self.said = str(error)
            return False
        return True

    def wait_idle(self, partitions: str = "main,low,lonely") -> None:
        """Wait until all nodes of these partitions can take a job."""

        def is_idle() -> bool:
            argv = ("sinfo", "--noheader", "--Node", f"--partition={partitions}", "--format=%T")
            return self.answers(*argv) and set(self.ask(*argv).split()) == {"idle"}

        self.wait("idle nodes", is_idle)

    def cancel_all(self) -> None:
        """Cancel all jobs outside the partition ``doomed``, and wait for their end."""
        for line in self.queue():
            self.ask("scancel", line.split()[0])
        self.wait("an empty queue", lambda: not self.queue())

    def _munge_options(self) -> tuple[str, ...]:
        names = {"key-file": "munge.key", "socket": "munge.socket", "pid-file": "munged.pid"}
        names |= {"log-file": "munged.own.log", "seed-file": "munge.seed"}
        return ("--force", *(f"--{key}={self.directory / name}" for key, name in names.items()))

    def _mariadb_options(self) -> tuple[str, ...]:
        return (
            "--no-defaults",
            f"--user={self.user}",
            f"--datadir={self.directory / 'mariadb'}",
            f"--socket={self.directory / 'mariadb.socket'}",
            f"--pid-file={self.directory / 'mariadbd.pid'}",
            f"--port={(self.directory / 'mariadb.port').read_text()}",
            "--bind-address=127.0.0.1",
            "--innodb-flush-log-at-trx-commit=0",
            "--innodb-buffer-pool-size=32M",
            "--skip-name-resolve",
        )


@contextmanager
def running() -> Iterator[Cluster]:
    """Yield a Slurm that answers, with idle nodes; afterwards nothing of it is left."""
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    with ExitStack() as stack:
        # Short and not below pytest's own directory: the path of a socket has 107 characters.
        directory = Path(tempfile.mkdtemp(prefix="trimtab-slurm-"))
        directory.chmod(0o755)  # munged insists that others can reach its socket
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        cluster = Cluster(directory, pwd.getpwuid(os.geteuid()).pw_name)
        _configure(cluster)
        stack.callback(_stop_all, cluster)
        _start_all(cluster)
        yield cluster


@pytest.fixture(scope="session")
def slurm_cluster() -> Iterator[Cluster]:
    """One real Slurm for all tests of a session."""
    with running() as cluster:
        yield cluster


@pytest.fixture
def slurm(slurm_cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """The real Slurm, as the one that Slurm's commands find; each test has to leave it empty."""
    monkeypatch.setenv("SLURM_CONF", str(slurm_cluster.conf))
    yield slurm_cluster
    left = [one for one in slurm_cluster.queue() if one.split()[1] != "COMPLETING"]
    slurm_cluster.cancel_all()
    slurm_cluster.wait_idle()
    assert not left, f"jobs are left: {left}"


def _configure(cluster: Cluster) -> None:
    directory = cluster.directory
    ctld_port, dbd_port, mariadb_port, *node_ports = _free_ports(3 + len(NODES))
    for name in ("state", *(f"{kind}-{node}" for kind in ("spool", "tmp") for node in NODES)):
        (directory / name).mkdir()
    host = socket.gethostname().partition(".")[0]
    here = f"NodeHostname={host} NodeAddr=127.0.0.1"
    values = {
        "host": host,
        "user": cluster.user,
        "directory": directory,
        "ctld_port": ctld_port,
        "dbd_port": dbd_port,
        "mariadb_port": mariadb_port,
        "processors": PROCESSORS_OF_A_NODE,
        "memory": MEMORY_OF_A_NODE_MIB,
        "nodes": "\n".join(
            f"NodeName={node} {here} Port={port}"
            for node, port in zip(NODES, node_ports, strict=True)
        ),
    }
    cluster.conf.write_text(_CONF.format(**values))
    (directory / "mariadb.port").write_text(str(mariadb_port))
    for name, content in (
        ("slurmdbd.conf", _DBD_CONF.format(**values).encode()),
        ("munge.key", os.urandom(64)),
    ):
        (directory / name).touch(mode=0o600)
        (directory / name).write_bytes(content)


def _start_all(cluster: Cluster) -> None:
    directory = cluster.directory
    cluster.start("munged")
    subprocess.run(
        (
            "mariadb-install-db",
            "--no-defaults",
            f"--user={cluster.user}",
            f"--datadir={directory / 'mariadb'}",
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
        ),
        check=True,
        capture_output=True,
        timeout=120,
    )
    cluster.start("mariadbd")
    grant = "GRANT ALL ON *.* TO 'slurm'@'127.0.0.1' IDENTIFIED BY 'slurm'"
    client = ("mariadb", "--no-defaults", f"--socket={directory / 'mariadb.socket'}", "-uroot")
    cluster.wait("MariaDB", lambda: cluster.answers(*client, "-e", grant))
    cluster.wait("munge", (directory / "munge.socket").exists)
    cluster.start("slurmdbd")
    add = ("sacctmgr", "--immediate", "add", "cluster", "tests")
    cluster.wait("slurmdbd", lambda: cluster.answers(*add))
    cluster.start("slurmctld")
    for node in NODES:
        cluster.start(node)
    cluster.wait_idle("main,low,lonely,doomed")


def _stop_all(cluster: Cluster) -> None:
    if "slurmctld" in cluster.daemons:
        cluster.answers("scancel", f"--user={cluster.user}")
    nodes = [cluster.daemons.pop(node) for node in NODES if node in cluster.daemons]
    for daemon in nodes:
        daemon.terminate()
    for daemon in nodes:
        _collect(daemon)
    for name in reversed(tuple(cluster.daemons)):
        cluster.stop(name)
    # A step's own daemon has left the session of its slurmd; it is known by its configuration.
    wanted = f"SLURM_CONF={cluster.conf}".encode()
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ProcessLookupError):
            if entry.name.isdigit() and wanted in (entry / "environ").read_bytes().split(b"\0"):
                os.kill(int(entry.name), signal.SIGKILL)


def _collect(daemon: subprocess.Popen[bytes]) -> None:
    try:
        daemon.wait(20)
    except subprocess.TimeoutExpired:
        daemon.kill()
        daemon.wait(20)


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def _plain_environment() -> dict[str, str]:
    """Return an environment that says nothing of the caller's own jobs."""
    kept = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR") if name in os.environ}
    return {**kept, "PATH": f"{os.environ.get('PATH', '')}:{_PATH}"}
