"""What goes wrong at sites: each fault changes the hours, and some of them nobody can explain.

A fault without a cause is one whose mechanism no instrument of the site shows: the probe is slow
and telemetry as ever. A third of the incidents of a real site are of that sort.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.random import Generator

from .site import Array, Hours, stream

UNKNOWN_SHARE = 0.36
INNOCENT = (
    ("note", "monitoring agent updated on all servers"),
    ("note", "new user project quotas"),
    ("config-change", "login nodes got a security update"),
    ("config-change", "Slurm configuration: new partition for interactive jobs"),
    ("note", "ticket: user asks why ls is slow in one directory"),
    ("config-change", "log rotation changed on oss03"),
    ("note", "UPS test in the data centre, no effect"),
    ("config-change", "Grafana dashboards moved to another host"),
)


@dataclass
class Fault:
    """The truth of one fault.

    Attributes
    ----------
    cause
        Id as the program names it; ``None``: no instrument shows why.
    accepted
        Further ids that are true as well: what it rests on or brings about.
    begin, end
        Hours of the record; ``end`` exclusive.
    told
        Whether the record holds what tells of this cause.
    effect
        Metric to the median of with over without, in its hours, no noise.
    noticed_by
        Instruments that can see it beyond their noise.
    """

    cause: str | None
    variant: str
    begin: int
    end: int
    accepted: frozenset[str] = frozenset()
    told: bool = False
    targets: list[str] = field(default_factory=list)
    effect: dict[str, float] = field(default_factory=dict)
    noticed_by: list[str] = field(default_factory=list)


Apply = Callable[[Hours, Fault, Generator], None]


def _span(fault: Fault) -> slice:
    return slice(fault.begin, fault.end)


def _ramp(fault: Fault, to: float, hours: int) -> Array:
    """Return a factor that falls from 1 to ``to`` within so many hours and stays."""
    n = fault.end - fault.begin
    return 1 + (to - 1) * np.clip(np.arange(n) / max(hours, 1), 0, 1)


def _some(hours: Hours, rng: Generator, count: int) -> list[int]:
    return sorted(int(n) for n in rng.choice(hours.site.osts, min(count, hours.site.osts), False))


def _snapshots(hours: Hours, fault: Fault, *names: str) -> bool:
    """Return whether snapshots with these names lie on both sides of the beginning."""
    site = hours.site
    enough = site.snapshot_every_h and fault.end - fault.begin >= site.snapshot_every_h
    return bool(enough) and site.snapshots_from_h < fault.begin - 24 and not (
        set(names) & site.missing
    )  # fmt: skip


def _errors(hours: Hours, fault: Fault, share: float, least: float, most: float) -> bool:
    """Let the servers that lost network count errors at a share of the sites; return whether."""
    rng = stream(hours.site.seed, "errors", fault.begin)
    if rng.random() >= share:
        return False
    slow = hours.network[fault.begin] < 1 if (hours.network[fault.begin] < 1).any() else slice(None)
    hours.network_errors[_span(fault)][:, slow] += np.exp(rng.uniform(np.log(least), np.log(most)))
    return True


def _logged(hours: Hours, rng: Generator, share: float) -> bool:
    return hours.site.log == "kept" and rng.random() < share


def change(hours: Hours, fault: Fault, rng: Generator) -> None:
    """Change a setting: on the clients, where a snapshot may or may not look."""
    cost = rng.uniform(0.78, 0.92)
    span = _span(fault)
    hours.client_write[span] *= cost
    hours.client_read[span] *= 1 - (1 - cost) * rng.uniform(0.2, 1.0)
    if fault.variant == "checksums":
        hours.settings.append(
            ("client", fault.begin, fault.end, "checksums", "0" if hours.site.checksums else "1")
        )
        detail = "Lustre checksums setting changed on all clients"
    elif fault.variant == "client-version":
        hours.settings.append(("client", fault.begin, fault.end, "lustre_version", "2.15.6"))
        detail = "clients updated to Lustre 2.15.6"
    elif fault.variant == "rpcs":
        hours.settings.append(("client", fault.begin, fault.end, "osc/max_rpcs_in_flight", "1"))
        detail = "tuning of the Lustre clients changed by the configuration management"
    else:
        detail = str(
            rng.choice(
                (
                    "BIOS update on compute nodes (CPU mitigations)",
                    "compute node image rebuilt, kernel 5.14",
                    "SLES update on the compute nodes",
                )
            )
        )
    logged = _logged(hours, rng, 0.7)
    if logged:
        hours.write_down("config-change", fault.begin - rng.uniform(0.2, 10), detail)
    fault.told = logged or (fault.variant != "image" and _snapshots(hours, fault, "settings"))


def silent(hours: Hours, fault: Fault, rng: Generator) -> None:
    """Let one target all but stop."""
    (ost,) = _some(hours, rng, 1)
    span = _span(fault)
    fault.targets = [hours.site.ost(ost)]
    hours.write[span, ost] *= 0.012
    hours.read[span, ost] *= 0.012
    if fault.variant == "hangs":
        hours.hangs[span] = True
    if fault.variant == "lost":
        hours.parted[span, ost] = True
        hours.hangs[fault.begin : fault.begin + 3] = True
    hours.user_write[span, ost] *= 0.02
    hours.user_read[span, ost] *= 0.02
    if _logged(hours, rng, 0.6):
        hours.write_down(
            "target-failed",
            fault.begin + rng.uniform(2, 12),
            "OST does not answer",
            targets=fault.targets,
        )
        fault.told = True
    fault.told |= _snapshots(hours, fault, "bytes_written_total") or bool(
        hours.site.survey_every_h and fault.end - fault.begin > hours.site.survey_every_h
    )


def failover(hours: Hours, fault: Fault, rng: Generator) -> None:
    """Let a neighbour serve the targets of a server that is down."""
    site = hours.site
    server = int(rng.integers(site.servers))
    span = _span(fault)
    mine = [ost for ost in range(site.osts) if ost // 2 == server]
    partner = server ^ 1 if (server ^ 1) < site.servers else max(server - 1, 0)
    for ost in [*mine, *(ost for ost in range(site.osts) if ost // 2 == partner)]:
        hours.write[span, ost] *= 0.5
        hours.read[span, ost] *= 0.55
    hours.serving[span, mine] = partner
    hours.network_errors[fault.begin : fault.begin + 3] += 200.0
    hours.up[fault.begin : fault.begin + int(rng.integers(2, 12)), server] = False
    fault.targets = [site.ost(ost) for ost in mine]
    if _logged(hours, rng, 0.6):
        hours.write_down(
            "failover", fault.begin + rng.uniform(0, 2), f"{site.server(server)} failed over",
            until=site.at(min(fault.end, site.hours)), targets=fault.targets,
        )  # fmt: skip
        fault.told = True
    fault.told |= _snapshots(hours, fault)


def degraded(hours: Hours, fault: Fault, rng: Generator) -> None:
    """Let an array rebuild a drive."""
    (ost,) = _some(hours, rng, 1)
    span = _span(fault)
    hours.degraded[span, ost] = True
    hours.write[span, ost] *= rng.uniform(0.25, 0.6)
    hours.read[span, ost] *= rng.uniform(0.25, 0.6)
    fault.targets = [hours.site.ost(ost)]
    fault.told = _snapshots(hours, fault)
    if _logged(hours, rng, 0.5):
        hours.write_down("rebuild", fault.begin + 1, "drive replaced", targets=fault.targets)
        fault.told = True


def trim_overdue(hours: Hours, fault: Fault, rng: Generator) -> None:
    """Stop trimming: writes fall day by day."""
    span = _span(fault)
    hours.trim[span] = False
    ramp = _ramp(fault, rng.uniform(0.65, 0.85), int(rng.uniform(72, 240)))
    hours.write[span] *= ramp[:, None]
    hours.amplification[span] *= (1 / ramp)[:, None]
    hours.tail[span] /= ramp**3
    hours.user_write[span] *= 2.0
    if fault.end < hours.site.hours:
        hours.trim[fault.end] = True
    fault.accepted = frozenset({"garbage-collection"})
    fault.told = bool(hours.site.journal or _snapshots(hours, fault, "last_trim_at"))


def collecting(hours: Hours, fault: Fault, rng: Generator) -> None:
    """Let users overwrite in small pieces: drives collect garbage."""
    span = _span(fault)
    left = rng.uniform(0.5, 0.8)
    hours.write[span] *= left
    hours.amplification[span] *= 1 / left
    hours.tail[span] *= rng.uniform(5, 30)
    fault.told = _snapshots(hours, fault, "drive_write_amplification") or hours.site.second == "fio"


def throttling(hours: Hours, fault: Fault, rng: Generator) -> None:
    """Let the kernel's default of writeback throttling come back."""
    span = _span(fault)
    hours.throttled_s[span] = 0.002
    hours.write[span] *= rng.uniform(0.8, 0.93)
    fault.accepted = frozenset({"configuration-change"})
    fault.told = _snapshots(hours, fault)


