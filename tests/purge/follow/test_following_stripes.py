"""Following what lies in striped directories: Lustre names a stripe as the parent of a file."""

from __future__ import annotations

import struct
from dataclasses import replace

from tests.fake_lustre.followed import Follower
from tests.fake_lustre.namespace import ROOT, FakeNamespace
from tests.purge.follow.test_following import assert_equal, directory_of


def _at(lustre: FakeNamespace, name: bytes) -> bytes:
    return lustre.nodes[ROOT].children[name]


def test_files_of_striped_directories_are_followed_by_what_their_stripe_belongs_to(
    lustre: FakeNamespace, striped: Follower
) -> None:
    one, other = _at(lustre, b"s"), _at(lustre, b"t")
    lustre.create(one, b"new")
    lustre.write(lustre.nodes[one].children[b"f0"], 7)
    lustre.rename(one, b"f1", one, b"g")
    lustre.rename(one, b"f2", other, b"from s")
    lustre.link(lustre.nodes[one].children[b"f3"], other, b"linked")
    lustre.unlink(other, b"f0")
    assert striped.round().unknown == 0
    assert_equal(striped)


def test_a_renamed_striped_directory_takes_what_is_in_its_stripes_with_it(
    lustre: FakeNamespace, striped: Follower
) -> None:
    lustre.write(lustre.nodes[_at(lustre, b"s")].children[b"f0"], 7)
    lustre.rename(ROOT, b"s", directory_of(lustre), b"deeper")
    assert_equal(striped)
    assert b"d/deeper" in striped.rows()["parent"].to_list()


def test_the_stripes_of_a_removed_directory_are_gone_with_it(
    lustre: FakeNamespace, striped: Follower
) -> None:
    directory = _at(lustre, b"s")
    stripes = lustre.nodes[directory].stripes
    lustre.write(lustre.nodes[directory].children[b"f0"], 7)
    for name in list(lustre.nodes[directory].children):
        lustre.unlink(directory, name)
    lustre.unlink(ROOT, b"s")
    assert lustre.look(stripes).gone == set(stripes)
    assert_equal(striped)


def test_migrated_and_split_directories_have_stripes_too(
    lustre: FakeNamespace, striped: Follower
) -> None:
    migrated = lustre.migrate(directory_of(lustre), 0)
    lustre.write(lustre.nodes[migrated].children[b"a"], 7)
    assert_equal(striped)
    plain = lustre.create(ROOT, b"plain", kind="d")
    lustre.create(plain, b"x")
    assert_equal(striped)
    successor = lustre.split(plain)
    assert lustre.nodes[successor].stripes[0] == plain, "the directory became a stripe"
    lustre.create(successor, b"y")
    lustre.write(lustre.nodes[successor].children[b"x"], 8)
    assert striped.round().unknown == 0
    assert_equal(striped)
    assert plain not in striped.rows()["id"].to_list()


def test_a_record_that_names_a_stripe_is_about_the_directory(
    lustre: FakeNamespace, striped: Follower
) -> None:
    """A record of attributes may name as parent whatever a record before it left there."""
    directory = _at(lustre, b"s")
    lustre.chown(directory, 77)
    log = lustre.logs[lustre.nodes[directory].mdt]
    log.records[-1] = replace(
        log.records[-1], target=None, parent=lustre.nodes[directory].stripes[0]
    )
    assert striped.round().unknown == 0
    assert_equal(striped)


def test_a_directory_that_somebody_named_like_a_stripe_keeps_its_files(
    lustre: FakeNamespace, follower: Follower
) -> None:
    """Nothing that a user names could lead a purge past files, or to where they are not."""
    above, name = next(iter(lustre.nodes[directory_of(lustre)].names))
    sequence, number, version = struct.unpack(">QII", directory_of(lustre))
    own = b"[%#x:%#x:%#x]:0" % (sequence, number, version)
    lustre.rename(above, name, above, own)
    assert_equal(follower)
    assert own in follower.rows()["parent"].to_list()
