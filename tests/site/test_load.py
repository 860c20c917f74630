"""Reading site files: what is right is read, what is wrong is told with file, line and key."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.each import for_each

from trimtab.base.error import UsageError
from trimtab.base.site import Servers, Site, SiteLauncher, SiteLimits, SiteProbe, SiteStore, Ssh
from trimtab.base.site_policy import Policies, TrimPolicy, TunablesPolicy, Window
from trimtab.formats.format_table import TABLE
from trimtab.site import site_file
from trimtab.site.site_check import filled, places
from trimtab.site.site_file import parse_site

SITE = '[site]\nname = "scratch"\ndriver = "local"\npath = "/scratch"\n'
LUSTRE = SITE.replace("local", "lustre")


def refused(text: str) -> UsageError:
    with pytest.raises(UsageError) as caught:
        parse_site(text, "scratch.toml")
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 2000
    return caught.value


Case = tuple[str, str, str, str, str | None]
"""Text, end of the place in the file, table and key, code, part of the hint."""


def at_end(text: str, code: str, hint: str | None = None, *, head: str = SITE) -> Case:
    """Return the case of a mistake in the last line of a text: its table is the last one before."""
    lines = (head + text).split("\n")
    table = [line for line in lines if line.startswith("[")][-1]
    return head + text, f":{len(lines)}", f"{table} {lines[-1].partition(' =')[0]}", code, hint


def warned(text: str) -> str:
    return "; ".join(parse_site(text, "scratch.toml").warnings)


def test_three_keys_are_a_site() -> None:
    loaded = parse_site(SITE, "scratch.toml")
    assert loaded.site == Site("scratch", "local", "/scratch", source="scratch.toml")
    assert loaded.warnings == ()


def test_every_key_is_read() -> None:
    text = """
[site]
name = "scratch"
driver = "lustre"
path = "/scratch"
timezone = "Europe/Berlin"
file_system = "scr"

[servers]
oss = "oss[1-2]"
mds = "mds1"
clients = "login1"
reach = "ssh"
sudo = true
python = "/usr/libexec/platform-python"
timeout = "1m"
ssh = {command = "ssh -F /etc/trimtab/ssh_config", user = "me", options = ["-v"], fanout = 8}

[servers.home]
oss1 = "OST[0000,000a]"
mds1 = "MDT0000"

[limits]
fullness = "80%"
reopen = 0.7
cov = 0.1
window = "24h"

[snapshot]
schedule = "every 15m"
jitter = "30s"

[probe.hourly]
benchmark = "ior"
schedule = "every 1h at :20"
launcher = "ompi"
nodes = 1
tasks_per_node = 16
transfer_size = "4MiB"
block_size = "8GiB"
repetitions = 3
duration = "20s"
timeout = "5m"
jitter = "2m"
direct = false
directory = "trimtab/probes"
target_pinning = false
options = {}

[probe.asked]

[launcher.ompi]
kind = "mpi"
options = {map-by = "node", "-q" = "", tasks = 3}

[store]
url = "postgresql://host/trimtab"
raw = "/var/lib/trimtab/raw"
retention = "400d"

[policy]
stale = "5m"

[policy.trim]
armed = false
window = "22:00-04:30"
enclosures = ["oss[1-2]"]

