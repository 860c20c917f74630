"""What a person says of a list, and names that become numbers."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.codes import raises

from trimtab.base.error import DataError, UnreadableError, UsageError
from trimtab.purge.index.column_map import names_of
from trimtab.purge.index.list_import import ListDescription, import_index
from trimtab.purge.index.manifest import IndexSource, Lack

NAMED = ("path=p,uid=who:name,gid=team:name,size_bytes=s",)
LINE = "alice:x:1234:1:comment with : and more:/:/bin/sh\n"


def test_names_are_looked_up_only_where_a_column_holds_names(tmp_path):
    assert names_of(("path=p,uid=u,size_bytes=s",), users=tmp_path / "nowhere").users == {}


def test_names_come_from_files_or_from_this_host(tmp_path):
    users, groups = tmp_path / "passwd", tmp_path / "group"
    users.write_text(LINE + "\n")
    groups.write_text("team:x:77:alice\n")
    given = names_of(NAMED, users, groups)
    assert (given.users, given.groups) == ({"alice": 1234}, {"team": 77})
    assert names_of(NAMED).users["root"] == 0


@pytest.mark.parametrize("text", ["alice\n", "alice:x:many:1\n", "alice:x:\n", "alice:x:-1:1\n"])
def test_a_file_of_names_that_is_none(tmp_path, text):
    users = tmp_path / "passwd"
    users.write_text(LINE + text)
    with raises(DataError, "account-malformed"):
        names_of(NAMED, users=users)
    with pytest.raises(UnreadableError):
        names_of(NAMED, users=tmp_path / "nowhere")


@pytest.mark.system
def test_a_real_list_of_find_drives_a_plan_once_its_facts_are_told(tmp_path):
    tree, file = tmp_path / "tree", tmp_path / "list"
    tree.mkdir()
    (tree / "a file").write_text("x")
    fields = r"%i\t%n\t%U\t%G\t%s\t%b\t%A@\t%T@\t%C@\t%p\0"
    result = subprocess.run(["find", tree, "-printf", fields], capture_output=True, check=True)
    file.write_bytes(result.stdout)
    described = ListDescription(IndexSource.GNU_FIND, os.fsencode(tree))
    manifest = import_index(file, tmp_path / "bare", described)
    assert manifest.source is IndexSource.GNU_FIND
    assert not manifest.can_delete
    whole = import_index(
        file,
        tmp_path / "whole",
        replace(described, complete=True),
        mounted=True,
        started="2026-01-01T00:00:00Z",
    )
    assert whole.obstacles == ()
    assert whole.filesystem is not None
    assert whole.filesystem.fsid == os.statvfs(tree).f_fsid
    assert Lack.IDENTITY not in whole.lacking
    with pytest.raises(UsageError):
        import_index(file, tmp_path / "other", described, started="soon")
    assert not Path(tmp_path / "other").exists()
