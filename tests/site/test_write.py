"""A written site file reads back to the same site, and is there whole or not at all."""

from __future__ import annotations

import os
import tomllib
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.site.sites import sites, texts
from tests.support.codes import raises

from trimtab.base.error import RefusedError, UnreadableError, UsageError
from trimtab.base.site import Servers, Site, SiteLauncher, SiteLimits, SiteProbe
from trimtab.base.site_policy import Policies, TrimPolicy, TunablesPolicy
from trimtab.site.site_file import json_schema, load_site, parse_site, site_text, write_site

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
    tables = [line for line in text.splitlines() if line.startswith("[")]
    assert tables == [
        "[site]",
        "[servers]",
        "[servers.home]",
        "[servers.ssh]",
        "[limits]",
        "[snapshot]",
        "[store]",
        "[policy]",
        "[policy.trim]",
        "[policy.purge]",
        "[probe.hourly]",
        "[launcher.mpi]",
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
    def refuse(source, destination) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    write_site(tmp_path / "scratch.toml", "text")
    assert (tmp_path / "scratch.toml").read_text() == "text"


def test_a_directory_that_is_missing_is_said(tmp_path: Path) -> None:
    with raises(UsageError, "directory-missing"):
        write_site(tmp_path / "nowhere" / "scratch.toml", "text")
    (tmp_path / "file").write_text("")
    with raises(UnreadableError, "file-not-written", "Not a directory"):
        write_site(tmp_path / "file" / "scratch.toml", "text")
