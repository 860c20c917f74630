"""Site files are found by name, read and written whole or not at all."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import Mock

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.site.sites import sites, texts
from tests.site.test_load import SITE
from tests.support.codes import raises

from trimtab.base.error import RefusedError, UnreadableError, UsageError
from trimtab.base.maintenance_window import MaintenanceWindow
from trimtab.base.site import Servers, Site, SiteLauncher, SiteLimits, SiteProbe
from trimtab.base.site_maintenance import planned_by_file
from trimtab.base.site_policy import Policies, TrimPolicy, TunablesPolicy
from trimtab.reach import bounded
from trimtab.site.lookup import open_site, site_file
from trimtab.site.site_file import (
    find_site,
    json_schema,
    known_sites,
    load_site,
    parse_site,
    site_text,
    write_site,
)


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
    with raises(UsageError, "site-unknown", "elsewhere"):
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


def test_a_known_name_is_a_name_and_no_path_is_asked(
    places: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In ``/`` the mount of a site has its name: with a lost OST it would be waited for."""
    (tmp_path / "scratch").mkdir()
    monkeypatch.chdir(tmp_path)
    for name, value in places.items():
        monkeypatch.setenv(name, value)
    asked: list[str] = []
    monkeypatch.setattr(bounded, "describe", asked.append)
    found = open_site("scratch").site
    assert found.source == str(tmp_path / "own" / "scratch.toml")
    assert asked == []


@pytest.mark.parametrize("name", ["", "..", "A", "a b", "-x", "a\0", "\x1b[2J", "x" * 500, "@"])
def test_a_name_that_is_none_is_refused(name: str, places: dict[str, str]) -> None:
    with raises(UsageError, "name-invalid"):
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
    for name, code in {
        "pipe": "file-not-regular",
        "loop": "file-unreadable",
        "bytes": "file-not-utf8",
        "huge": "file-too-large",
        "directory": "file-not-regular",
        "absent": "file-unreadable",
        "a\0b": "file-unreadable",
    }.items():
        with raises(UsageError, code):
            load_site(tmp_path / f"{name}.toml")
    with raises(UsageError, "file-not-regular"):
        load_site("/dev/zero")


def test_root_reads_no_file_that_others_can_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "scratch.toml")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    is_roots = path.stat().st_uid == 0
    with nullcontext() if is_roots else pytest.raises(UsageError, match="belongs to user"):
        assert load_site(path).site.name == "scratch"
    path.chmod(0o646)
    with raises(UsageError, "file-writable-by-others", "root"):
        load_site(path)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert load_site(path).site.name == "scratch"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a file away")
def test_root_reads_no_file_of_another_or_that_a_group_can_change_unless_it_is_roots(
    tmp_path: Path,
) -> None:
    path = write(tmp_path / "scratch.toml")
    path.chmod(0o664)
    os.chown(path, 0, 0)
    assert load_site(path).site.name == "scratch"
    for owner, mode, shows in ((0, 0o664, "group 1000"), (1000, 0o644, "user 1000")):
        os.chown(path, owner, 1000)
        path.chmod(mode)
        with raises(UsageError, "file-writable-by-others", shows):
            load_site(path)