def loops(hours: Hours, fault: Fault, rng: Generator) -> None:
    """Let the allocator search for nothing on a full file system."""
    site, span = hours.site, _span(fault)
    some = _some(hours, rng, max(2, int(site.osts * rng.uniform(0.3, 1.0))))
    hours.fullness[span] = np.clip(hours.fullness[span], 0.77, 0.9)
    hours.write[span][:, some] *= rng.uniform(0.35, 0.75)
    hours.loops[span][:, some] = rng.uniform(0.02, 0.2)
    hours.cpu[span] = np.clip(hours.cpu[span] + rng.uniform(0.2, 0.5), 0, 1)
    hours.thresholds[span] = 1
    fault.targets = [site.ost(ost) for ost in some]
    fault.accepted = frozenset({"targets-over-limit", "configuration-change"})
    fault.told = _snapshots(hours, fault, "allocator_useless_loops_total")


def over_limit(hours: Hours, fault: Fault, rng: Generator) -> None:
    """Let data grow past the limit until somebody purges."""
    site, span = hours.site, _span(fault)
    some = _some(hours, rng, max(2, int(site.osts * rng.uniform(0.3, 1.0))))
    goal, rise = rng.uniform(0.84, 0.95), int(rng.uniform(12, 72))
    ramp = np.clip(np.arange(fault.end - fault.begin) / rise, 0, 1)
    was = hours.fullness[fault.begin, some]
    hours.fullness[span, some] = was + (goal - was) * ramp[:, None]
    left = rng.uniform(0.55, 0.85)
    hours.write[span][:, some] *= (1 + (left - 1) * ramp)[:, None]
    hours.amplification[span][:, some] *= (1 + (1 / left - 1) * ramp)[:, None]
    fault.targets = [site.ost(ost) for ost in some]
    fault.accepted = frozenset({"garbage-collection"})
    fault.told = _snapshots(hours, fault)
    if fault.end < site.hours and _logged(hours, rng, 0.7):
        hours.write_down("purge", fault.end, "purge of files not used for 60 days")


