"""The journal: what is on stable storage, after any end and after anybody's hand."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.purge.run.lines import fates_of, plan_line
from tests.support.codes import raises

from trimtab.base.error import DataError, RefusedError, UnreadableError
from trimtab.purge.index.manifest import FileSystemIdentity
from trimtab.purge.run import run_journal as journal_module
from trimtab.purge.run.journal_line import (
    Chronicle,
    ClaimLine,
    DoneLine,
    ReleasedLine,
    RunBeginLine,
    RunEndLine,
    SharedLine,
    SyncedLine,
    TakeoverLine,
    UndoneLine,
    UsageLine,
    decode,
    encode,
)
from trimtab.purge.run.plan_progress import replay
from trimtab.purge.run.rows import RowBatch, Rows
from trimtab.purge.run.run_journal import journals, read, spent_since
from trimtab.store.chain import FIRST_SUM, is_locked, linked

AT = datetime(2026, 11, 22, 8, 0, 0, 123456, tzinfo=UTC)
AN_HOUR_AGO = AT - timedelta(hours=1)
PLAN = plan_line("plan-1", "ab" * 32, 100)
ANOTHER = replace(PLAN, plan="plan-2")
OWNER = os.geteuid()
BEGIN = RunBeginLine("r1", AT, True, AT, 0.7, "1.0", "host", "alice", ("armed: nobody",))
USAGE = UsageLine("r1", AT, 80, 20, None)
END = RunEndLine("r1", AT, "target-reached", "it is")


def opened(directory, plan, *, lease_s=0.0):
    return journal_module.opened(directory, plan, at=AT, lease_s=lease_s, owner=OWNER)


def batch(first, count, *leave, run="r1"):
    files = count - sum(rows.count for rows in leave)
    return ClaimLine(run, AT, Rows(first, count), leave, files, 0, {1000: (files, 0)})


def done(first, *outcomes, apply=True, at=AT, by_user=None, **changes):
    count = sum(number for _, number in outcomes)
    gone = sum(number for name, number in outcomes if name == "deleted")
    by_user = {1000: (gone, 10 * gone)} if by_user is None else by_user
    return DoneLine(
        "r1", at, apply, Rows(first, count), outcomes, gone, 10 * gone, 9 * gone, by_user, 0.1,
        **changes,
    )  # fmt: skip


ALONE = SharedLine(AT, 0.0)
LINES = (
    ALONE,
    BEGIN,
    USAGE,
    batch(0, 10, Rows(2, 1)),
    done(0, ("deleted", 2), ("capped", 1), ("touched", 7)),
    batch(10, 5),
    TakeoverLine("r2", AT, "r1", Rows(10, 5)),
    replace(done(10, ("gone", 2), ("not_begun", 3), recovered=True), run="r2"),
    END,
)
RELEASED = (*LINES, batch(15, 5), ReleasedLine(AT, Rows(15, 5), 5, 4096, "alice"))


def text_of(lines, plan=PLAN):
    return text_of_encoded(map(encode, (plan, *lines)))


def text_of_encoded(lines):
    text, own = b"", FIRST_SUM
    for line in lines:
        linked_line, own = linked(line, own)
        text += linked_line
    return text


def replayed(*lines, plan=PLAN):
    return replay(Chronicle(plan, lines))


def write(directory, *lines, plan=PLAN):
    with opened(directory, plan) as journal:
        for line in lines:
            journal.write(line)
        return journal


def test_every_kind_of_line_comes_back_as_it_was():
    text = text_of(RELEASED)
    result = decode(text)
    assert (result.plan, result.lines) == (PLAN, RELEASED)
    assert all(isinstance(json.loads(line), dict) for line in text.splitlines())


def test_a_line_without_a_key_that_is_written_is_of_an_unreleased_version():
    lines = (PLAN, *RELEASED, UndoneLine("r", AT, Rows(0, 1), (), 1, 1, {}))
    for number, line in enumerate(lines):
        written = json.loads(encode(line))
        for name in written.keys() - {"do"}:
            older = {key: value for key, value in written.items() if key != name}
            text = text_of_encoded([*map(encode, lines[:number]), json.dumps(older).encode()])
            with raises(DataError, "format-unreleased") as error:
                decode(text)
            assert error.value.line == number + 1
            assert "keep it as evidence" in str(error.value.hint)


@given(st.dictionaries(st.integers(0, 2**32 - 1), st.tuples(st.integers(0), st.integers(0))))
def test_users_come_back(by_user):
    line = done(0, ("deleted", 1), by_user=by_user)
    assert decode(text_of([line])).lines == (line,)


def test_a_journal_that_was_cut_anywhere_says_what_was_whole_or_that_it_is_not():
    text = text_of(LINES)
    ends = [0, *(number + 1 for number, byte in enumerate(text) if byte == 10)]
    for cut in range(len(text) + 1):
        if cut in ends:
            result = decode(text[:cut])
            assert len(result.lines) == max(0, ends.index(cut) - 1)
            replay(result)
        else:
            with raises(DataError, "journal-changed") as error:
                decode(text[:cut])
            assert error.value.line == sum(end <= cut for end in ends)


def test_a_byte_that_was_changed_anywhere_is_noticed():
    text = text_of(LINES)
    for place in range(len(text) - 1):  # without the last line's end it is torn, and not damaged
        if text[place] == 10:
            continue
        damaged = text[:place] + bytes([text[place] ^ 1]) + text[place + 1 :]
        with raises(DataError, "journal-changed"):
            decode(damaged)


def test_a_line_that_was_lost_put_in_or_moved_is_noticed():
    lines = text_of(LINES).splitlines(keepends=True)
    wrong = [[lines[1], lines[0], *lines[2:]]]
    for number in range(1, len(lines) - 1):
        wrong += [lines[:number] + lines[number + 1 :], lines[: number + 1] + lines[number:]]
    for damaged in wrong:
        with pytest.raises(DataError):
            decode(b"".join(damaged))


@pytest.mark.parametrize(
    "rest",
    [
        b'"do":"nothing"}',
        b'"do":"end","run":1,"at":"2026-11-22T08:00:00Z","reason":"","text":""}',
        b'"do":"end","run":"r","at":"2026-11-22T08:00:00Z","reason":"","text":"","new":1}',
        b'"do":"synced","run":"r","run":"s","at":"2026-11-22T08:00:00Z"}',
        b'"do":"shared","at":"2026-11-22T08:00:00Z","lease_s":NaN}',
        b'"do":"shared","at":"2026-11-22T08:00:00Z","lease_s":1e999}',
        b"[]",
    ],
)
def test_a_line_of_another_kind_is_an_error(rest):
    with pytest.raises(DataError) as error:
        decode(text_of_encoded([encode(PLAN), b"{" + rest]))
    assert error.value.line == 2


def test_a_second_plan_in_one_journal_is_an_error():
    with raises(DataError, "journal-contradictory"):
        decode(text_of([PLAN]))


def test_replay_says_what_is_to_do_and_what_became_of_each_row():
    result = replay(decode(text_of(LINES)))
    assert (result.todo, result.claims) == ((Rows(12, 88),), ())
    fates = ["deleted"] * 2 + ["capped"] + ["touched"] * 7 + ["gone"] * 2
    assert fates_of(result) == dict(enumerate(fates))


def test_replay_finds_the_batch_that_has_no_end():
    result = replay(decode(text_of(LINES[:6])))
    (claim,) = result.claims
    assert (claim.run, claim.batch) == ("r1", RowBatch(Rows(10, 5)))
    assert (result.todo, result.lease_s, result.open_rows) == ((Rows(15, 85),), 0.0, 5)
    (left,) = replay(decode(text_of(LINES[:4]))).claims
    assert left.batch == RowBatch(Rows(0, 10), (Rows(2, 1),))
    # Who has the lock ends it at once; of several hosts one may be at work.
    assert result.held_until is None
    several = (SharedLine(AT, 300.0), *LINES[1:6])
    assert replay(decode(text_of(several))).held_until == AT + timedelta(seconds=375 + 300)


def test_dry_runs_deal_with_nothing():
    dry = done(0, ("would_delete", 100), apply=False)
    assert replay(decode(text_of([BEGIN, dry, END]))).todo == (Rows(0, 100),)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ((batch(0, 5), batch(5, 5)), "before the previous one has ended"),
        ((batch(0, 5), batch(5, 5, run="r2")), "before the previous one has ended"),
        ((batch(0, 5), done(0, ("deleted", 5)), batch(4, 2)), "not free"),
        ((batch(95, 6),), "not free"),
        ((done(0, ("deleted", 5)),), "does not have it"),
        ((batch(0, 5), done(0, ("deleted", 4))), "does not have it"),
        ((batch(0, 5), done(0, ("deleted", 5)), done(0, ("deleted", 5))), "does not have it"),
    ],
)
def test_lines_that_do_not_fit_together_are_an_error(lines, message):
    with pytest.raises(DataError, match=message):
        replay(decode(text_of(lines)))


def test_a_batch_that_does_not_account_for_every_row_is_an_error():
    short = DoneLine("r1", AT, True, Rows(0, 5), (("deleted", 4),), 4, 4, 4, {}, 0.1)
    with raises(DataError, "journal-contradictory"):
        replayed(batch(0, 5), short)


def test_it_is_written_read_and_gone_on_with(tmp_path):
    directory = tmp_path / "journals"
    journal = write(directory, BEGIN, batch(0, 10))
    before = journal.standing
    assert before.todo == (Rows(10, 90),)
    assert journals(directory) == (journal.path,)
    assert read(journal.path).lines == (ALONE, BEGIN, batch(0, 10))
    again = write(directory, done(0, ("deleted", 10)), END)
    assert [claim.batch for claim in before.claims] == [RowBatch(Rows(0, 10))]
    assert again.standing.todo == replay(read(journal.path)).todo == (Rows(10, 90),)
    assert directory.stat().st_mode & 0o777 == 0o700
    assert journal.path.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in journal.path.iterdir()} == {0o600}


def test_what_a_process_had_not_finished_is_no_line(tmp_path):
    path = write(tmp_path, BEGIN).path
    (path / ".0123456789abcdef.part").write_bytes(b'{"sum":"')
    write(tmp_path, END)
    assert read(path).lines == (ALONE, BEGIN, END)


def test_a_journal_of_an_unreleased_version_is_refused(tmp_path):
    directory = tmp_path / "journals"
    directory.mkdir(mode=0o700)
    path = directory / "plan-1.journal.jsonl"
    path.write_bytes(text_of([BEGIN]))
    for look in (
        lambda: write(directory),
        lambda: read(*journals(directory)),
        lambda: spent_since(directory, ANOTHER, AT),
    ):
        with raises(DataError, "format-unreleased") as found:
            look()
        assert "keep it as evidence" in str(found.value.hint)
    assert list(directory.glob("plan-1*")) == [path]


def test_a_damaged_journal_deletes_nothing_more(tmp_path):
    path = write(tmp_path, BEGIN, END).path
    begin = path / "0000000003"
    begin.write_bytes(begin.read_bytes().replace(b"alice", b"mallo"))
    with raises(DataError, "journal-changed"):
        write(tmp_path)
    with pytest.raises(DataError):
        spent_since(tmp_path, PLAN, AT)


@pytest.mark.system
def test_two_runs_at_once_are_refused(tmp_path):
    script = (
        "import sys\n"
        "from dataclasses import replace\n"
        "from pathlib import Path\n"
        "from tests.purge.run.test_journal import PLAN, write\n"
        "from trimtab.base.error import RefusedError\n"
        "try:\n"
        "    write(Path(sys.argv[1]), plan=replace(PLAN, plan='b'))\n"
        "except RefusedError as error:\n"
        "    print(error.message)\n"
    )
    with opened(tmp_path, PLAN):
        assert is_locked(tmp_path)
        result = subprocess.run(
            [sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=True
        )
    assert not is_locked(tmp_path)
    assert not is_locked(tmp_path / "absent")
    assert result.stdout == "another run is at work on ext4 /dev/md0 now\n"
    write(tmp_path)


def test_the_journal_of_another_plan_is_refused(tmp_path):
    write(tmp_path)
    with raises(RefusedError, "journal-mismatch"):
        write(tmp_path, plan=replace(PLAN, sha256="cd" * 32))


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "x" * 65, "a\n"])
def test_an_id_that_is_no_name_of_a_file_is_refused(tmp_path, name):
    with pytest.raises(DataError):
        write(tmp_path, plan=replace(PLAN, plan=name))


def test_a_link_or_a_file_of_others_in_its_place_is_refused(tmp_path):
    path = write(tmp_path / "a").path
    elsewhere = tmp_path / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    with pytest.raises(RefusedError):
        write(tmp_path / "a")
    path.unlink()
    elsewhere.rename(path)
    path.chmod(0o722)
    with pytest.raises(RefusedError):
        write(tmp_path / "a")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    with pytest.raises((RefusedError, UnreadableError)):
        write(tmp_path / "link")


def test_a_directory_that_others_can_write_to_is_refused(tmp_path):
    write(tmp_path / "a")
    (tmp_path / "a").chmod(0o777)
    with pytest.raises(RefusedError):
        write(tmp_path / "a")


@pytest.mark.parametrize("call", ["link", "fsync"])
def test_a_line_that_cannot_be_written_is_not_there(tmp_path, monkeypatch, call):
    def full(*_arguments, **_named):
        raise OSError(28, "No space left on device")

    with opened(tmp_path, PLAN) as journal:
        with monkeypatch.context() as patch:
            patch.setattr(os, call, full)
            with raises(UnreadableError, "journal-unwritable") as error:
                journal.write(BEGIN)
            assert error.value.hint
        assert read(journal.path).lines == (ALONE,)
        journal.write(END)
    assert read(journal.path).lines == (ALONE, END)


def test_caps_count_what_every_run_of_a_day_deleted(tmp_path):
    early = AT - timedelta(days=2)
    write(
        tmp_path,
        batch(0, 2), done(0, ("deleted", 2), at=early),
        batch(2, 3), done(2, ("deleted", 3)),
        done(5, ("deleted", 7), apply=False),
    )  # fmt: skip
    other = plan_line("plan-2", "", 9, "/other", PLAN.file_system)
    write(tmp_path, batch(0, 1), done(0, ("deleted", 1), by_user={7: (1, 10)}), plan=other)
    spent = spent_since(tmp_path, PLAN, AN_HOUR_AGO)
    assert (spent.files, spent.bytes, dict(spent.by_user)) == (4, 40, {1000: 30, 7: 10})
    another = replace(PLAN, identity=FileSystemIdentity("xfs", "/dev/md0"))
    assert spent_since(tmp_path, another, AN_HOUR_AGO).files == 0
    assert spent_since(tmp_path / "none", PLAN, AT).files == 0


EXT4 = FileSystemIdentity("ext4", "/dev/loop0", 77, uuid="u-1")
KNOWN = replace(PLAN, file_system="ext4 /dev/loop0", identity=EXT4)


@pytest.mark.parametrize(
    ("other", "counts"),
    [
        (replace(EXT4, name="/dev/loop40", mount="another"), True),
        (replace(EXT4, name="/dev/loop40", uuid=None), True),  # another kernel, which says less
        (replace(EXT4, uuid="u-2", fsid=78), False),  # made anew on the same device
        (replace(EXT4, kind="xfs"), False),
    ],
)
def test_caps_are_of_a_file_system_and_not_of_a_device(tmp_path, other, counts):
    write(tmp_path, batch(0, 2), done(0, ("deleted", 2)), plan=KNOWN)
    words = f"{other.kind} {other.name}"
    plan = replace(KNOWN, plan="plan-2", sha256="cd" * 32, identity=other, file_system=words)
    assert spent_since(tmp_path, plan, AN_HOUR_AGO).files == (2 if counts else 0)


def test_a_run_of_a_file_system_waits_for_another_whatever_its_device_is_called(tmp_path):
    renamed = replace(EXT4, name="/dev/loop40")
    other = replace(KNOWN, plan="plan-2", identity=renamed, file_system="ext4 /dev/loop40")
    with opened(tmp_path, KNOWN), raises(RefusedError, "run-running"):
        write(tmp_path, plan=other)


def test_a_journal_of_before_identities_goes_on(tmp_path):
    write(tmp_path, batch(0, 2), done(0, ("deleted", 2)))
    with opened(tmp_path, replace(PLAN, identity=EXT4)) as journal:
        assert journal.shared.todo == (Rows(2, 98),)
        assert journal.standing.todo == (Rows(2, 98),)


def test_lines_that_are_lost_from_the_end_are_missed(tmp_path):
    path = write(tmp_path, batch(0, 2), done(0, ("deleted", 2)), batch(2, 2)).path
    lines = sorted(path.iterdir())
    assert len(lines) == 5
    lines[4].unlink()  # power fails before a batch is on the disk
    assert len(read(path).lines) == 3
    whole = lines[3].read_bytes()
    for text in (whole[:-1], whole + whole):
        lines[3].write_bytes(text)
        with raises(DataError, "journal-truncated" if text < whole else "journal-changed"):
            read(path)
    for line in (3, 2, 0):
        for gone in lines[line:]:
            gone.unlink(missing_ok=True)
        for look in (
            partial(read, path),
            partial(write, tmp_path),
            partial(spent_since, tmp_path, ANOTHER, AN_HOUR_AGO),
        ):
            with raises(DataError, "journal-truncated") as found:
                look()
        assert sorted(path.iterdir()) == lines[:line]  # it is evidence
        assert found.value.hint
        assert "2026" in found.value.message
    path.rmdir()
    with raises(DataError, "journal-truncated"):
        read(*journals(tmp_path))
    # As the hint says: both are moved away, and all is well.
    path.with_name(f"{path.name}.head.json").rename(tmp_path.parent / "evidence")
    assert journals(tmp_path) == ()


def test_a_journal_that_was_written_anew_is_not_the_one_that_it_was(tmp_path):
    path = write(tmp_path, batch(0, 2), done(0, ("deleted", 2))).path
    anew = text_of([ALONE, batch(0, 2), done(0, ("gone", 2)), END]).splitlines(keepends=True)
    for number, line in enumerate(anew, start=1):
        (path / f"{number:010}").write_bytes(line)
    with raises(DataError, "journal-truncated"):
        read(path)


def test_a_batch_that_a_person_ended_counts_whole(tmp_path):
    begun = replace(batch(0, 10, Rows(2, 1)), bytes=4096)
    write(tmp_path, BEGIN, begun)
    with opened(tmp_path, PLAN) as journal:
        (line,) = journal.standing.releases(AT, "alice")
        journal.write(line)
    chronicle = read(journal.path)
    standing = replay(chronicle)
    assert (standing.claims, standing.todo) == ((), (Rows(10, 90),))
    assert fates_of(standing) == {row: "not_known" for row in range(10)} | {2: "capped"}
    spent = spent_since(tmp_path, PLAN, AN_HOUR_AGO)
    assert (spent.files, spent.bytes) == (9, 4096)
    with pytest.raises(DataError, match="released batch is not open"):
        replay(replace(chronicle, lines=(BEGIN, line)))


def test_journals_that_were_written_long_ago_are_not_read_for_it(tmp_path):
    now = datetime.now(UTC)
    path = write(tmp_path, batch(0, 2), done(0, ("deleted", 2), at=now)).path
    since = now - timedelta(hours=1)
    assert spent_since(tmp_path, PLAN, since).files == 2
    for days, files in ((1, 2), (3, 0)):
        then = (now - timedelta(days=days)).timestamp()
        os.utime(path, (then, then))
        assert spent_since(tmp_path, PLAN, since).files == files


def test_runs_on_two_file_systems_do_not_wait_for_each_other(tmp_path):
    with opened(tmp_path, PLAN):
        write(tmp_path, plan=plan_line("plan-2", "", 9, "/other", "another"))


def undone(first, count, *rows):
    parts = rows or (Rows(first, count),)
    files = sum(part.count for part in parts)
    return UndoneLine("r2", AT, Rows(first, count), parts, files, 10 * files, {1000: (files, 1)})


SYNCED = SyncedLine("r1", AT)
GONE = (BEGIN, batch(0, 10), done(0, ("deleted", 4), ("touched", 2), ("deleted", 4)))


def test_what_was_deleted_since_the_last_synchronisation_is_unsettled():
    (unsettled,) = replayed(*GONE).unsettled
    assert (unsettled.batch, unsettled.rows) == (Rows(0, 10), (Rows(0, 4), Rows(6, 4)))
    assert replayed(*GONE, SYNCED).unsettled == ()
    later = replayed(*GONE, SYNCED, batch(10, 2), done(10, ("deleted", 2)))
    assert [one.batch for one in later.unsettled] == [Rows(10, 2)]


def test_rows_that_are_undone_have_no_fate_and_are_done_again():
    back = (*GONE, undone(0, 10, Rows(1, 2), Rows(9, 1)))
    standing = replayed(*back)
    fates = ["deleted", None, None, "deleted", "touched", "touched"] + ["deleted"] * 3
    assert fates_of(standing) == {row: fate for row, fate in enumerate(fates) if fate}
    assert standing.todo == (Rows(1, 2), Rows(9, 91))
    again = replayed(*back, SYNCED, batch(1, 2), done(1, ("deleted", 2)))
    assert fates_of(again)[1] == "deleted"


@pytest.mark.parametrize(
    "line",
    [
        undone(0, 10, Rows(4, 1)),  # it was touched
        undone(0, 10, Rows(0, 2), Rows(1, 1)),  # one row twice
        undone(0, 5, Rows(0, 1)),  # no such batch
        undone(0, 10, Rows(20, 1)),
    ],
)
def test_what_was_not_deleted_cannot_be_undone(line):
    with raises(DataError, "journal-contradictory"):
        replayed(*GONE, line)


def test_what_is_on_stable_storage_cannot_be_undone():
    with raises(DataError, "journal-contradictory"):
        replayed(*GONE, SYNCED, undone(0, 10, Rows(0, 1)))
