"""Faults around the storage: users, network, clients, configuration, the probe itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from tests.incidents import physics
from tests.incidents.mechanism import Mechanism
from tests.incidents.system import MDTS, Conditions, State


@dataclass(slots=True)
class Change(Mechanism):
    """Somebody changed the configuration; it costs clients time, or placement its balance."""

    VARIANTS: ClassVar = ("checksums", "saferet", "lustre-version", "capacity-added")

    def prepare(self) -> None:
        details = {
            "checksums": ("config-change", "Lustre checksums turned on for all clients"),
            "saferet": ("config-change", "SafeRet BIOS and kernel update on compute nodes"),
            "lustre-version": ("config-change", "clients updated to Lustre 2.15.5"),
            "capacity-added": ("capacity-added", "new OSTs added, weighted placement on"),
        }
        kind, detail = details[self.variant]
        if self.variant == "capacity-added":
            self.where = np.arange(self.system.osts) >= self.system.base_osts
        # It is written down when it is done, up to an hour before a probe shows it.
        self.log(kind, self.start - self.rng.uniform(0.1, 0.9), detail)

    def act(self, now: Conditions, state: State) -> None:
        if not self.acts(now.hour):
            return
        once = 1 / physics.CLIENT_BYTES_PER_S
        if self.variant == "checksums":
            now.checksums = True
            now.client_cost_s_per_byte += physics.CHECKSUM_S_PER_BYTE
        elif self.variant == "saferet":
            now.texts["client_kernel"] = "5.14.21-150400.24.81_15.0.92-cray_shasta_c"
            now.client_cost_s_per_byte += once * (1 / (1 - physics.SAFERET_SHARE) - 1)
        elif self.variant == "lustre-version":
            # Assumed: updates have cost 8 to 20 % before.
            now.texts["client_lustre"] = "2.15.5"
            now.client_cost_s_per_byte += once * self.between(0.10, 0.25)
        else:
            now.exists = np.ones_like(now.exists)


@dataclass(slots=True)
class Competing(Mechanism):
    """Jobs of users take most of what the servers give."""

    VARIANTS: ClassVar = ("writers", "readers")

    def act(self, now: Conditions, state: State) -> None:
        if not self.acts(now.hour):
            return
        everywhere = np.ones_like(now.exists)
        streams = self.between(8.0, 25.0) * self.system.probe_streams
        if self.variant == "writers":
            now.use(everywhere, self.between(17e9, 22e9), 1e9, streams)
        else:
            now.use(everywhere, 0.5e9, self.between(23e9, 28e9), streams)
        now.jobs += round(self.between(15, 60))


@dataclass(slots=True)
class Metadata(Mechanism):
    """A storm of creates, opens or stats on one metadata target or on all."""

    VARIANTS: ClassVar = ("one", "all")
    storm: np.ndarray = field(default_factory=lambda: np.zeros(MDTS))

    def prepare(self) -> None:
        self.storm = np.zeros(MDTS)
        chosen = range(MDTS) if self.variant == "all" else [int(self.rng.integers(MDTS))]
        self.storm[list(chosen)] = self.between(70e3, 99e3)

    def act(self, now: Conditions, state: State) -> None:
        if self.acts(now.hour):
            now.metadata_ops_per_s = now.metadata_ops_per_s + self.storm
            now.metadata_streams = now.metadata_streams + (self.storm > 0) * 400.0
            now.jobs += 4


@dataclass(slots=True)
class Network(Mechanism):
    """The network between clients and servers carries less: everywhere, or at one server."""

    VARIANTS: ClassVar = ("clients", "server")
    server: int = 0

    def prepare(self) -> None:
        self.server = int(self.rng.integers(self.system.base_osts // 2))
        if self.variant == "server":
            self.where = self.system.home == self.server
        noticed = self.start + self.rng.uniform(3, 12)
        if noticed < self.end and self.rng.random() < 0.3:
            self.log("note", noticed, "fabric manager reports lanes down on one switch")

    def act(self, now: Conditions, state: State) -> None:
        if not self.acts(now.hour):
            return
        if self.variant == "clients":
            bound = self.system.site.bound_by == "clients"
            now.client_factor = now.client_factor * (
                self.between(0.75, 0.35) if bound else self.between(0.45, 0.25)
            )
        else:
            now.server_network[self.server] = self.between(0.08, 0.025)


@dataclass(slots=True)
class ClientNode(Mechanism):
    """One compute node is slow: every run that has it waits for it."""

    node: int = 0

    def prepare(self) -> None:
        self.node = int(self.rng.integers(len(self.system.clients)))

    def act(self, now: Conditions, state: State) -> None:
        if self.acts(now.hour):
            bound = self.system.site.bound_by == "clients"
            now.client_factor[self.node] *= (
                self.between(0.5, 0.1) if bound else self.between(0.3, 0.05)
            )


@dataclass(slots=True)
class Launch(Mechanism):
    """Jobs do not start, or die at once: names do not resolve, the batch system has trouble."""

    VARIANTS: ClassVar = ("names", "batch")

    def prepare(self) -> None:
        detail = (
            "DNS does not answer on the compute nodes"
            if self.variant == "names"
            else "the batch system does not start jobs"
        )
        self.log("launch-failure", self.start + 2, detail, until=self.end)

    def act(self, now: Conditions, state: State) -> None:
        if not self.acts(now.hour) or self.rng.random() > self.between(0.6, 1.0):
            return
        node = self.system.clients[int(self.rng.integers(len(self.system.clients)))]
        if self.variant == "names":
            now.launch = "failed" if self.rng.random() < 0.7 else "not_started"
            now.launch_problem = (
                f'srun: error: Unable to resolve "{node}": Host name lookup failure'
                if now.launch == "failed"
                else f"{node}: Temporary failure in name resolution"
            )
        else:
            now.launch = "not_started"
            now.launch_problem = "sbatch: error: Batch job submission failed: Connection timed out"


@dataclass(slots=True)
class Mismatch(Mechanism):
    """The probe no longer does what it should: 0.02 GiB instead of 1,536, as Edison's did."""

    def prepare(self) -> None:
        if self.rng.random() < 0.4:
            self.log("note", self.start - 0.5, "probe scripts moved to a new project directory")

    def act(self, now: Conditions, state: State) -> None:
        if self.acts(now.hour):
            now.workload_share = 0.02 / 1536 * self.between(10.0, 1.0)


@dataclass(slots=True)
class Cached(Mechanism):
    """Reads come from the clients' own memory: each node reads what it has just written."""

    def prepare(self) -> None:
        if self.rng.random() < 0.4:
            self.log("note", self.start - 0.5, "probe input changed: reordering of tasks left out")

    def act(self, now: Conditions, state: State) -> None:
        if self.acts(now.hour):
            now.cached = True


@dataclass(slots=True)
class BadChecksums(Mechanism):
    """Transfers arrive damaged now and then; checksums catch them."""

    server: int = 0

    def prepare(self) -> None:
        self.server = int(self.rng.integers(self.system.base_osts // 2))

    def act(self, now: Conditions, state: State) -> None:
        if self.acts(now.hour):
            # One transfer in 10^8 of 1 MiB is about one every hour or two on a busy server.
            per_hour = self.between(0.4, 4.0)
            first = now.hour == max(self.start, 0)
            now.bad_checksums[self.server] += self.rng.poisson(per_hour) + (1 if first else 0)