def filling(hours: Hours, fault: Fault, rng: Generator) -> None:
    """Let one job fill one target."""
    (ost,) = _some(hours, rng, 1)
    span, rise = _span(fault), int(rng.uniform(3, 14))
    ramp = np.clip(np.arange(fault.end - fault.begin) / rise, 0, 1)
    was = hours.fullness[fault.begin, ost]
    hours.fullness[span, ost] = was + (rng.uniform(0.96, 0.99) - was) * ramp
    hours.write[span, ost] *= np.where(ramp >= 0.8, rng.uniform(0.03, 0.3), 0.6)
    hours.user_write[fault.begin : fault.begin + rise, ost] *= 20
    fault.targets = [hours.site.ost(ost)]
    fault.accepted = frozenset({"targets-over-limit"})
    fault.told = _snapshots(hours, fault)


def few_open(hours: Hours, fault: Fault, rng: Generator) -> None:
    """Close most targets, by hand or by a policy."""
    site, span = hours.site, _span(fault)
    closed = _some(hours, rng, site.osts - max(1, int(site.osts * rng.uniform(0.08, 0.3))))
    for ost in closed:
        hours.closed[span, ost] = True
    fault.targets = [site.ost(ost) for ost in closed]
    fault.told = _snapshots(hours, fault)
    if fault.variant == "policy":
        hours.fullness[span] = np.clip(hours.fullness[span], 0.76, 0.82)
        fault.accepted = frozenset({"targets-over-limit"})
        hours.write_down(
            "target-closed",
            fault.begin,
            "policy: over 75 % full",
            targets=fault.targets,
            source="policy",
        )
    elif _logged(hours, rng, 0.8):
        hours.write_down(
            "target-closed", fault.begin, "closed for maintenance", targets=fault.targets
        )
        fault.told = True


