"""Hypothesis strategies: any site that a file can describe."""

from __future__ import annotations

import re

from hypothesis import strategies as st

from trimtab.base.site import (
    Servers,
    Site,
    SiteDask,
    SiteLauncher,
    SiteLimits,
    SiteProbe,
    SiteStore,
    Ssh,
)
from trimtab.base.site_hardware import Hardware, Parity, parse_figure
from trimtab.base.site_policy import (
    AllocatorPolicy,
    BalancePolicy,
    Policies,
    TrimPolicy,
    TunablesPolicy,
    Window,
)

names = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,10}[a-z0-9])?", fullmatch=True)
# Surrogates are not UTF-8; control characters are refused everywhere but in the path.
texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20).filter(
    str.strip
)
words = texts.filter(lambda text: not re.search(r"\s", text) and not text.startswith("-"))
paths = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
durations = st.one_of(
    st.sampled_from([1.0, 30.0, 60.0, 90.0, 3600.0, 86400.0, 7 * 86400.0, 172800.0, 0.5]),
    st.floats(1e-6, 1e9),
)
schedules = st.sampled_from(
    ["every 1h", "every 15m at :05", "daily at 20:00", "weekly on sunday at 03:00", "*/5 * * * *"]
)
options = st.dictionaries(
    texts, st.text(st.characters(exclude_categories=["Cs", "Cc"])), max_size=3
)
optional_texts = st.none() | texts
hosts = st.from_regex(r"[a-z]{1,3}[0-9]{0,2}(\.x)?", fullmatch=True)
targets = st.builds(
    lambda kind, index: f"{kind}{index:04x}",
    st.sampled_from(["OST", "MDT"]),
    st.integers(0, 30) | st.integers(0, 0xFFFF),
)
ssh = st.builds(
    Ssh,
    command=st.lists(texts, min_size=1, max_size=3).map(tuple),
    user=st.none() | words,
    options=st.lists(texts.map(lambda text: f"-{text}"), max_size=3).map(tuple),
    fanout=st.integers(1, 4096),
)


@st.composite
def servers(draw: st.DrawFn) -> Servers:
    node_sets = st.lists(hosts, unique=True, max_size=4).map(tuple)
    oss, mds = draw(node_sets), draw(node_sets)
    home = {}
    if oss or mds:
        home = draw(st.dictionaries(targets, st.sampled_from((*oss, *mds)), max_size=8))
    return Servers(
        oss=oss,
        mds=mds,
        clients=draw(node_sets),
        # This host is one server.
        reach=draw(st.sampled_from(["ssh", "local"])) if len({*oss, *mds}) < 2 else "ssh",
        ssh=draw(ssh),
        sudo=draw(st.booleans()),
        python=draw(words),
        # Longer ones can make a snapshot too long: `checks` refuses that.
        timeout_s=float(draw(st.integers(1, 20))),
        home=home,
    )


command_words = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12).filter(
    lambda text: "{" not in text
)
directories = st.none() | texts.filter(lambda text: text[0] != "/" and ".." not in text)


@st.composite
def single(draw: st.DrawFn, name: str) -> SiteProbe:
    """A probe that is one command."""
    own = draw(st.booleans())
    kinds = ["mdtest"] if not own else ["auto", "fio", "io500", "mlperf-storage", "wrf", "mdtest"]
    words = draw(st.lists(command_words | st.just("{directory}/{tasks}"), max_size=3))
    return SiteProbe(
        name,
        benchmark=draw(st.sampled_from(kinds)),
        schedule=draw(st.none() | schedules),
        launcher=draw(st.sampled_from(["local", "mpi"])),
        tasks_per_node=draw(st.integers(1, 65_536)),
        repetitions=1 if own else draw(st.integers(1, 9)),
        timeout_s=draw(st.none() | durations),
        pending_s=draw(durations),
        drop_caches=draw(st.booleans()),
        directory=draw(directories),
        command=("/bin/x", *words) if own else None,
        output=draw(st.sampled_from([None, "a/**/*.json", "b"])) if own else None,
        items=1000 if own else draw(st.integers(1, 10**8)),
    )


