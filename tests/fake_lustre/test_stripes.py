"""Stripes and what is gone, by their FIDs: the namespace, and the list of errors, as recorded."""

from __future__ import annotations

import errno
import re
from pathlib import Path

import pytest
from tests.fake_lustre.namespace import ROOT, FakeNamespace

from trimtab._core import GONE_ERRNOS
from trimtab.reach.lustre.lustre_child import settled

RECORDED = Path(__file__).parents[1] / "fixtures" / "lustre" / "2.17.0" / "fid"
FID = r"\[0x[0-9a-f]+:0x[0-9a-f]+:0x0\]"


def _answers(name: str) -> list[tuple[str, str, int]]:
    """Return the FID, the question and the error number of each line of a recording."""
    found = []
    for line in (RECORDED / f"{name}.out").read_text().splitlines():
        if match := re.fullmatch(rf"({FID}) (open O_DIRECTORY|scandir|open|lstat) (\d+) .*", line):
            found.append((match[1], match[2], int(match[3])))
    return found


def test_every_recorded_answer_about_what_is_gone_is_known_as_such() -> None:
    answers = _answers("gone_objects_open_errno_uncached")
    assert len(answers) == 28
    stat = {fid: number for fid, question, number in answers if question == "lstat"}
    assert set(stat.values()) <= set(GONE_ERRNOS)
    by_open = {number for _, question, number in answers if question != "lstat"}
    assert by_open - set(GONE_ERRNOS) == {errno.EFAULT}, "which the stat of the same FID settles"


def test_an_open_that_answers_efault_is_settled_by_a_stat(tmp_path: Path) -> None:
    absent, present = (bytes(tmp_path / name) for name in ("absent", "present"))
    Path(tmp_path, "present").mkdir()
    assert settled(absent, errno.EFAULT) == errno.ENOENT
    assert settled(present, errno.EFAULT) == errno.EFAULT, "it is there: nothing explains the error"
    assert settled(absent, errno.EIO) == errno.EIO


def test_a_client_is_told_nothing_about_a_stripe_but_its_path() -> None:
    """So `Looked` has for one its directory, and neither a row nor that it is gone."""
    lines = (RECORDED / "stripe_by_fid.out").read_text().splitlines()
    asked = [line.split(maxsplit=1)[1] for line in lines if line.startswith("[") and " " in line]
    told = {answer.rsplit(" EPERM ")[0] for answer in asked if " EPERM " in answer}
    assert told == {"lstat", "open", "open O_PATH", "trusted.link"}
    paths = [answer for answer in asked if answer.startswith("OBD_IOC_FID2PATH 0 ")]
    assert [path.rstrip("/'") for path in paths] == ["OBD_IOC_FID2PATH 0 b't-follow/striped"] * 2
    lustre = FakeNamespace(2)
    directory = lustre.create(ROOT, b"s", kind="d", stripes=2)
    looked = lustre.look(lustre.nodes[directory].stripes)
    assert looked.stripes == dict.fromkeys(lustre.nodes[directory].stripes, directory)
    assert (looked.rows.height, looked.gone, looked.failed) == (0, frozenset(), {})


@pytest.mark.parametrize("what", ["CREAT", "HLINK", "UNLNK", "RENME", "MKDIR"])
def test_records_name_the_directory_and_links_its_stripes(what: str) -> None:
    text = (RECORDED / "changelog_of_striped.out").read_text()
    masters = set(re.findall(rf"^y/[wv]: ({FID})$", text, re.MULTILINE))
    stripes = set(re.findall(rf"^ +[01]\t+ ({FID})\t", text, re.MULTILINE))
    parents = re.findall(rf"^\d+ \d\d{what} .* p=({FID}) (?:[fgl]\d|sub)", text, re.MULTILINE)
    assert parents
    assert set(parents) <= masters
    linked = re.findall(rf"^y/[wv]/\w+: ({FID})/", text, re.MULTILINE)
    assert linked
    assert set(linked) <= stripes
    lustre = FakeNamespace(2)
    lustre.register()
    directory = lustre.create(ROOT, b"s", kind="d", stripes=2)
    file = lustre.create(directory, b"f")
    assert [
        record.parent for log in lustre.logs for record in log.records if record.target == file
    ] == [directory]
    (parent,) = lustre.look([file]).rows["parent"]
    assert parent in lustre.nodes[directory].stripes


def test_a_file_with_two_names_is_moved_with_its_identifier_first() -> None:
    text = (RECORDED / "changelog_of_striped.out").read_text()
    moves = re.findall(rf"20MIGRT .* t=({FID}).* s=({FID}) ", text)
    assert [target for target, source in moves if target == source]
    lustre = FakeNamespace(2)
    lustre.register()
    file = lustre.create(ROOT, b"f")
    lustre.link(file, ROOT, b"g")
    assert lustre.migrate(file, 1) == file
    last = lustre.logs[0].records[-1]
    assert (last.target, last.source) == (file, file)