def competing(hours: Hours, fault: Fault, rng: Generator) -> None:
    """Let other jobs take most of it."""
    span, left = _span(fault), rng.uniform(0.3, 0.75)
    hours.client_write[span] *= left
    hours.client_read[span] *= left * rng.uniform(0.9, 1.2)
    hours.user_write[span] *= rng.uniform(15, 60)
    hours.user_read[span] *= rng.uniform(3, 60)
    hours.cpu[span] = np.clip(hours.cpu[span] + rng.uniform(0.2, 0.5), 0, 1)
    hours.jobs[span] += rng.integers(5, 80)
    _errors(hours, fault, 0.3, 20, 400)
    fault.told = _snapshots(hours, fault, "bytes_written_total")


def metadata_load(hours: Hours, fault: Fault, rng: Generator) -> None:
    """Let a storm of creates and stats hit one MDT."""
    span, mdt = _span(fault), int(rng.integers(hours.site.mdts))
    hours.operations[span, mdt] += rng.uniform(4e4, 1.2e5)
    hours.metadata[span, mdt] *= rng.uniform(0.1, 0.5)
    fault.told = _snapshots(hours, fault, "metadata_operations_total")


def network(hours: Hours, fault: Fault, rng: Generator) -> None:
    """Let links go down, everywhere or at one server."""
    site, span = hours.site, _span(fault)
    left = rng.uniform(0.25, 0.65)
    if fault.variant == "server":
        server = int(rng.integers(site.servers))
        hours.network[span, server] *= left
        for ost in range(2 * server, min(2 * server + 2, site.osts)):
            hours.user_write[span, ost] *= left
    else:
        hours.network[span] *= left
    tested = bool(site.network_every_h) and fault.end - fault.begin > 3 * site.network_every_h
    # LNet selftest prints the sum over all servers, within 2 %.
    fault.told = tested and (fault.variant != "server" or (1 - left) / site.servers >= 0.05)
    # A link that flaps counts errors, one that came up at half of its width does not.
    if _errors(hours, fault, 0.6, 100, 2e4):
        fault.told |= _snapshots(hours, fault, "network_errors_total")
    if _logged(hours, rng, 0.5):
        hours.write_down(
            "note", fault.begin + rng.uniform(1, 8), "fabric manager: links down on switch 3"
        )
        fault.told = True


def client_node(hours: Hours, fault: Fault, rng: Generator) -> None:
    """Let one node of the pool be slow: runs with it wait for it."""
    node = int(rng.integers(hours.site.pool))
    hours.node[_span(fault), node] *= rng.uniform(0.3, 0.7)
    fault.targets = []
    fault.told = hours.site.nodes < hours.site.pool


def launch(hours: Hours, fault: Fault, rng: Generator) -> None:
    """Let runs fail before they begin."""
    hours.launch[_span(fault)] = 1 + int(rng.random() < 0.5)
    fault.told = True