@st.composite
def probes(draw: st.DrawFn, name: str, launchers: list[str]) -> SiteProbe:
    if draw(st.integers(0, 3)) == 0:
        return draw(single(name))
    transfer = 4096 * draw(st.integers(1, 4096))
    return SiteProbe(
        name,
        benchmark=draw(st.sampled_from(["auto", "ior", "fio", "builtin"])),
        schedule=draw(st.none() | schedules),
        launcher=draw(st.sampled_from(["local", "mpi", *launchers])),
        tasks_per_node=draw(st.none() | st.integers(1, 65_536)),
        transfer_size_bytes=transfer,
        block_size_bytes=transfer * draw(st.integers(1, 2**20)),
        repetitions=draw(st.integers(1, 10_000)),
        duration_s=draw(durations),
        timeout_s=draw(st.none() | durations),
        jitter_s=draw(st.just(0.0) | durations),
        direct=draw(st.booleans()),
        directory=draw(directories),
        pending_s=draw(durations),
        drop_caches=draw(st.booleans()),
    )


rates = st.none() | st.sampled_from(["3.2 GB/s", "1024 MiB/s", "400 Gb/s"]).map(parse_figure)
operations = st.none() | st.just("135 kIOPS").map(parse_figure)
counts = st.none() | st.integers(1, 10_000)
hardware = st.builds(
    Hardware,
    drive=st.none() | texts,
    drive_write=rates,
    drive_read=rates,
    drive_write_iops=operations,
    drive_read_iops=operations,
    drive_link=rates,
    drives_per_ost=counts,  # beside drives it could contradict it
    osts=counts,
    oss=counts,
    parity=st.none() | st.builds(Parity, st.integers(1, 99), st.integers(0, 9), st.integers(0, 9)),
    network=rates,
    client_network=rates,
)


windows = st.tuples(st.integers(0, 1439), st.integers(0, 1439)).filter(
    lambda ends: ends[0] != ends[1]
)
fractions = st.floats(0.001, 1.0)
policies = st.builds(
    Policies,
    tunables=st.builds(
        TunablesPolicy,
        settings=st.dictionaries(
            st.sampled_from(["wbt_lat_usec", "lod/qos_prio_free", "a*/b"]),
            st.sampled_from(["0", "100%", "4 8 16"]),
        ),
        permanent=st.just(()),
        worse=fractions,
        settle_s=durations,
    ),
    allocator=st.builds(AllocatorPolicy, every_s=durations, useless_loops=st.none() | fractions),
    trim=st.builds(
        TrimPolicy,
        every_s=durations,
        written=fractions,
        window=st.none() | windows.map(lambda ends: Window(*ends)),
        range_bytes=st.integers(1, 2**50),
        slower=st.none() | fractions,
        enclosures=st.just(()) | st.just((("oss01", "oss02"), ("oss3",))),
    ),
    balance=st.builds(
        BalancePolicy,
        most_closed=fractions,
        least_open=st.integers(1, 300),
        widest_stripe=st.integers(1, 2000),
        mechanism=st.sampled_from(["auto", "max_create_count", "no_create"]),
    ),
    stale_s=durations,
)


@st.composite
def sites(draw: st.DrawFn) -> Site:
    reopen, fullness = sorted(draw(st.tuples(*[st.floats(0.001, 1.0)] * 2)))
    fullness = fullness if fullness > reopen else 1.0
    launchers = [
        SiteLauncher(name, draw(st.sampled_from(["local", "mpi"])), draw(options))
        for name in draw(st.lists(names, unique=True, max_size=2))
        if name not in {"local", "mpi"}
    ]
    path = "/" + draw(paths)
    return Site(
        name=draw(names),
        driver=draw(st.sampled_from(["local", "lustre", "twin"])),
        path=path if ".." not in path else "/scratch",
        file_system=draw(optional_texts),
        timezone=draw(st.sampled_from(["UTC", "Europe/Berlin", "America/Los_Angeles"])),
        scenario=draw(optional_texts),
        servers=draw(servers()),
        limits=SiteLimits(
            fullness, min(reopen, fullness / 2), draw(st.floats(1e-6, 1.0)), draw(durations)
        ),
        snapshot_schedule=draw(st.none() | schedules),
        snapshot_jitter_s=draw(st.just(0.0) | durations),
        probes=tuple(
            draw(probes(name, [launcher.name for launcher in launchers]))
            for name in draw(st.lists(names, unique=True, max_size=3))
        ),
        launchers=tuple(launchers),
        store=SiteStore(draw(optional_texts), draw(optional_texts), draw(st.none() | durations)),
        policies=draw(policies),
        dask=SiteDask(draw(st.sampled_from([None, "local:4", "tcp://scheduler:8786"]))),
        hardware=draw(hardware),
    )