[policy.tunables]
settings = {wbt_lat_usec = 0, "lod/qos_prio_free" = "100%"}
permanent = ["lod/qos_prio_free"]
"""
    loaded = parse_site(text, "scratch.toml")
    assert loaded.warnings == ()
    assert loaded.site == Site(
        name="scratch",
        driver="lustre",
        path="/scratch",
        source="scratch.toml",
        file_system="scr",
        timezone="Europe/Berlin",
        servers=Servers(
            oss=("oss1", "oss2"),
            mds=("mds1",),
            clients=("login1",),
            ssh=Ssh(("ssh", "-F", "/etc/trimtab/ssh_config"), "me", ("-v",), 8),
            sudo=True,
            python="/usr/libexec/platform-python",
            timeout_s=60.0,
            home={"OST0000": "oss1", "OST000a": "oss1", "MDT0000": "mds1"},
        ),
        limits=SiteLimits(0.8, 0.7, 0.1, 86400.0),
        snapshot_schedule="every 15m",
        snapshot_jitter_s=30.0,
        probes=(
            SiteProbe(
                "hourly",
                benchmark="ior",
                schedule="every 1h at :20",
                launcher="ompi",
                tasks_per_node=16,
                transfer_size_bytes=4 * 2**20,
                block_size_bytes=8 * 2**30,
                repetitions=3,
                duration_s=20.0,
                timeout_s=300.0,
                jitter_s=120.0,
                direct=False,
                directory="trimtab/probes",
            ),
            SiteProbe("asked"),
        ),
        launchers=(SiteLauncher("ompi", "mpi", {"map-by": "node", "-q": "", "tasks": "3"}),),
        store=SiteStore("postgresql://host/trimtab", "/var/lib/trimtab/raw", 400 * 86400.0),
        policies=Policies(
            tunables=TunablesPolicy(
                settings={"wbt_lat_usec": "0", "lod/qos_prio_free": "100%"},
                permanent=("lod/qos_prio_free",),
            ),
            trim=TrimPolicy(window=Window(22 * 60, 4 * 60 + 30), enclosures=(("oss1", "oss2"),)),
            stale_s=300.0,
        ),
    )
    values = tomllib.loads(text)
    for name in ("servers", "limits"):
        assert set(values[name]) == set(site_file.json_schema()["properties"][name]["properties"])


@for_each(
    "text, line, place, code, hint",
    [
        ("", "scratch.toml", "[site]", "missing-table", 'name = "scratch"'),
        ('[site]\nname = "a"\npath = "/"', ":1", "[site] driver", "missing-key", "lustre"),
        (SITE + "[sever]\n", ":5", "[sever]", "unknown-table", "'servers'"),
        ("fullness = 1\n" + SITE, ":1", "[fullness]", "unknown-table", None),
        at_end('[probe.a]\nshedule = ""', "unknown-key", "'schedule'"),
        at_end("[probe.a]\nfullness = 1", "unknown-key", "a key of [limits]"),
        at_end("[probe.options]\nx = 1", "unknown-key", "benchmark"),
        (SITE + "[servers]\nssh = {usr = 1}", ":6", "[servers] ssh usr", "unknown-key", "'user'"),
        at_end("[limits]\n\n# x\nfullness = 75", "out-of-range", '"75%"'),
        at_end('[servers]\noss = "a,b"\nreach = "local"', "servers-too-many", "ssh"),
        at_end("[dask]\nscheduler = 8786", "wrong-type"),
        at_end('[dask]\nscheduler = "scheduler:8786"', "scheduler-invalid", "tcp://HOST:8786"),
        at_end('[dask]\nscheduler = "tcp://scheduler"', "scheduler-invalid"),
        at_end('[dask]\nscheduler = "tcp://scheduler:0"', "scheduler-invalid"),
        at_end('[dask]\nscheduler = "tcp://a:1 tcp://b:1"', "scheduler-invalid"),
        at_end('[dask]\nscheduler = "local:0"', "scheduler-invalid", "local:4"),
        at_end('[dask]\nscheduler = "none"', "scheduler-invalid"),
        at_end('[dask]\nscheduler = "scheduler.json"', "scheduler-invalid", "absolute"),
        at_end("[dask]\nworkers = 4", "unknown-key"),
        at_end("[limits]\nfullness = 0", "out-of-range"),
        at_end("[limits]\nfullness = true", "wrong-type"),
        at_end("[limits]\nfullness = nan", "out-of-range"),
        at_end("[limits]\nreopen = 0.8", "limits-reversed"),
        (SITE + "[limits]\nfullness = 0.6", ":5", "[limits] reopen", "limits-reversed", None),
        at_end("[limits]\nwindow = 48", "wrong-type", '"48h"'),
        (SITE + '[limits]\nwindow = "48"\n[limits.x]\n', ":7", "[limits.x]", "unknown-key", None),
        at_end('[limits]\nwindow = "2 days"', "malformed-value", "48h"),
        at_end('[limits]\nwindow = "0s"', "out-of-range"),
        at_end('[limits]\nwindow = "99999999d"', "out-of-range"),
        at_end('[probe.a]\ntransfer_size = "1XB"', "malformed-value", "1MiB"),
        at_end('[probe.a]\ntransfer_size = "1KiB"', "size-unaligned", "4096"),
        at_end('[probe.a]\nblock_size = "1536KiB"', "size-unaligned"),
        at_end('[probe.a]\nblock_size = "0"', "out-of-range"),
        at_end('[probe.a]\nnodes = "3"', "wrong-type"),
        at_end("[probe.a]\nnodes = true", "wrong-type"),
        at_end("[probe.a]\nnodes = 0", "out-of-range"),
        at_end("[probe.a]\nnodes = 4", "nodes-too-many", "nodes = 1"),
        (
            LUSTRE + "[probe.a]\ntarget_pinning = true",
            "",
            "[probe.a] target_pinning",
            "pinning-unsupported",
            "ior or builtin",
        ),
        at_end(
            '[probe.a]\noptions = {fsync = 1, "-F" = ""}',
            "benchmark-missing",
            "set benchmark",
        ),
        at_end("[probe.a]\ndirect = 1", "wrong-type"),
        at_end('[probe.a]\nbenchmark = "iro"', "unknown-value", "'ior'"),
        at_end('[probe.a]\nlauncher = "srun"', "launcher-unknown", "local, mpi"),
        (
            SITE + '[probe.a]\nlauncher = "s"\n[launcher.s]\nkind = "ssh"',
            ":6",
            "[probe.a] launcher",
            "launcher-unsupported",
            "mpi",
        ),
        (
            SITE + '[probe.a]\nlauncher = "s"\n[launcher.s]\nkind = "slurm"',
            ":5",
            "[probe.a] tasks_per_node",
            "tasks-missing",
            "tasks_per_node",
        ),
        at_end(
            '[probe.a]\nbenchmark = "ior"\ntarget_pinning = true', "lustre-only", "leave it out"
        ),
        at_end('[launcher.mpi]\nkind = "ssh"', "launcher-kind", "another name"),
        (SITE + "[launcher.x]\n", ":5", "[launcher.x] kind", "missing-key", 'kind = "mpi"'),
        at_end('[probe.a]\nschedule = "hourly"', "malformed-value", "every 1h"),
        at_end('[probe.a]\nschedule = "0 0 30 2 *"', "malformed-value"),
        at_end('[probe.a]\ndirectory = "/x"', "path-outside-site", "relative"),
        at_end('[probe.a]\ndirectory = "a/../../x"', "path-outside-site"),
        at_end('[probe.a]\ndirectory = ""', "text-empty"),
        at_end("[probe.a]\noptions = {x = 1.5}", "wrong-type", "quotes"),
        at_end("[probe.a]\noptions = 3", "wrong-type"),
        at_end("[probe]\na = 3", "wrong-type"),
        (SITE + "[[probe]]\n", "", "[probe]", "wrong-type", None),
        (SITE + "[probe.A]\n", ":5", "[probe.A]", "name-invalid", "lower-case letters"),
        (SITE + '[probe."a\\u001b"]\n', ":5", '[probe."a\\x1b"]', "name-invalid", None),
        (SITE + "[probe.-a]\n", ":5", "[probe.-a]", "name-invalid", None),
        (
            SITE + '[policy.purge]\nschedule = "daily at 03:00"\ndirectory = "/d"',
            ":5",
            "[policy.purge] policy",
            "path-missing",
            "purge.toml",
        ),
        (
            SITE + '[policy.purge]\npolicy = "/p"\nschedule = "daily at 03:00"\ndirectory = "d"',
            ":8",
            "[policy.purge] directory",
            "path-missing",
            None,
        ),
        at_end("[policy.tunables]\narmed = true", "settings-missing", "wbt_lat_usec"),
        at_end('[policy.tunables]\nprobe = "x"', "probe-unknown", "[probe.NAME]"),
        (SITE + "[policy.gating]", ":5", "[policy.gating]", "unknown-key", None),
        (SITE.replace('"/scratch"', '"scratch"'), ":4", "[site] path", "path-relative", "mount"),
        (SITE.replace('"/scratch"', '"/a/../b"'), ":4", "[site] path", "path-with-dots", None),
        (SITE.replace('"/scratch"', '"/a\\u0000"'), ":4", "[site] path", "path-relative", None),
        (SITE.replace('"/scratch"', "3"), ":4", "[site] path", "wrong-type", "quotes"),
        (SITE.replace('"scratch"', '"../x"'), ":2", "[site] name", "name-invalid", None),
        at_end('timezone = "Berlin"', "malformed-value", "Europe/Berlin"),
        at_end('[servers]\noss = "oss[1-"', "malformed-value", "oss[01-08]", head=LUSTRE),
        at_end('[servers]\noss = ["a"]', "wrong-type", "oss[01-08]", head=LUSTRE),
        at_end('[servers]\noss = "-oProxyCommand=x"', "malformed-value", head=LUSTRE),
        at_end('[servers]\npython = "python3 -c x"', "malformed-value", head=LUSTRE),
        at_end('[servers]\nreach = "rsh"', "unknown-value", "'ssh'", head=LUSTRE),
        at_end('[servers.ssh]\nuser = "-oX"', "malformed-value", head=LUSTRE),
        at_end('[servers.ssh]\noptions = ["evil"]', "argument-malformed", "-oPort", head=LUSTRE),
        at_end("[servers.ssh]\nfanout = 0", "out-of-range", head=LUSTRE),
        at_end('[servers.ssh]\ncommand = "ssh \'"', "command-malformed", head=LUSTRE),
        at_end("[servers.ssh]\ncommand = []", "text-empty", head=LUSTRE),
        at_end('[servers.home]\na = "OST1"', "malformed-value", "OST[0000", head=LUSTRE),
        at_end(
            '[servers]\noss = "a"\n[servers.home]\n"b.x" = "OST0000"',
            "server-unknown",
            "servers: a",
            head=LUSTRE,
        ),
        at_end(
            '[servers]\noss = "a,b"\nhome = {a = "OST0000", b = "OST0000"}',
            "home-ambiguous",
            head=LUSTRE,
        ),
        at_end('[store]\nurl = "a\\nb"', "control-character"),
        at_end('[probe.a]\ncommand = "run me"', "wrong-type", '["pro'),
        at_end("[probe.a]\ncommand = []", "text-empty"),
        at_end('[probe.a]\ncommand = ["a", 1]', "wrong-type"),
        at_end('[probe.a]\ncommand = ["a\\n"]', "control-character"),
        at_end('[probe.a]\ncommand = ["./run"]', "program-invalid", "full path"),
        at_end('[probe.a]\ncommand = ["-x"]', "program-invalid", "PATH"),
        at_end(
            '[probe.a]\ncommand = ["run", "--to=${HOME}"]',
            "placeholder-unknown",
            "{directory}, {tasks}, {nodes}; no shell",
        ),
        (
            SITE + '[probe.a]\ncommand = ["run", "{tasks}"]',
            ":5",
            "[probe.a] tasks_per_node",
            "tasks-missing",
            "write",
        ),
        (
            SITE + '[probe.a]\nlauncher = "mpi"\ncommand = ["run"]',
            ":5",
            "[probe.a] tasks_per_node",
            "tasks-missing",
            "write tasks_per_node",
        ),
        at_end(
            '[probe.a]\ncommand = ["run"]\ntransfer_size = "4MiB"', "key-unused", "leave it out"
        ),
        at_end('[probe.a]\ncommand = ["run"]\nrepetitions = 3', "key-unused", "leave"),
        at_end('[probe.a]\ncommand = ["run"]\noptions = {z = ""}', "key-unused", "leave"),
        at_end('[probe.a]\ncommand = ["run"]\nitems = 3', "key-unused", "leave"),
        at_end('[probe.a]\nbenchmark = "mdtest"\nduration = "9s"', "key-unused"),
        at_end("[probe.a]\nitems = 3", "key-unused"),
        at_end('[probe.a]\noutput = "x"', "command-missing", "add command"),
        at_end('[probe.a]\nbenchmark = "io500"', "command-missing", "command = ["),
        (
            SITE + '[probe.a]\nbenchmark = "obdfilter-survey"\ncommand = ["run"]',
            ":6",
            "[probe.a] benchmark",
            "benchmark-on-servers",
            "trimtab survey",
        ),
        at_end('[probe.a]\ncommand = ["run"]\noutput = "../x"', "path-outside-site", "relative"),
        at_end('[probe.a]\ncommand = ["run"]\noutput = "/x"', "path-outside-site", "relative"),
        at_end('[probe.a]\ncommand = ["run"]\noutput = "a//x"', "path-outside-site"),
        at_end('[probe.a]\ncommand = ["run"]\noutput = "a**/x"', "pattern-invalid"),
        at_end(
            '[probe.a]\nbenchmark = "ior"\ncommand = ["run"]\ntarget_pinning = true',
            "pinning-unsupported",
            head=LUSTRE,
        ),
    ],
)
def test_a_mistake_is_told_with_its_place(
    text: str, line: str, place: str, code: str, hint: str | None
) -> None:
    error = refused(text)
    assert error.message.startswith(f"scratch.toml{line.removeprefix('scratch.toml')}")
    assert f": {place}: " in error.message
    assert error.code == code
    assert (hint or "") in (error.hint or "")


def test_many_mistakes_are_told_together() -> None:
    error = refused(SITE + "[limits]\nfull = 1\ncov = 7\n[probe.a]\nnode = 1\n")
    assert "scratch.toml:6: [limits] full: there is no such key (did you mean 'fullness'?)" in (
        error.message
    )
    assert "scratch.toml:7: [limits] cov" in error.message
    assert "scratch.toml:9: [probe.a] node: there is no such key" in error.message
    many = refused(SITE + "[limits]\n" + "\n".join(f"key{n} = 1" for n in range(400)))
    assert "and 395 more" in many.message


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[site]\nname = scratch\n", "scratch.toml:2:8: "),
        ("[site]\nname = 'a'\nname = 'b'\n", "scratch.toml:3:"),
        ('[site]\nname = "a', "scratch.toml:2"),
        ("[site\n", "scratch.toml:1:6: "),
        ("x = " + "[" * 100_000, "scratch.toml: "),
        ("x = " + "9" * 10_000, "scratch.toml: "),
        ("a\x00b = 1", "scratch.toml:1:2: "),
    ],
)
def test_what_is_not_toml_is_told_with_line_and_column(text: str, place: str) -> None:
    error = refused(text)
    assert error.message.startswith(place)
    assert "not TOML" in error.message


@given(st.text(max_size=200) | st.text("[]a.=\"'\n {},1", max_size=60))
def test_any_text_is_a_site_or_an_error(text: str) -> None:
    with pytest.raises(UsageError):
        parse_site(SITE + text + "\n[nowhere]", "x")


keys = st.sampled_from([*site_file.SCHEMA.root.entries, "servers", "home", "ssh", "a", "options"])
values = st.recursive(
    st.booleans() | st.floats() | st.text(max_size=10) | st.dates() | st.integers(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(keys, values, min_size=1, max_size=4))
def test_any_values_are_a_site_or_an_error(tables: dict) -> None:
    said, problems = site_file.SCHEMA.read(tables | {"nowhere": 1})
    assert ("nowhere",) in [problem.location for problem in problems]
    assert all(problem.message and problem.location and problem.code for problem in problems)
    assert isinstance(said, dict)


def test_warnings() -> None:
    def codes(text: str) -> list[str]:
        return [warning.code for warning in parse_site(text, "scratch.toml").warnings]

    assert "servers-missing" in codes(LUSTRE)
    assert "mds-missing" in codes(LUSTRE + '[servers]\noss = "a"')
    assert "oss-missing" in codes(LUSTRE + '[servers]\nmds = "a"')
    assert "key-unused" in codes(SITE + 'scenario = "x"')
    assert "key-unused" in codes(SITE + 'file_system = "x"')
    assert "launcher-unused" in codes(SITE + '[launcher.s]\nkind = "slurm"')
    pinned = LUSTRE + '[probe.a]\nbenchmark = "ior"\ntarget_pinning = true\n'
    assert "pinning-closed" not in codes(pinned)
    assert "pinning-closed" in codes(pinned + "[policy.balance]\narmed = true")
    late = '[probe.a]\nschedule = "every 2m"\nduration = "60s"'
    assert "slots-missed" in codes(SITE + late)
    assert "duration" in warned(SITE + late)
    assert codes(SITE + late.replace("60s", "50s")) == []
    slow = '[probe.a]\nschedule = "every 1h"\nrepetitions = 3\ntimeout = "10m"'
    assert "timeout: 3 x (write and read)" in warned(SITE + slow)
    assert codes(SITE + slow.replace("10m", "9m")) == []
    assert "timeout-short" in codes(SITE + '[probe.a]\ntimeout = "30s"')
    assert "jitter-long" in codes(SITE + '[probe.a]\nschedule = "every 1h"\njitter = "31m"')
    assert "jitter-long" in codes(SITE + '[snapshot]\nschedule = "every 1m"\njitter = "1m"')


def test_benchmarks_are_those_of_the_table() -> None:
    expected = {benchmark.name for benchmark in TABLE if benchmark.start != "import"}
    assert set(site_file.BENCHMARKS) == {"auto", *expected}
    # `SiteProbe` is of a layer below the table.
    for benchmark in TABLE:
        probe = SiteProbe("hourly", benchmark=benchmark.name)
        assert probe.is_one_command == (benchmark.start == "one command")


@pytest.mark.parametrize(
    "scheduler",
    ["local", "local:32", "tcp://scheduler:8786", "tls://10.0.0.1:8786", "tcp://[fe80::1]:65535",
     "/shared/me/dask/scheduler.json"],
)  # fmt: skip
def test_where_dask_is(scheduler: str) -> None:
    site = parse_site(f'{SITE}[dask]\nscheduler = "{scheduler}"', "scratch.toml").site
    assert site.dask.scheduler == scheduler
    assert parse_site(SITE, "scratch.toml").site.dask.scheduler is None


def test_defaults_of_the_schema_are_those_of_the_model() -> None:
    """A file that says every default is the site that says none."""
    properties = site_file.json_schema()["properties"]

    def defaults(table: dict) -> dict:
        fields = table["properties"].items()
        return {key: field["default"] for key, field in fields if "default" in field}

    names = ("site", "servers", "limits", "snapshot", "store", "hardware")
    tables = {name: defaults(properties[name]) for name in names}
    tables["site"] |= {"name": "scratch", "driver": "local", "path": "/scratch"}
    tables["servers"]["ssh"] = defaults(properties["servers"]["properties"]["ssh"])
    tables["probe"] = {"a": defaults(properties["probe"]["additionalProperties"])}
    said, problems = site_file.SCHEMA.read(tables)
    assert problems == []
    expected = Site("scratch", "local", "/scratch", probes=(SiteProbe("a"),))
    assert site_file.SCHEMA.build(said) == expected
    assert "null" not in str(site_file.json_schema())


def test_a_snapshot_that_could_take_longer_than_the_watchdog_waits_is_refused() -> None:
    servers = '[servers]\noss = "oss[001-157]"\nmds = "oss001"\ntimeout = "5m"\n'
    with pytest.raises(UsageError, match="a snapshot would take"):
        parse_site(LUSTRE + servers, "x")
    fine = '[servers]\noss = "oss[001-157]"\nmds = "oss001"\ntimeout = "20s"\n'
    assert parse_site(LUSTRE + fine, "x").site.servers.timeout_s == 20.0


PROBE_PAGE = Path(__file__).resolve().parents[2] / "docs" / "probe.md"


def test_a_command_is_read_word_by_word() -> None:
    text = """[probe.train]