def mismatch(hours: Hours, fault: Fault, rng: Generator) -> None:
    """Let the probe run with fewer nodes, or move fewer bytes, than the site file asks for."""
    span = _span(fault)
    if fault.variant == "nodes" and hours.site.nodes >= 4:
        used = max(1, int(hours.site.nodes * rng.uniform(0.3, 0.7)))
        hours.nodes_used[span] = used
        hours.probe[span] *= used / hours.site.nodes
    else:
        fault.variant = "bytes"
        hours.bytes_share[span] = rng.uniform(0.01, 0.2)
        hours.probe[span] *= rng.uniform(0.4, 0.7)
    fault.told = True


def cached(hours: Hours, fault: Fault, rng: Generator) -> None:
    """Let reads come from the nodes' memory."""
    hours.cached[_span(fault)] = True
    fault.told = True


def bad_checksums(hours: Hours, fault: Fault, rng: Generator) -> None:
    """Let a server receive damaged transfers."""
    server = int(rng.integers(hours.site.servers))
    n = fault.end - fault.begin
    hours.bad_checksums[_span(fault), server] = rng.poisson(0.7, n) + (np.arange(n) == 0)
    fault.told = _snapshots(hours, fault, "checksum_errors_total")


def unexplained(hours: Hours, fault: Fault, rng: Generator) -> None:
    """Make the probe slow, and let telemetry show nothing of it."""
    span, n = _span(fault), fault.end - fault.begin
    left = rng.uniform(0.45, 0.88)
    match fault.variant:
        case "everything":
            hours.client_write[span] *= left
            hours.client_read[span] *= left * rng.uniform(0.95, 1.1)
            _errors(hours, fault, 0.1, 50, 500)
        case "writes":
            hours.client_write[span] *= left
        case "reads-drift":
            hours.client_read[span] *= _ramp(fault, left, n)
        case "one-target":
            (ost,) = _some(hours, rng, 1)
            hours.write[span, ost] *= rng.uniform(0.25, 0.6)
            hours.read[span, ost] *= rng.uniform(0.3, 0.7)
            fault.targets = [hours.site.ost(ost)]
        case "nightly":
            night = np.isin(np.arange(fault.begin, fault.end) % 24, (1, 2, 3, 4))
            hours.client_write[span] *= np.where(night, left, 1.0)
            hours.client_read[span] *= np.where(night, left, 1.0)
        case "hanging":
            hours.hangs[span] = rng.random(n) < 0.7
        case "metadata":
            hours.metadata[span] *= left * 0.7
        case _:
            hours.client_read[span] *= left


FORMS: dict[str | None, tuple[Apply, tuple[str, ...], tuple[float, float], float]] = {
    "configuration-change": (
        change,
        ("checksums", "client-version", "rpcs", "image"),
        (120, 2000),
        0.7,
    ),
    "target-silent": (silent, ("hangs", "crawls", "lost"), (6, 72), 0.05),
    "failover": (failover, ("plain",), (8, 120), 0.05),
    "array-degraded": (degraded, ("plain",), (12, 120), 0.05),
    "trim-overdue": (trim_overdue, ("plain",), (240, 800), 0.4),
    "garbage-collection": (collecting, ("plain",), (72, 400), 0.2),
    "writeback-throttling": (throttling, ("plain",), (120, 1500), 0.5),
    "allocator-loops": (loops, ("plain",), (72, 700), 0.3),
    "targets-over-limit": (over_limit, ("plain",), (96, 600), 0.2),
    "target-filling": (filling, ("plain",), (18, 120), 0.05),
    "few-targets-open": (few_open, ("policy", "operator"), (12, 160), 0.1),
    "competing-load": (competing, ("plain",), (3, 60), 0.0),
    "metadata-load": (metadata_load, ("plain",), (12, 120), 0.0),
    "network": (network, ("clients", "server"), (8, 200), 0.1),
    "client-node": (client_node, ("plain",), (48, 400), 0.1),
    "launch-failure": (launch, ("plain",), (5, 48), 0.0),
    "workload-mismatch": (mismatch, ("nodes", "bytes"), (48, 600), 0.3),
    "cached-read": (cached, ("plain",), (48, 400), 0.1),
    "bad-checksums": (bad_checksums, ("plain",), (6, 100), 0.0),
    None: (
        unexplained,
        (
            "everything",
            "writes",
            "reads-drift",
            "one-target",
            "one-target",
            "nightly",
            "hanging",
            "metadata",
            "reads",
        ),
        (5, 900),
        0.3,
    ),
}
"""Cause to how it acts, its variants, how many hours it lasts, and how often to the end."""