@pytest.mark.cli
def test_a_file_here_is_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweep or a scenario of that name is no site, and a directory comes first, as it did."""
    monkeypatch.setenv("TRIMTAB_SITES", str(tmp_path / "none"))
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "scratch.toml")
    write(tmp_path / "fast.toml", '[sweep]\nname = "fast"\n')
    loaded = site_file("scratch")
    assert loaded is not None
    assert loaded.site.name == "scratch"
    assert site_file("fast") is None
    assert site_file("scratch", only_sites=True) is None
    (tmp_path / "scratch").mkdir()
    assert site_file("scratch") is None


@pytest.mark.parametrize(
    ("written", "seen"),
    [
        ("x.db", "{0}/sites/x.db"),
        ("../x.db", "{0}/sites/../x.db"),
        ("sqlite:///x.db", "sqlite:///{0}/sites/x.db"),
        *((as_it_is, as_it_is) for as_it_is in ("/var/x.db", "sqlite:////var/x.db", "~/x.db")),
        ("postgresql://host/trimtab", "postgresql://host/trimtab"),
    ],
)
def test_a_store_is_seen_from_the_file_that_names_it(tmp_path, monkeypatch, written, seen):
    write(tmp_path / "sites/s.toml", f'{SITE}[store]\nurl = "{written}"\n')
    for directory, name in ((tmp_path, "sites/s.toml"), (tmp_path / "sites", "s.toml")):
        monkeypatch.chdir(directory)
        assert load_site(name).site.store.url == seen.format(tmp_path)


SCHEMA = jsonschema.Draft202012Validator(json_schema())
LOCAL = Site("scratch", "local", "/scratch")
LUSTRE = Site(
    "scratch",
    "lustre",
    "/scratch",
    file_system="scratch",
    timezone="Europe/Berlin",
    servers=Servers(
        oss=("oss1", "oss2"), mds=("mds1",), home={"OST0000": "oss1", "OST000a": "oss2"}
    ),
    snapshot_schedule="every 15m",
    probes=(SiteProbe("hourly", schedule="every 1h", launcher="mpi", block_size_bytes=2**32),),
    launchers=(SiteLauncher("mpi", "mpi"),),
    policies=Policies(trim=TrimPolicy(every_s=7200.0)),
)


@pytest.mark.system
@given(
    sites(),
    st.lists(st.text(max_size=30), max_size=3),
    st.dictionaries(
        st.sampled_from(["site", "servers.oss", "limits", "probe.a", "store.url"]),
        st.lists(st.text(max_size=30), max_size=2),
    ),
)
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_what_is_written_reads_back(
    site: Site, found: list[str], comments: dict[str, list[str]]
) -> None:
    text = site_text(site, remarks=found, comments=comments)
    assert replace(parse_site(text, "x").site, source=None) == site
    assert SCHEMA.is_valid(tomllib.loads(text))


@given(texts)
def test_every_text_is_escaped(text: str) -> None:
    site = replace(LOCAL, scenario=text)
    assert tomllib.loads(site_text(site))["site"]["scenario"] == text


@pytest.mark.parametrize("site", [LOCAL, LUSTRE])
def test_whatever_stands_behind_a_sign_can_be_taken_out(site: Site) -> None:
    """Every line that is commented out is TOML that the loader accepts."""
    lines = []
    for line in site_text(site).splitlines():
        bare = line.removeprefix("# ")
        lines.append(bare if " = " in bare or bare.startswith("[") else line)
    loaded = parse_site("\n".join(lines), "x").site
    assert loaded.limits == SiteLimits()
    assert loaded.probes[0].name == "hourly"


def test_the_file_of_a_lustre_site_looks_as_it_should() -> None:
    text = site_text(
        LUSTRE, remarks=["Lustre 2.17.57", "2 OSTs"], comments={"servers": ["as lctl dl -t says"]}
    )
    assert "# Found:\n#   Lustre 2.17.57\n#   2 OSTs\n" in text
    assert (
        "# The servers, and how they are asked.\n"
        "# as lctl dl -t says\n"
        "[servers]\n"
        'oss = "oss[1-2]"               # Object storage servers: a ClusterShell node set.\n'
        'mds = "mds1"                   # Metadata servers: a ClusterShell node set.\n'
        '# clients = "login1,nid[1-2]"  # Some clients of each class: do they record atime?\n'
        '# reach = "ssh"                # ssh, or local: every server is this host.\n'
    ) in text
    assert '[servers.home]\noss1 = "OST0000"\noss2 = "OST000a"\n' in text
    assert re.findall(r"^\[(.*)\]", text, re.MULTILINE) == [
        *("site", "servers", "servers.home", "servers.ssh", "limits", "snapshot", "store"),
        *("policy", "policy.trim", "policy.purge", "probe.hourly", "launcher.mpi"),
    ]
    assert max(len(line) for line in text.splitlines()) <= 100


def test_comments_of_others_stay_comments() -> None:
    text = site_text(
        LOCAL,
        remarks=['x\n[policy.trim]\narmed = true\r"\x1b'],
        comments={"site.name": ["\nname = 'other'"]},
    )
    assert parse_site(text, "x").site == replace(LOCAL, source="x")
    assert "\x1b" not in text
    assert "\r" not in text


@pytest.mark.parametrize(
    "site",
    [
        replace(LOCAL, path="/scratch\udcff"),
        replace(LOCAL, path="scratch"),
        replace(LOCAL, limits=SiteLimits(fullness=0.6)),
        replace(LOCAL, policies=Policies(tunables=TunablesPolicy(armed=True))),
        replace(LOCAL, limits=SiteLimits(window_s=1e-300)),
        replace(LOCAL, servers=Servers(oss=("a b",))),
        replace(LOCAL, snapshot_schedule=" every 1h"),
    ],
)
def test_what_no_file_can_say_is_refused(site: Site) -> None:
    with pytest.raises(UsageError):
        site_text(site)


def test_a_file_is_written_for_all_to_read(tmp_path: Path) -> None:
    path = tmp_path / "scratch.toml"
    mask = os.umask(0o077)
    try:
        write_site(path, site_text(LUSTRE))
    finally:
        os.umask(mask)
    assert path.stat().st_mode & 0o777 == 0o644
    assert load_site(path).site == replace(LUSTRE, source=str(path))
    assert [entry.name for entry in tmp_path.iterdir()] == ["scratch.toml"]


def test_a_file_that_is_there_is_not_replaced_unasked(tmp_path: Path) -> None:
    path = tmp_path / "scratch.toml"
    path.write_text("mine")
    with pytest.raises(RefusedError) as caught:
        write_site(path, "theirs")
    assert "--replace" in (caught.value.hint or "")
    assert path.read_text() == "mine"
    write_site(path, "theirs", replace=True)
    assert path.read_text() == "theirs"
    assert [entry.name for entry in tmp_path.iterdir()] == ["scratch.toml"]


def test_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "real.toml").write_text("old")
    link = tmp_path / "link.toml"
    link.symlink_to("real.toml")
    with pytest.raises(RefusedError):
        write_site(link, "new")
    write_site(link, "new", replace=True)
    assert link.is_symlink()
    assert (tmp_path / "real.toml").read_text() == "new"


def test_a_file_made_meanwhile_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "scratch.toml"
    real_link = os.link

    def link_late(source, destination) -> None:
        path.write_text("mine")
        real_link(source, destination)

    monkeypatch.setattr(os, "link", link_late)
    with pytest.raises(RefusedError):
        write_site(path, "theirs")
    assert path.read_text() == "mine"


def test_a_file_system_without_hard_links_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = Mock(side_effect=PermissionError(1, "Operation not permitted"))
    monkeypatch.setattr(os, "link", refused)
    write_site(tmp_path / "scratch.toml", "text")
    assert (tmp_path / "scratch.toml").read_text() == "text"
    refused.assert_called_once()


def test_a_directory_that_is_missing_is_said(tmp_path: Path) -> None:
    with raises(UsageError, "directory-missing"):
        write_site(tmp_path / "nowhere" / "scratch.toml", "text")
    (tmp_path / "file").write_text("")
    with raises(UnreadableError, "file-not-written", "Not a directory"):
        write_site(tmp_path / "file" / "scratch.toml", "text")


# --- what is published -------------------------------------------------------

PAGE = Path(__file__).resolve().parents[2] / "docs" / "site.md"


@pytest.mark.parametrize("number", range(3))
def test_the_examples_of_the_page_load_without_a_warning(number: int) -> None:
    """The last is a probe of a site, one command."""
    text = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)[number]
    loaded = parse_site(SITE + text if number == 2 else text, "scratch.toml")
    assert loaded.warnings == ()
    assert any(one.is_one_command for one in loaded.site.probes) == (number == 2)
    jsonschema.validate(tomllib.loads(SITE + text if number == 2 else text), json_schema())


POLICY_TABLES = tuple(
    f"policy.{name}" for name in ("tunables", "allocator", "trim", "balance", "purge")
)


def tables_of(document: dict) -> Iterator[tuple[str, dict]]:
    for name, table in document["properties"].items():
        yield name, table if "properties" in table else table["additionalProperties"]
    yield "servers.ssh", document["properties"]["servers"]["properties"]["ssh"]
    yield "alerts.mail", document["properties"]["alerts"]["properties"]["mail"]
    for name in POLICY_TABLES:
        yield name, document["properties"]["policy"]["properties"][name.removeprefix("policy.")]


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
    for name, definition in tables_of(json_schema()):
        for key, field in definition["properties"].items():
            if f"{name}.{key}" in {"servers.ssh", "servers.home", "alerts.mail", *POLICY_TABLES}:
                continue  # tables of their own
            known.add((name, key))
            if "default" in field:
                (shown,) = (text for t, k, text in rows if (t, k) == (name, key))
                assert tomllib.loads(f"x = {shown.strip('`')}")["x"] == field["default"], key
    assert listed == known


def test_the_schema_finds_what_the_loader_finds() -> None:
    wrong = "[limits]\nfullness = 75\nwindow = 48\n[probe.a]\nnodes = 0\nshedule = 1\n"
    validator = jsonschema.Draft202012Validator(json_schema())
    found = {error.json_path for error in validator.iter_errors(tomllib.loads(SITE + wrong))}
    assert found == {"$.limits.fullness", "$.limits.window", "$.probe.a.nodes", "$.probe.a"}


MAINTENANCE = """[maintenance.firmware]
schedule = "weekly on tuesday at 08:00"
duration = "4h"
why = "firmware"
targets = "OST[0000-0001]"
"""


def test_a_maintenance_of_the_file_comes_again_in_the_sites_zone() -> None:
    site = parse_site(f'{SITE}timezone = "Europe/Berlin"\n{MAINTENANCE}', "s.toml").site
    assert parse_site(site_text(site), "s.toml").site.maintenance == site.maintenance
    now = datetime(2026, 3, 24, 9, tzinfo=UTC)  # a Tuesday, in the window; summer comes on Sunday

    def planned(hours: float = 0.0, days: float = 8.0) -> list[MaintenanceWindow]:
        at = now + timedelta(hours=hours)
        until = at + timedelta(days=days)
        return [*planned_by_file(site.name, site.maintenance, site.timezone, at, until)]

    first, second = planned()
    assert (first.at.hour, second.at.hour) == (7, 6)
    assert (first.until - first.at, first.targets) == (timedelta(hours=4), ("OST0000", "OST0001"))
    assert [each.id for each in planned(1)] == [first.id, second.id]
    assert planned(2, 1) == []


@pytest.mark.parametrize(
    ("key", "value"),
    [("duration", "0s"), ("duration", "29d"), ("schedule", "sometimes"), ("targets", "OST1")],
)
def test_a_maintenance_that_cannot_be_is_refused(key: str, value: str) -> None:
    wrong = re.sub(rf'{key} = ".*"', f'{key} = "{value}"', MAINTENANCE)
    with pytest.raises(UsageError, match=key):
        parse_site(SITE + wrong, "s.toml")
