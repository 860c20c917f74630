"""Finding site files by name and reading them from disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.site.test_load import SITE
from tests.support.codes import raises

from trimtab.base.error import UsageError
from trimtab.base.site import Site
from trimtab.reach import bounded
from trimtab.site.lookup import open_site, site_file
from trimtab.site.site_file import find_site, known_sites, load_site


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
        with pytest.raises(UsageError) as caught:
            load_site(tmp_path / f"{name}.toml")
        assert caught.value.code == code
    with raises(UsageError, "file-not-regular"):
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
    with raises(UsageError, "file-writable-by-others", "root"):
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
    with raises(UsageError, "file-writable-by-others", "group 1000"):
        load_site(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a file away")
def test_root_reads_no_file_of_another(tmp_path: Path) -> None:
    path = write(tmp_path / "scratch.toml")
    os.chown(path, 1000, 1000)
    with raises(UsageError, "file-writable-by-others", "user 1000"):
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
        ("x.db", "sites/x.db"),
        ("../x.db", "sites/../x.db"),
        ("sqlite:///x.db", "sqlite:///{0}/sites/x.db"),
        ("/var/x.db", None),
        ("sqlite:////var/x.db", None),
        ("~/x.db", None),
        ("postgresql://host/trimtab", None),
    ],
)
def test_a_store_is_seen_from_the_file_that_names_it(tmp_path, monkeypatch, written, seen):
    (tmp_path / "sites").mkdir()
    text = f'[site]\nname = "s"\ndriver = "local"\npath = "/s"\n[store]\nurl = "{written}"\n'
    (tmp_path / "sites/s.toml").write_text(text)
    expected = written if seen is None else seen.format(tmp_path)
    if seen is not None and "://" not in seen:
        expected = f"{tmp_path}/{seen}"
    for directory, name in ((tmp_path, "sites/s.toml"), (tmp_path / "sites", "s.toml")):
        monkeypatch.chdir(directory)
        assert load_site(name).site.store.url == expected