def draw_faults(hours: Hours, count: int) -> list[Fault]:
    """Put so many faults into the hours and return the truth about each."""
    site = hours.site
    rng = stream(site.seed, "faults")
    faults: list[Fault] = []
    known = [cause for cause in FORMS if cause is not None]
    for number in range(count):
        cause = None if rng.random() < UNKNOWN_SHARE else str(rng.choice(known))
        if cause == "trim-overdue" and (not site.trim_every_h or not site.flash):
            cause = "competing-load"
        if cause == "metadata-load" and site.second != "mdtest":
            cause = "competing-load"
        if cause == "client-node" and site.nodes >= site.pool:
            cause = "network"
        if cause == "throttling" and hours.throttled_s[0] > 0:
            cause = "failover"
        apply, variants, (least, most), lasting = FORMS[cause]
        variant = str(rng.choice(variants))
        part = site.hours / count
        begin = int(part * number + part * rng.uniform(0.25, 0.75))
        # Short and long alike, and now and then over half the record.
        length = int(np.exp(rng.uniform(np.log(least), np.log(most))))
        if rng.random() < lasting:
            length = site.hours
        length = max(length, 5 * site.probe_every_h)
        end = min(begin + length, site.hours if number == count - 1 else int(part * (number + 1)))
        fault = Fault(cause, variant, begin, end)
        before = hours.clean()
        targets = hours.write.copy()
        apply(hours, fault, stream(site.seed, "fault", number))
        _notice(hours, fault, before, targets)
        faults.append(fault)
    return faults


def _notice(hours: Hours, fault: Fault, before: dict[str, Array], targets: Array) -> None:
    """Write down what the fault costs, and which instruments can tell it from their noise."""
    site, span = hours.site, _span(fault)
    n = (fault.end - fault.begin) / site.probe_every_h
    for metric, now in hours.clean().items():
        ratio = now[span] / before[metric][span]
        share = float(np.mean(ratio < 0.97))
        effect = float(np.median(ratio[ratio < 0.97])) if share > 0.05 else 1.0
        runs = n * share
        if metric == "metadata":
            if site.second != "mdtest":
                continue
            runs = (fault.end - fault.begin) * share / site.second_every_h
        fault.effect[metric] = effect
        apart = -np.log(max(effect, 1e-6)) / max(site.sigma, 0.03)
        if (runs >= 4 and apart >= 5) or (runs >= 40 and apart >= 2 and effect < 0.95):
            fault.noticed_by.append(metric)
    ratio = (hours.write[span] / targets[span]).min(axis=1)
    if site.survey_every_h and (fault.end - fault.begin) >= 4 * site.survey_every_h:
        fault.effect["survey"] = float(np.median(ratio))
        if fault.effect["survey"] < 0.75 and not hours.parted[span].any():
            fault.noticed_by.append("survey")
    fault.noticed_by += _told_by_runs(hours, fault, n)


def _told_by_runs(hours: Hours, fault: Fault, runs: float) -> list[str]:
    """Return what shows a fault beside the level of a series: single runs, runs without figures."""
    told = {
        "some runs": fault.cause == "client-node" and runs >= 12,
        "runs": fault.cause in {"launch-failure", "cached-read", "workload-mismatch"} and runs >= 4,
        "unfinished runs": hours.hangs[_span(fault)].sum() / hours.site.probe_every_h >= 4,
        "checksums": fault.cause == "bad-checksums" and fault.told,
    }
    return [name for name, shown in told.items() if shown]