benchmark = "mlperf-storage"
command = ["mlpstorage", "training", "--data-dir={directory}/data", "", '{"a": 1}']
output = "results/**/summary.json"
schedule = "every 6h"
timeout = "2h"
[probe.names]
benchmark = "mdtest"
items = 20
repetitions = 3
schedule = "every 1h"
"""
    loaded = parse_site(SITE + text, "scratch.toml")
    assert loaded.warnings == ()
    train, names = loaded.site.probes
    assert train == SiteProbe(
        "train",
        benchmark="mlperf-storage",
        command=("mlpstorage", "training", "--data-dir={directory}/data", "", '{"a": 1}'),
        output="results/**/summary.json",
        schedule="every 6h",
        timeout_s=7200.0,
    )
    assert (names.items, names.is_one_command, train.is_one_command) == (20, True, True)
    assert "slots will be missed" in warned(SITE + text.replace("2h", "7h"))


def test_places_are_filled_within_words_and_other_braces_stay() -> None:
    words = ["{directory}/{nodes}x{tasks}", "{{tasks}}", '{"a": {"b": 1}}', "{}", "${directory}"]
    values = {"directory": "/s/{tasks}", "tasks": "8", "nodes": "2"}
    assert filled(words, values) == (
        "/s/{tasks}/2x8",  # what is filled in is not looked at again
        "{tasks}",
        '{"a": {"b": 1}}',
        "{}",
        "$/s/{tasks}",
    )
    assert places(words) == ("directory", "nodes", "tasks")
    with pytest.raises(KeyError):
        filled(["{other}"], values)


def test_the_examples_of_the_page_on_probes_load() -> None:
    found = re.findall(r"```toml\n(.*?)```", PROBE_PAGE.read_text(), flags=re.DOTALL)
    loaded = [parse_site(SITE + text, "scratch.toml") for text in found]
    assert [one.site.probes[0].name for one in loaded] == ["names", "io500", "wrf"]
    assert all(one.warnings == () and one.site.probes[0].is_one_command for one in loaded)
