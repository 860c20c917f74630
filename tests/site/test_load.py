"""Reading site files: what is right is read, what is wrong is told with file, line and key."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.each import for_each

from trimtab.errors import UsageError
from trimtab.measure.table import TABLE
from trimtab.model.site import (
    Servers,
    Site,
    SiteLauncher,
    SiteLimits,
    SiteProbe,
    SiteStore,
    Ssh,
)
from trimtab.site import load, schema
from trimtab.site.load import find_site, known_sites, load_site, parse_site
from trimtab.site.locate import key_lines, line_of

SITE = '[site]\nname = "scratch"\ndriver = "local"\npath = "/scratch"\n'
LUSTRE = SITE.replace("local", "lustre")


def refused(text: str) -> UsageError:
    with pytest.raises(UsageError) as caught:
        parse_site(text, "scratch.toml")
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 2000
    return caught.value


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

[policy.trim]
armed = false
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
        policies={"trim": False},
    )
    keys = {key for table in tomllib.loads(text).values() for key in table}
    assert keys >= set(schema.ServersTable.model_fields) | set(schema.LimitsTable.model_fields)


@for_each(
    "text, place, message, hint",
    [
        ("", "scratch.toml", "[site]: is missing", 'name = "scratch"'),
        ('[site]\nname = "a"\npath = "/"', ":1", "[site] driver: is missing", "lustre"),
        (SITE + "[sever]\n", ":5", "[sever]: there is no such table", "'servers'"),
        ("fullness = 1\n" + SITE, ":1", "[fullness]: there is no such table", None),
        (SITE + '[probe.a]\nshedule = ""', ":6", "[probe.a] shedule: there is", "'schedule'"),
        (SITE + "[probe.a]\nfullness = 1", ":6", "no such key", "a key of [limits]"),
        (SITE + "[probe.options]\nx = 1", ":6", "[probe.options] x: there is no", "benchmark"),
        (SITE + "[servers]\nssh = {usr = 1}", ":6", "[servers.ssh] usr: there is no", "'user'"),
        (SITE + "[limits]\n\n# x\nfullness = 75", ":8", "[limits] fullness: '75' is", '"75%"'),
        (
            SITE + '[servers]\noss = "a,b"\nreach = "local"',
            ":7",
            '[servers] reach: "local" is one server, this host; a, b are 2',
            "ssh",
        ),
        (SITE + "[limits]\nfullness = 0", ":6", "more than 0", None),
        (SITE + "[limits]\nfullness = true", ":6", "True is not a fraction", None),
        (SITE + "[limits]\nfullness = nan", ":6", "not a fraction", None),
        (SITE + "[limits]\nreopen = 0.8", ":6", "[limits] reopen: 80.0 % is not below", None),
        (SITE + "[limits]\nfullness = 0.6", ":5", "[limits] reopen: 70.0 % is not below", None),
        (SITE + "[limits]\nwindow = 48", ":6", "48 is not text", '"30m"'),
        (SITE + '[limits]\nwindow = "48"\n[limits.x]\n', ":7", "[limits] x: there is no", None),
        (SITE + '[limits]\nwindow = "2 days"', ":6", "'2 days' is not a duration", "48h"),
        (SITE + '[limits]\nwindow = "0s"', ":6", "more than 0", None),
        (SITE + '[limits]\nwindow = "99999999d"', ":6", "100 years", None),
        (SITE + '[probe.a]\ntransfer_size = "1XB"', ":6", "'1XB' is not a size", "1MiB"),
        (SITE + '[probe.a]\ntransfer_size = "1KiB"', ":6", "do not suit O_DIRECT", "4096"),
        (SITE + '[probe.a]\nblock_size = "1536KiB"', ":6", "not a multiple of the transfer", None),
        (SITE + '[probe.a]\nblock_size = "0"', ":6", "more than 0", None),
        (SITE + '[probe.a]\nnodes = "3"', ":6", "'3' is not a whole number", None),
        (SITE + "[probe.a]\nnodes = true", ":6", "True is not a whole number", None),
        (SITE + "[probe.a]\nnodes = 0", ":6", "0 is to be at least 1", None),
        (SITE + "[probe.a]\nnodes = 4", ":6", "kind slurm", "nodes = 1"),
        (
            LUSTRE + "[probe.a]\ntarget_pinning = true",
            "",
            "[probe.a] target_pinning: the files of auto cannot be placed one by one",
            "ior or builtin",
        ),
        (
            SITE + '[probe.a]\noptions = {fsync = 1, "-F" = ""}',
            ":6",
            "[probe.a] options: whose options these are is not said: fsync, -F",
            "name the benchmark",
        ),
        (SITE + "[probe.a]\ndirect = 1", ":6", "1 is neither true nor false", None),
        (SITE + '[probe.a]\nbenchmark = "iro"', ":6", "'iro' is not", "'ior'"),
        (SITE + '[probe.a]\nlauncher = "srun"', ":6", "there is no launcher 'srun'", "local, mpi"),
        (
            SITE + '[probe.a]\nlauncher = "s"\n[launcher.s]\nkind = "ssh"',
            ":6",
            "of kind 'ssh', which this version cannot start yet",
            "mpi",
        ),
        (
            SITE + '[probe.a]\nlauncher = "s"\n[launcher.s]\nkind = "slurm"',
            ":5",
            "how many tasks a compute node takes",
            "tasks_per_node",
        ),
        (
            SITE + '[probe.a]\nbenchmark = "ior"\ntarget_pinning = true',
            ":7",
            "only files on Lustre have a place",
            "leave it out",
        ),
        (SITE + '[launcher.mpi]\nkind = "ssh"', ":6", "launcher of that kind", "another name"),
        (SITE + "[launcher.x]\n", ":5", "[launcher.x] kind: is missing", 'kind = "mpi"'),
        (SITE + '[probe.a]\nschedule = "hourly"', ":6", "'hourly' is not a schedule", "every 1h"),
        (SITE + '[probe.a]\nschedule = "0 0 30 2 *"', ":6", "never comes", None),
        (SITE + '[probe.a]\ndirectory = "/x"', ":6", "not below the site's path", "relative"),
        (SITE + '[probe.a]\ndirectory = "a/../../x"', ":6", "not below", None),
        (SITE + '[probe.a]\ndirectory = ""', ":6", "it is empty", None),
        (SITE + "[probe.a]\noptions = {x = 1.5}", ":6", "neither text nor a whole", "quotes"),
        (SITE + "[probe.a]\noptions = 3", ":6", "is to be a table", None),
        (SITE + "[probe]\na = 3", ":6", "[probe.a]: is to be a table", None),
        (SITE + "[[probe]]\n", "", "[probe]: is to be a table", None),
        (SITE + "[probe.A]\n", ":5", "[probe.A]: 'A' is not a name", "small letters"),
        (SITE + '[probe."a\\u001b"]\n', ":5", "is not a name", None),
        (SITE + "[probe.-a]\n", ":5", "is not a name", None),
        (SITE + "[policy.trim]\narmed = true", ":6", "nothing can be armed", "armed = false"),
        (SITE.replace('"/scratch"', '"scratch"'), ":4", "not an absolute path", "mount"),
        (SITE.replace('"/scratch"', '"/a/../b"'), ":4", '".."', None),
        (SITE.replace('"/scratch"', '"/a\\u0000"'), ":4", "not an absolute path", None),
        (SITE.replace('"/scratch"', "3"), ":4", "3 is not text", "quotes"),
        (SITE.replace('"scratch"', '"../x"'), ":2", "[site] name: '../x' is not a name", None),
        (SITE + 'timezone = "Berlin"', ":5", "time zone 'Berlin' is not known", "Europe/Berlin"),
        (LUSTRE + '[servers]\noss = "oss[1-"', ":6", "is not a node set", "oss[01-08]"),
        (LUSTRE + '[servers]\noss = ["a"]', ":6", "['a'] is not text", "oss[01-08]"),
        (LUSTRE + '[servers]\noss = "-oProxyCommand=x"', ":6", "not the name of a host", None),
        (LUSTRE + '[servers]\npython = "python3 -c x"', ":6", "is to be one word", None),
        (LUSTRE + '[servers]\nreach = "rsh"', ":6", '\'rsh\' is not "ssh" or "local"', "'ssh'"),
        (LUSTRE + '[servers.ssh]\nuser = "-oX"', ":6", "[servers.ssh] user", None),
        (LUSTRE + '[servers.ssh]\noptions = ["evil"]', ":6", "would take it for a host", "-oPort"),
        (LUSTRE + "[servers.ssh]\nfanout = 0", ":6", "at least 1", None),
        (LUSTRE + '[servers.ssh]\ncommand = "ssh \'"', ":6", "is not a command", None),
        (LUSTRE + "[servers.ssh]\ncommand = []", ":6", "no words", None),
        (
            LUSTRE + '[servers.home]\na = "OST1"',
            ":6",
            "[servers.home] a: 'OST1' is not",
            "OST[0000",
        ),
        (
            LUSTRE + '[servers]\noss = "a"\n[servers.home]\n"b.x" = "OST0000"',
            ":8",
            "[servers.home] \"b.x\": 'b.x', home of OST0000, is no server",
            "servers: a",
        ),
        (
            LUSTRE + '[servers]\noss = "a,b"\nhome = {a = "OST0000", b = "OST0000"}',
            ":7",
            "OST0000 is at home on a and on b",
            None,
        ),
        (SITE + '[store]\nurl = "a\\nb"', ":6", "control character", None),
    ],
)
def test_a_mistake_is_told_with_its_place(
    text: str, place: str, message: str, hint: str | None
) -> None:
    error = refused(text)
    assert error.message.startswith(f"scratch.toml{place.removeprefix('scratch.toml')}")
    assert message in error.message
    if hint is not None:
        assert hint in (error.hint or "")


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


keys = st.sampled_from([*schema.SiteFile.model_fields, "servers", "home", "ssh", "a", "options"])
values = st.recursive(
    st.booleans() | st.floats() | st.text(max_size=10) | st.dates() | st.integers(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(keys, values, min_size=1, max_size=4))
def test_any_values_are_a_site_or_an_error(tables: dict) -> None:
    from pydantic import ValidationError

    tables = tables | {"nowhere": 1}
    with pytest.raises(ValidationError) as caught:
        schema.SiteFile.model_validate(tables)
    for error in caught.value.errors(include_url=False):
        problem = load._problem(error)
        assert problem.message
        assert problem.location


def test_warnings() -> None:
    assert "names none" in warned(LUSTRE)
    assert "has no mds" in warned(LUSTRE + '[servers]\noss = "a"')
    assert "has no oss" in warned(LUSTRE + '[servers]\nmds = "a"')
    assert "scenario is not used" in warned(SITE + 'scenario = "x"')
    assert "file_system is not used" in warned(SITE + 'file_system = "x"')
    assert "used by no probe" in warned(SITE + '[launcher.s]\nkind = "slurm"')
    late = '[probe.a]\nschedule = "every 2m"\nduration = "60s"'
    assert "duration" in warned(SITE + late)
    assert "slots will be missed" in warned(SITE + late)
    assert warned(SITE + late.replace("60s", "50s")) == ""
    slow = '[probe.a]\nschedule = "every 1h"\nrepetitions = 3\ntimeout = "10m"'
    assert "timeout: 3 x (write and read)" in warned(SITE + slow)
    assert warned(SITE + slow.replace("10m", "9m")) == ""
    assert "unfinished" in warned(SITE + '[probe.a]\ntimeout = "30s"')
    assert "jitter" in warned(SITE + '[probe.a]\nschedule = "every 1h"\njitter = "31m"')
    assert "[snapshot] jitter" in warned(SITE + '[snapshot]\nschedule = "every 1m"\njitter = "1m"')


def test_lines_are_found_whatever_the_writing() -> None:
    text = (
        '# [limits]\n"site" . name = "a"\nsite.text = """\n[limits]\ncov = 1\n"""\r\n'
        "  [ limits ]  # x\n\tcov=2\n'full.ness' = 1\n[[list]]\n[a.'b.c'.d]\nx = 1\n"
    )
    lines = key_lines(text)
    assert line_of(lines, ("site", "name")) == 2
    assert line_of(lines, ("site", "text")) == 3
    assert line_of(lines, ("limits",)) == 7
    assert line_of(lines, ("limits", "cov")) == 8
    assert line_of(lines, ("limits", "full.ness")) == 9
    assert line_of(lines, ("limits", "absent", "deeper")) == 7
    assert line_of(lines, ("a", "b.c", "d", "x")) == 12
    assert line_of(lines, ("a",)) == 11
    assert line_of(lines, ("nowhere",)) is None


def test_benchmarks_are_those_of_the_table() -> None:
    expected = {benchmark.name for benchmark in TABLE if benchmark.start != "import"}
    assert set(schema.BENCHMARKS) == {"auto", *expected}
    # `SiteProbe` is of a layer below the table.
    for benchmark in TABLE:
        probe = SiteProbe("hourly", benchmark=benchmark.name)
        assert probe.is_one_command == (benchmark.start == "one command")


def test_defaults_of_the_schema_are_those_of_the_model() -> None:
    defaults = schema.json_schema()["$defs"]

    def given(table: str) -> dict:
        fields = defaults[table]["properties"]
        return {key: field["default"] for key, field in fields.items() if "default" in field}

    tables = {
        "site": given("SiteTable") | {"name": "scratch", "driver": "local", "path": "/scratch"},
        "servers": given("ServersTable") | {"ssh": given("SshTable")},
        "limits": given("LimitsTable"),
        "snapshot": given("SnapshotTable"),
        "probe": {"a": given("ProbeTable")},
        "store": given("StoreTable"),
    }
    site = schema.site_of(schema.SiteFile.model_validate(tables), None)
    assert site == Site("scratch", "local", "/scratch", probes=(SiteProbe("a"),))


def test_the_schema_holds_no_null() -> None:
    assert "null" not in str(schema.json_schema())


# --- files -------------------------------------------------------------------


def write(path: Path, text: str = SITE) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
def places(tmp_path: Path) -> dict[str, str]:
    write(tmp_path / "own" / "scratch.toml")
    write(tmp_path / "home" / ".config" / "trimtab" / "sites" / "scratch.toml")
    write(tmp_path / "home" / ".config" / "trimtab" / "sites" / "work.toml")
    write(tmp_path / "own" / "notes.txt")
    write(tmp_path / "own" / "Bad Name.toml")
    return {"TRIMTAB_SITES": str(tmp_path / "own"), "HOME": str(tmp_path / "home")}


def test_a_name_is_looked_for_in_order(places: dict[str, str], tmp_path: Path) -> None:
    assert find_site("scratch", places) == tmp_path / "own" / "scratch.toml"
    assert find_site("work", places).parent.name == "sites"
    del places["TRIMTAB_SITES"]
    assert find_site("scratch", places).parent.name == "sites"
    places["XDG_CONFIG_HOME"] = str(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="elsewhere"):
        find_site("scratch", places)


def test_sites_are_known_by_name(places: dict[str, str]) -> None:
    known = known_sites(places)
    assert {"scratch", "work"} <= set(known)
    assert known["scratch"].parent.name == "own"
    assert not {"notes", "Bad Name"} & set(known)


def test_a_name_that_is_not_there_is_told_with_what_is(places: dict[str, str]) -> None:
    with pytest.raises(UsageError) as caught:
        find_site("scrath", places)
    assert "/etc/trimtab/sites" in caught.value.message
    assert caught.value.hint == "did you mean 'scratch'?"
    with pytest.raises(UsageError) as caught:
        find_site("zzz", places)
    assert "scratch, work" in (caught.value.hint or "")


@pytest.mark.parametrize("name", ["", "..", "A", "a b", "-x", "a\0", "\x1b[2J", "x" * 500, "@"])
def test_a_name_that_is_none_is_refused(name: str, places: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="not the name of a site"):
        find_site(name, places)


@pytest.mark.parametrize("path", ["./scratch", "scratch.toml", "/x/y", "../x"])
def test_a_path_is_a_path(path: str) -> None:
    assert find_site(path, {}) == Path(path)


def test_a_file_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "scratch.toml", "\ufeff" + SITE.replace("\n", "\r\n"))
    assert load_site(path).site == Site("scratch", "local", "/scratch", source=str(path))


def test_a_name_that_is_not_the_files_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "other.toml")
    assert load_site(path).warnings == ()
    monkeypatch.setenv("TRIMTAB_SITES", str(tmp_path))
    assert "finds it as other" in load_site(path).warnings[0].replace("'", "")


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.toml")
    (tmp_path / "loop.toml").symlink_to("loop.toml")
    (tmp_path / "bytes.toml").write_bytes(SITE.encode() + b"# caf\xe9\n")
    (tmp_path / "huge.toml").write_bytes(b"#" * (2**20 + 1))
    (tmp_path / "directory.toml").mkdir()
    for name, message in {
        "pipe": "not a regular file",
        "loop": "cannot be read: Too many levels",
        "bytes": ":5: byte 0xe9 is not UTF-8",
        "huge": "larger than 1 MiB",
        "directory": "not a regular file",
        "absent": "No such file",
        "a\0b": "cannot be read",
    }.items():
        with pytest.raises(UsageError, match=message):
            load_site(tmp_path / f"{name}.toml")
    with pytest.raises(UsageError, match="not a regular file"):
        load_site("/dev/zero")


def test_root_reads_no_file_that_others_can_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "scratch.toml")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    if path.stat().st_uid == 0:
        assert load_site(path).site.name == "scratch"
    else:
        with pytest.raises(UsageError, match="belongs to user"):
            load_site(path)
    path.chmod(0o646)
    with pytest.raises(UsageError, match="runs as root"):
        load_site(path)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert load_site(path).site.name == "scratch"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a file away")
def test_root_reads_no_file_that_a_group_can_change_unless_it_is_roots(tmp_path: Path) -> None:
    path = write(tmp_path / "scratch.toml")
    path.chmod(0o664)
    os.chown(path, 0, 0)
    assert load_site(path).site.name == "scratch"
    os.chown(path, 0, 1000)
    with pytest.raises(UsageError, match="can be written by group 1000"):
        load_site(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a file away")
def test_root_reads_no_file_of_another(tmp_path: Path) -> None:
    path = write(tmp_path / "scratch.toml")
    os.chown(path, 1000, 1000)
    with pytest.raises(UsageError, match="belongs to user 1000"):
        load_site(path)


# --- what is published -------------------------------------------------------

PAGE = Path(__file__).resolve().parents[2] / "docs" / "site.md"


def examples() -> list[str]:
    return re.findall(r"```toml\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)


@pytest.mark.parametrize("number", range(2))
def test_the_examples_of_the_page_load_without_a_warning(number: int) -> None:
    loaded = parse_site(examples()[number], "scratch.toml")
    assert loaded.warnings == ()
    jsonschema.validate(tomllib.loads(examples()[number]), schema.json_schema())


def test_the_page_lists_every_key_with_its_default() -> None:
    table, rows = "", set()
    for line in PAGE.read_text().splitlines():
        if heading := re.match(r"#+ `\[([a-z.]+?)(?:\.NAME)?\]`", line):
            table = heading.group(1)
        elif row := re.match(r"\| ((?:`\w+`(?:, )?)+) \|([^|]*)\|", line):
            keys = re.findall(r"\w+", row.group(1))
            rows |= {(table, key, row.group(2).strip()) for key in keys}
    listed = {(table, key) for table, key, _ in rows}
    known = set()
    for name, definition in schema.json_schema()["$defs"].items():
        table = "servers.ssh" if name == "SshTable" else name.removesuffix("Table").lower()
        for key, field in definition["properties"].items():
            if (table, key) in {("servers", "ssh"), ("servers", "home")}:
                continue  # tables of their own
            known.add((table, key))
            if "default" in field:
                (shown,) = (text for t, k, text in rows if (t, k) == (table, key))
                assert tomllib.loads(f"x = {shown.strip('`')}")["x"] == field["default"], key
    assert listed == known


def test_the_schema_finds_what_the_loader_finds() -> None:
    wrong = "[limits]\nfullness = 75\nwindow = 48\n[probe.a]\nnodes = 0\nshedule = 1\n"
    validator = jsonschema.Draft202012Validator(schema.json_schema())
    found = {error.json_path for error in validator.iter_errors(tomllib.loads(SITE + wrong))}
    assert found == {"$.limits.fullness", "$.limits.window", "$.probe.a.nodes", "$.probe.a"}


def test_a_snapshot_that_could_take_longer_than_the_watchdog_waits_is_refused() -> None:
    servers = '[servers]\noss = "oss[001-157]"\nmds = "oss001"\ntimeout = "5m"\n'
    with pytest.raises(UsageError, match="a snapshot would take"):
        parse_site(LUSTRE + servers, "x")
    fine = '[servers]\noss = "oss[001-157]"\nmds = "oss001"\ntimeout = "20s"\n'
    assert parse_site(LUSTRE + fine, "x").site.servers.timeout_s == 20.0
