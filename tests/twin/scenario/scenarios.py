"""Hypothesis strategies: any scenario that a file can describe."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import get_args

from hypothesis import strategies as st

from trimtab.twin import scenario as model
from trimtab.twin.scenario_key import PRESETS

ZONES = ["UTC", "Europe/Zurich", "America/Los_Angeles", "Australia/Lord_Howe"]
names = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,10}[a-z0-9])?", fullmatch=True)
texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20).filter(
    str.strip
)
durations = st.sampled_from([60.0, 900.0, 3600.0, 86400.0, 604800.0]) | st.floats(1e-6, 1e9)
fractions = st.sampled_from([0.0, 0.25, 0.75, 1.0]) | st.floats(1e-6, 1.0)
inner = st.floats(1e-6, 1 - 1e-6)
rates = st.sampled_from([3.2e9, 50e9, 7 * 2**30]) | st.floats(1.5, 1e15)
sizes = st.integers(1, 2**50).map(float)
counts = st.integers(1, 5000)


drives = st.sampled_from([preset.model for preset in PRESETS.values()]) | st.builds(
    model.DriveModel,
    name=texts,
    capacity_bytes=st.integers(10**12, 2**47).map(float),
    read_bytes_per_s=rates,
    write_bytes_per_s=rates,
    read_iops=rates,
    write_iops=rates,
    spare=st.floats(0.05, 0.9),  # less may be less than a superblock
    drive_writes_per_day=st.floats(0.01, 10),
)


@st.composite
def raids(draw: st.DrawFn) -> model.Raid:
    kind = draw(st.sampled_from(get_args(model.RaidKind)))
    data = 1 if kind == "raid10" else draw(st.integers(1, 12))
    parity = 1 if kind == "raid10" else draw(st.integers(1, 3))
    spares = draw(st.integers(0, 3))
    more = draw(st.integers(0, 20))
    return model.Raid(
        kind=kind,
        drives=data + parity + spares + more,
        data=data,
        parity=parity,
        spares=spares,
        chunk_bytes=draw(st.integers(4096, 2**30)),
        shared=draw(st.integers(1, 4)),
    )


@st.composite
def all_osts(draw: st.DrawFn) -> model.Osts:
    osts = model.Osts(
        count=draw(counts),
        drive=draw(drives),
        raid=draw(raids()),
        per_server=draw(st.integers(1, 8)),
        link_bytes_per_s=draw(st.none() | rates),
    )
    part = draw(st.none() | st.floats(0.5, 0.99))
    capacity = None if part is None else float(int(part * model.drives_capacity_bytes(osts)))
    return model.Osts(
        osts.count, osts.drive, osts.raid, capacity, osts.per_server, osts.link_bytes_per_s
    )


@st.composite
def lifetimes(draw: st.DrawFn) -> tuple[model.Lifetime, ...]:
    edges = [0, *sorted(draw(st.lists(st.integers(1, 999), max_size=3, unique=True))), 1000]
    shares = [(after - before) / 1000 for before, after in pairwise(edges)]
    return tuple(model.Lifetime(share, draw(st.none() | durations)) for share in shares)


@st.composite
def all_users(draw: st.DrawFn) -> model.Users:
    return model.Users(
        count=draw(counts),
        fullness=draw(st.floats(0, 0.5).filter(lambda x: x == 0 or x > 1e-6)),
        daily_writes_bytes=draw(st.integers(0, 10**11).map(float)),
        daily_reads_bytes=draw(st.integers(0, 10**18).map(float)),
        fullness_spread=draw(fractions),
        lifetimes=draw(lifetimes()),
        size_median_bytes=draw(sizes),
        size_sigma=draw(st.floats(0.1, 10)),
        rhythm=draw(fractions),
        burstiness=draw(st.floats(0.1, 10)),
        reread_share=draw(fractions),
        skew=draw(st.floats(0.1, 10)),
        quota_bytes=draw(st.none() | sizes),
        quota_inodes=draw(st.none() | st.integers(0, 10**9).map(float)),
    )


@st.composite
def purges(draw: st.DrawFn) -> model.Purge:
    oldest = draw(durations)
    return model.Purge(
        enabled=draw(st.booleans()),
        target=draw(fractions),
        min_age_s=oldest,
        max_age_s=draw(st.none() | st.just(oldest * 2)),
        every_s=draw(durations),
        bytes_per_day=draw(st.none() | sizes),
    )


@st.composite
def gatings(draw: st.DrawFn) -> model.Gating:
    limit = draw(st.floats(0.1, 1))
    return model.Gating(
        enabled=draw(st.booleans()),
        limit=limit,
        reopen=limit / 2,
        most_closed=draw(st.none() | fractions),
    )


@st.composite
def probes(draw: st.DrawFn, name: str, start: datetime) -> model.ProbeLoad:
    since = draw(st.none() | moments(start, 86400.0))
    schedule = draw(st.sampled_from(["every 1h", "daily at 20:00", "30 2 * * mon-fri"]))
    timeout = draw(durations)
    transfer = draw(st.integers(1, 2**40))
    if draw(st.booleans()):
        return model.ProbeLoad(
            name, "obdfilter-survey", schedule, 0, 0, transfer, 0.0, timeout, since
        )
    written = 64 * transfer + draw(st.integers(0, 10**11).map(float))
    return model.ProbeLoad(name, "ior", schedule, 1, 64, transfer, written, timeout, since)


def moments(start: datetime, length_s: float) -> st.SearchStrategy[datetime]:
    """Return times within a scenario, in whole microseconds."""
    return st.integers(0, int(length_s * 1e6) - 1).map(
        lambda after: start + timedelta(microseconds=after)
    )


settings = st.fixed_dictionaries(
    {},
    optional={
        "trim.every": st.none() | durations,
        "allocator.reset": st.none() | durations,
        "allocator.c2": fractions,
        "clients.checksums": st.booleans(),
        "placement.kind": st.sampled_from(["round-robin", "weighted"]),
        "users.daily_writes": st.integers(0, 2**50).map(float),
        "gating.most_closed": st.none() | fractions,
    },
).filter(bool)


@st.composite
def faults(draw: st.DrawFn, start: datetime, length_s: float) -> model.Fault:
    kind = draw(st.sampled_from(get_args(model.FaultKind)))
    at = draw(moments(start, length_s))
    size = None
    if kind == "slow-drive":
        size = draw(inner)
    elif kind in ("filling", "burst"):
        size = draw(rates)
    return model.Fault(
        at=at,
        kind=kind,
        until=draw(st.none() | st.just(at + timedelta(hours=3))),
        osts=() if kind in ("name-service", "burst") else (0,),
        size=size,
        detail=draw(st.just("") | texts),
    )


@st.composite
def scenarios(draw: st.DrawFn) -> model.Scenario:
    """Return a scenario that is possible."""
    start = draw(st.datetimes(datetime(2000, 1, 1), datetime(2090, 1, 1))).replace(tzinfo=UTC)
    length = draw(st.sampled_from([86400.0, 30 * 86400.0]) | st.floats(86400, 1e8))
    osts = draw(all_osts())
    classes = draw(st.none() | st.integers(1, osts.count))
    change = st.builds(model.ScenarioChange, moments(start, length), settings, st.just("") | texts)
    changes = draw(st.lists(change, max_size=3))
    found = draw(st.lists(faults(start, length), max_size=3))
    labels = draw(st.lists(names, unique=True, max_size=2))
    return model.Scenario(
        name=draw(names),
        title=draw(texts),
        start=start,
        length_s=length,
        osts=osts,
        mdts=draw(st.builds(model.Mdts, counts, st.integers(0, 10**10).map(float), rates, rates)),
        server=draw(st.builds(model.Server, counts, rates)),
        clients=draw(st.builds(model.Clients, counts, rates, st.booleans(), st.booleans())),
        users=draw(all_users()),
        seed=draw(st.integers(0, 2**63 - 1)),
        timezone=draw(st.sampled_from(ZONES)),
        resolution=model.Resolution(
            classes, draw(st.integers(1, 4096)), 64, draw(st.floats(60, 3600))
        ),
        allocator=draw(
            st.builds(
                model.Allocator,
                st.sampled_from(["classic", "optimize-scan", "el9"]),
                *(fractions, fractions, fractions, st.none() | durations),
            )
        ),
        queue=draw(st.builds(model.Queue, st.booleans(), durations)),
        trim=draw(st.builds(model.Trim, st.none() | durations, st.booleans())),
        placement=draw(
            st.builds(
                model.Placement,
                st.sampled_from(["round-robin", "weighted"]),
                *(fractions, fractions, counts),
            )
        ),
        purge=draw(purges()),
        gating=draw(gatings()),
        probes=tuple(draw(probes(name, start)) for name in labels),
        changes=tuple(sorted(changes, key=lambda change: change.at)),
        faults=tuple(sorted(found, key=lambda fault: fault.at)),
        source=draw(texts),
        assumptions=draw(
            st.dictionaries(st.sampled_from(["users", "trim.every", "osts.raid"]), texts)
        ),
    )
