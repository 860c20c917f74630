"""The lists of a plan are each user's own, true, whole, and given out before anything counts."""

import base64
import fcntl
import hashlib
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest
from tests.purge.notice.making import PUBLISHED_AT, Book, clock, open_directory
from tests.purge.plan.making import BEFORE_S, DAY_S, KEY, MADE_AT, Row, draft, make
from tests.support.children import killed_while_at_work
from tests.support.codes import raises
from tests.support.counts import repetitions, seeded
from tests.support.narrow import present

from trimtab.base.error import DataError, RefusedError, UnreadableError, UsageError
from trimtab.purge.owner import Account
from trimtab.purge.plan.notice import Published, publish, write_names
from trimtab.purge.plan.notice_text import NoticeFacts, find_command
from trimtab.purge.plan.plan_directory import LoadedPlan, load_plan
from trimtab.purge.purge_policy import Notices

ADA, BOB, EVE = 20_001, 20_002, 20_003
ROWS = [
    Row(b"ada/old", ADA, BEFORE_S - 300 * DAY_S),
    Row(b"ada/new\nline", ADA, BEFORE_S - 100 * DAY_S),
    Row(b"ada/\xff", ADA, BEFORE_S - 200 * DAY_S),
    Row(b"bob/x", BOB),
    Row(b"left/behind", 30_000),
]


@pytest.fixture
def site() -> Iterator[Path]:
    yield from open_directory()


@pytest.fixture
def plan(tmp_path: Path) -> LoadedPlan:
    return make(tmp_path / "plan", ROWS)


def run(
    loaded: LoadedPlan, site: Path, *, notices: Notices | None = None, **options: object
) -> Published:
    values = {"accounts": Book(ada=ADA, bob=BOB, eve=EVE), "clock": clock()} | options
    return publish(loaded, KEY, notices or Notices(directory=str(site)), **values)  # pyrefly: ignore[bad-argument-type]


def lists_of(site: Path, loaded: LoadedPlan) -> Path:
    return site / f"2026-11-22-{loaded.plan.id}"


def test_every_user_gets_a_list_that_is_theirs(plan: LoadedPlan, site: Path) -> None:
    result = run(plan, site)
    place = lists_of(site, plan)
    names, kinds = ("ada", "bob", "uid-30000"), (".jsonl", ".nul", ".txt")
    files = sorted(path.name for path in place.iterdir())
    assert files == [f"{name}{kind}" for name in names for kind in kinds]
    for file in place.iterdir():
        state, owner = file.stat(), {"ada": ADA, "bob": BOB}.get(file.stem, 0)
        rights = (state.st_mode & 0o777, state.st_uid, state.st_gid)
        assert rights == (0o600, owner, owner + 10_000 if owner else 0)
    assert place.stat().st_mode & 0o777 == 0o711
    assert [path.name for path in site.iterdir()] == [place.name]
    assert (place / "ada.nul").read_bytes() == (
        b"/scratch/ada/old\0/scratch/ada/\xff\0/scratch/ada/new\nline\0"
    )
    text = (place / "ada.txt").read_text()
    assert text.splitlines()[-3:] == [
        "2025-05-05    1000 B  -       /scratch/ada/old",
        "2025-08-13    1000 B  -       /scratch/ada/\\xff",
        "2025-11-21    1000 B  -       /scratch/ada/new\\nline",
    ]
    assert len((place / "bob.jsonl").read_text().splitlines()) == 1
    assert (result.fresh, result.publication.without_account) == (True, (30_000,))
    assert "30000" in result.notes[0]


def test_more_names_than_a_site_wants_are_counted_by_directory(tmp_path: Path, site: Path) -> None:
    rows = [
        *(Row(b"ada/a/b%d/f%d" % (n % 3, n), ADA, BEFORE_S - (n + 1) * DAY_S) for n in range(7)),
        Row(b"ada/a/x", ADA, BEFORE_S - 40 * DAY_S),
        Row(b"ada/\xff\n/c/y", ADA, BEFORE_S - 50 * DAY_S),
        Row(b"top", ADA, BEFORE_S - 60 * DAY_S),
        Row(b"bob/x", BOB),
    ]
    loaded = make(tmp_path / "plan", rows)
    before = run(make(tmp_path / "before", rows[:2]), site).loaded
    notices = Notices(directory=str(site), names_most=9, contact="the desk")
    result = run(loaded, site, notices=notices, previous=before)
    place = lists_of(site, loaded)
    assert sorted(path.name for path in place.iterdir()) == [
        "ada.jsonl", "ada.txt", "bob.jsonl", "bob.nul", "bob.txt",
    ]  # fmt: skip
    assert {(place / name).stat().st_uid for name in ("ada.txt", "ada.jsonl")} == {ADA}
    text = (place / "ada.txt").read_text()
    assert text.splitlines()[-4:] == [
        "LAST USE         FILES      SIZE           NEW  DIRECTORY",
        f"{day(60)}           1  4.00 KiB             1  /scratch",
        f"{day(40)}           8  32.0 KiB             6  /scratch/ada/a",
        f"{day(50)}           1  4.00 KiB             1  /scratch/ada/\\xff\\n",
    ]
    whole = " ".join(text.split())
    assert "too many to list" in whole
    assert f"find DIRECTORY -xdev -type f -uid {ADA}" in whole
    counts = [json.loads(line) for line in (place / "ada.jsonl").read_text().splitlines()]
    assert [(one["files"], one["new_files"]) for one in counts] == [(1, 1), (8, 6), (1, 1)]
    assert base64.b64decode(counts[2]["directory_base64"]) == b"/scratch/ada/\xff\n"
    assert counts[1]["newest_use"].startswith(day(1))
    ada, bob = result.publication.lists
    assert (ada.has_names, ada.files, ada.new_files) == (False, 10, 8)
    assert (bob.has_names, bob.files) == (True, 1)
    assert ada.text_sha256 == hashlib.sha256(text.encode()).hexdigest()
    check_names_on_request(load_plan(loaded.directory, KEY), place, rows)


def day(days: int) -> str:
    return f"{datetime.fromtimestamp(BEFORE_S - days * DAY_S, UTC):%Y-%m-%d}"


def check_names_on_request(loaded: LoadedPlan, place: Path, rows: list[Row]) -> None:
    """The names are the user's alone, in the order of the plan; twice is once."""
    for user in ("ada", str(ADA)):
        file = write_names(loaded, user)
        assert file == place / "ada.nul"
        assert (file.stat().st_uid, file.stat().st_mode & 0o777) == (ADA, 0o600)
        names = sorted(b"/scratch/" + row.path for row in rows if row.uid == ADA)
        assert sorted(file.read_bytes().split(b"\0")[:-1]) == names
    assert len(list(place.iterdir())) == 6
    with raises(UsageError, "user-unlisted"):
        write_names(loaded, "eve")
    with raises(RefusedError, "plan-unpublished"):
        write_names(replace(loaded, publication=None), "ada")


@pytest.mark.system
def test_the_command_finds_every_candidate_of_a_user(tmp_path: Path, site: Path) -> None:
    """What a list of counts tells to type, run on files of which two were used since."""
    tree = tmp_path / "tree"
    tree.mkdir()
    for name, size_bytes, read_s, written_s in (
        ("old", 10, DAY_S, DAY_S),
        ("last", 10, 1, 1),
        ("young", 10, -1, -1),
        ("read", 10, -9, DAY_S),
        ("small", 1, DAY_S, DAY_S),
    ):
        (tree / name).write_bytes(b"x" * size_bytes)
        os.utime(tree / name, (BEFORE_S - read_s, BEFORE_S - written_s))
    loaded = make(tmp_path / "plan", [Row(b"a", os.getuid())])
    rules = replace(loaded.plan.rules, counted=("atime", "mtime"), minimum_size_bytes=10)
    (user,) = loaded.plan.candidates.users
    facts = NoticeFacts(replace(loaded.plan, rules=rules), user, None, "x", MADE_AT, MADE_AT)
    words = find_command(facts).replace("DIRECTORY", str(tree)).split()
    ended = subprocess.run(words, capture_output=True, check=True)
    found = [Path(os.fsdecode(name)).name for name in ended.stdout.split(b"\0")[:-1]]
    assert sorted(found) == ["last", "old"]


def test_the_evidence_says_what_was_given_to_whom(plan: LoadedPlan, site: Path) -> None:
    result = run(plan, site)
    assert load_plan(plan.directory, KEY) == result.loaded
    assert result.loaded.publication == result.publication
    for one in result.publication.lists:
        file = lists_of(site, plan) / one.name
        digests = [
            hashlib.sha256(file.with_suffix(kind).read_bytes()).hexdigest()
            for kind in (".txt", ".jsonl", ".nul")
        ]
        assert digests == [one.text_sha256, one.lines_sha256, one.names_sha256]
    given = [(one.uid, one.account, one.files) for one in result.publication.lists]
    assert given == [(ADA, "ada", 3), (BOB, "bob", 1), (30_000, None, 1)]


def test_the_notice_period_counts_from_when_all_lists_were_out(
    plan: LoadedPlan, site: Path
) -> None:
    slow = run(plan, site, clock=clock(step_s=7200.0)).publication
    assert slow.published_at == PUBLISHED_AT + timedelta(hours=2)
    assert slow.not_before == slow.published_at + timedelta(days=14)


def test_the_promise_is_a_whole_hour_and_never_less_than_the_notice_period(
    plan: LoadedPlan, site: Path
) -> None:
    result = run(plan, site).publication
    assert result.not_before == datetime(2026, 12, 6, 10, 0, tzinfo=UTC)
    assert result.not_before >= result.published_at + timedelta(days=14)
    text = (lists_of(site, plan) / "bob.txt").read_text()
    assert "Not deleted before  2026-12-06 10:00 UTC" in text


def test_what_is_public_stays_as_it_is(plan: LoadedPlan, site: Path) -> None:
    def public() -> dict[Path, tuple[int, bytes]]:
        files = lists_of(site, plan).iterdir()
        return {file: (file.stat().st_ino, file.read_bytes()) for file in files}

    first = run(plan, site)
    before = public()
    second = run(plan, site, clock=clock(PUBLISHED_AT + timedelta(days=3)))
    assert (second.fresh, second.publication) == (False, first.publication)
    assert public() == before


def test_a_plan_that_expires_before_its_notice_period_is_not_published(
    plan: LoadedPlan, site: Path
) -> None:
    with raises(RefusedError, "plan-expires-early"):
        run(plan, site, clock=clock(MADE_AT + timedelta(days=14)))
    assert not list(site.iterdir())
    # Slow enough to be too late only in the end: nothing counts as published.
    with raises(RefusedError, "plan-expires-early"):
        run(plan, site, clock=clock(MADE_AT + timedelta(days=13), step_s=86400.0))
    assert load_plan(plan.directory, KEY).publication is None


def test_what_an_interrupted_attempt_left_is_replaced(plan: LoadedPlan, site: Path) -> None:
    place, other = lists_of(site, plan), site / "2026-11-15-other"
    left = site / f".{place.name}.0123456789ab"
    for directory in (place, left, other):
        directory.mkdir()
    (place / "eve.txt").write_text("old")
    (left / "ada.txt").write_text("half")
    run(plan, site)
    assert sorted(path.name for path in site.iterdir()) == sorted([place.name, other.name])
    assert not (place / "eve.txt").exists()


def test_two_at_once_are_one_too_many(plan: LoadedPlan, site: Path) -> None:
    held = os.open(plan.directory, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        with raises(RefusedError, "notify-running"):
            run(plan, site)
    finally:
        os.close(held)


def test_changes_since_the_plan_before(tmp_path: Path, site: Path) -> None:
    earlier = MADE_AT - timedelta(days=7)
    gone = [Row(b"ada/gone", ADA), Row(b"eve/gone", EVE)]
    moved = replace(ROWS[1], path=b"ada/new\nline, renamed")
    previous = make(tmp_path / "before", [*ROWS[:2], *gone], draft(earlier))
    loaded = make(tmp_path / "plan", [ROWS[0], moved, *ROWS[2:]])
    result = run(loaded, site, previous=previous).publication
    assert result.previous_plan_id == previous.plan.id
    assert [(one.new_files, one.gone_files) for one in result.lists] == [(2, 2), (1, 0), (1, 0)]
    text = (lists_of(site, loaded) / "ada.txt").read_text()
    assert [line[22:28].strip() for line in text.splitlines()[-3:]] == ["before", "new", "new"]
    assert "2 new, 1 again, 2 gone" in text
    lines = (lists_of(site, loaded) / "ada.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    assert [row["listed_before"] for row in rows] == [True, False, False]


def test_a_file_that_another_one_took_the_place_of_is_new(tmp_path: Path, site: Path) -> None:
    earlier = draft(MADE_AT - timedelta(days=7))
    previous = make(tmp_path / "before", [Row(b"bob/x", BOB, inode=1)], earlier)
    loaded = make(tmp_path / "plan", [Row(b"bob/x", BOB, inode=2)])
    (bob,) = run(loaded, site, previous=previous).publication.lists
    assert (bob.new_files, bob.gone_files) == (1, 1)


def test_a_plan_before_that_cannot_be_read_is_said(tmp_path: Path, site: Path) -> None:
    previous = make(tmp_path / "before", ROWS, draft(MADE_AT - timedelta(days=7)))
    previous.candidates.write_bytes(b"rubbish")
    loaded = make(tmp_path / "plan", ROWS)
    result = run(loaded, site, previous=previous)
    assert "new files unknown" in result.notes[0]
    published = result.publication
    assert (published.lists[0].new_files, published.previous_plan_id) == (None, None)


def test_a_plan_that_can_never_be_carried_out_says_so(tmp_path: Path, site: Path) -> None:
    index = replace(draft().index, obstacles=("3 subtrees could not be read",))
    loaded = make(tmp_path / "plan", [Row(b"bob/x", BOB)], draft(index=index))
    (note,) = run(loaded, site).notes
    assert note.startswith("this plan cannot delete anything")
    assert "3 subtrees" in note


def test_a_site_without_a_directory_is_told(plan: LoadedPlan) -> None:
    with raises(UsageError, "notice-directory-missing"):
        run(plan, Path(), notices=Notices())


def test_a_directory_that_others_could_exchange_is_refused(plan: LoadedPlan, site: Path) -> None:
    for spoil, words in (
        (lambda: site.chmod(0o777), "others"),
        (lambda: site.chmod(0o700), "users cannot enter"),
        (lambda: os.chown(site, ADA, -1), str(ADA)),
    ):
        spoil()
        with pytest.raises(RefusedError, match=words):
            run(plan, site)
        site.chmod(0o755)
        os.chown(site, 0, -1)
        assert not list(site.iterdir())
    link = site.with_name(f"{site.name}-link")
    link.symlink_to(site)
    try:
        with raises(RefusedError, "path-is-link"):
            run(plan, link)
    finally:
        link.unlink()
    with pytest.raises(UnreadableError):
        run(plan, site / "none")


def test_candidates_that_changed_since_they_were_checked_are_noticed(
    plan: LoadedPlan, tmp_path: Path, site: Path
) -> None:
    for name, rows in (("more", [*ROWS, Row(b"bob/y", BOB)]), ("stranger", [Row(b"x", 40_000)])):
        other = make(tmp_path / name, rows)
        plan.candidates.write_bytes(other.candidates.read_bytes())
        with raises(DataError, "candidates-contradictory"):
            run(plan, site)
    assert not list(site.iterdir())
    assert load_plan(plan.directory, KEY, candidates=False).publication is None


def test_users_whose_names_are_paths_get_no_file_elsewhere(tmp_path: Path, site: Path) -> None:
    accounts = Book()
    accounts.add(Account(ADA, 1, "../../evil"))
    accounts.add(Account(BOB, 1, "ada\n"))
    loaded = make(tmp_path / "plan", [Row(b"a", ADA), Row(b"b", BOB)])
    result = run(loaded, site, accounts=accounts)
    given = [(one.name, one.account) for one in result.publication.lists]
    assert given == [(f"uid-{ADA}", "../../evil"), (f"uid-{BOB}", "ada\\n")]
    assert load_plan(loaded.directory, KEY).publication == result.publication


def test_an_empty_plan_is_published_to_nobody(tmp_path: Path, site: Path) -> None:
    assert run(make(tmp_path / "plan", []), site).publication.lists == ()


@pytest.mark.system
def test_a_user_reads_the_own_list_and_no_other(plan: LoadedPlan, site: Path) -> None:
    """By a process of that user: permissions are the kernel's, not ours."""
    run(plan, site)
    place = lists_of(site, plan)
    script = (
        "import os, sys\n"
        "os.setgroups([]); os.setgid(int(sys.argv[2]) + 10000); os.setuid(int(sys.argv[2]))\n"
        "def can(action):\n"
        "    try:\n"
        "        action()\n"
        "        return 1\n"
        "    except OSError:\n"
        "        return 0\n"
        "at = sys.argv[1]\n"
        "print(can(lambda: open(at + '/ada.txt').read()), can(lambda: open(at + '/bob.txt')),\n"
        "      can(lambda: os.listdir(at)), can(lambda: os.unlink(at + '/ada.txt')),\n"
        "      can(lambda: os.symlink('/etc/passwd', at + '/x')))\n"
    )
    seen = subprocess.run(
        [sys.executable, "-c", script, str(place), str(ADA)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert seen.stdout.split() == ["1", "0", "0", "0", "0"]


@pytest.mark.system
def test_tar_takes_the_names_as_they_are(tmp_path: Path, site: Path) -> None:
    """The command that lists tell, on real files with names of every kind."""
    root = tmp_path / "root"
    names = [b"a\nb", b"\xff\xfe", b"-rf", b"--to-command=x", b" a ", b"\\n", b"d/e", b"*"]
    for name in names:
        file = root / os.fsdecode(name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(name)
    made = draft(file_system=replace(draft().file_system, root=str(root)))
    loaded = make(tmp_path / "plan", [Row(name, ADA) for name in names], made)
    run(loaded, site)
    place, archive = lists_of(site, loaded), tmp_path / "archive.tar"
    options = ["--create", "--file", str(archive), "--null", "--files-from", "ada.nul"]
    subprocess.run(["tar", *options], cwd=place, check=True, capture_output=True)
    with tarfile.open(archive, errors="surrogateescape", encoding="utf-8") as packed:
        result = {
            os.fsencode(member.name): present(packed.extractfile(member)).read()
            for member in packed.getmembers()
        }
    prefix = os.fsencode(root).lstrip(b"/") + b"/"
    assert result == {prefix + name: name for name in names}


@pytest.mark.system
@pytest.mark.parametrize("rows", repetitions(gate=250_000, soak=2_000_000))
def test_memory_does_not_grow_with_the_list(tmp_path: Path, rows: int) -> None:
    """Two plans, one three times the other, each by a process of its own."""
    code = IN_CHILD + (
        "print([line for line in open('/proc/self/status') if line.startswith('VmHWM')][0])\n"
    )
    peaks_kib = []
    for size in (rows, 3 * rows):
        for site in open_directory():
            loaded = make(tmp_path / f"plan-{size}", many(size))
            seen = subprocess.run(
                [sys.executable, "-c", code, str(loaded.directory), str(site)],
                capture_output=True, text=True, check=True,
            )  # fmt: skip
            peaks_kib.append(int(seen.stdout.split("VmHWM:")[1].split()[0]))
    assert peaks_kib[1] < peaks_kib[0] * 1.3


def many(rows: int) -> pl.DataFrame:
    """Return candidates of 50 users, made all at once."""
    at = pl.int_range(rows, eager=True)
    return pl.DataFrame({"at": at}).select(
        parent=pl.lit(b"projects/some/deep/directory/of/one"),
        name=(pl.lit("wrfout_d01_") + pl.col("at").cast(pl.String)).cast(pl.Binary),
        id=pl.col("at").cast(pl.String).str.zfill(16).cast(pl.Binary),
        uid=(20_000 + pl.col("at") % 50).cast(pl.UInt32),
        size_bytes=(pl.col("at") * 37 % 2**30).cast(pl.UInt64),
        allocated_bytes=pl.lit(4096, pl.UInt64),
        nlink=pl.lit(1, pl.UInt32),
        last_use_s=BEFORE_S - 1 - rows + pl.col("at"),
    )


def test_progress_is_told(plan: LoadedPlan, site: Path) -> None:
    seen: list[tuple[int, int]] = []
    run(plan, site, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (5, 5)


@pytest.mark.system
@pytest.mark.parametrize("kills", repetitions(gate=5, soak=200))
def test_a_plan_killed_at_any_moment_is_published_whole_or_not_at_all(
    tmp_path: Path, kills: int
) -> None:
    """``kill -9`` of a real process, then again to its end."""
    random = seeded("publish")
    rows = [Row(b"u%d/f%d" % (n % 50, n), 20_000 + n % 50, BEFORE_S - n - 1) for n in range(5000)]
    for number in range(kills):
        for site in open_directory():
            loaded = make(tmp_path / f"plan-{number}", rows)
            moment_s = random.uniform(0, 0.12)
            killed_while_at_work(IN_CHILD, loaded.directory, site, moment_s=moment_s)
            after = load_plan(loaded.directory, KEY)
            if after.publication is not None:
                check_lists(after, lists_of(site, loaded))
            in_child(loaded.directory, site)
            check_lists(load_plan(loaded.directory, KEY), lists_of(site, loaded))
            assert [path.name for path in site.iterdir()] == [lists_of(site, loaded).name]


IN_CHILD = (
    "import sys; from pathlib import Path; from tests.purge.notice import test_publish as t\n"
    "t.in_child(Path(sys.argv[1]), Path(sys.argv[2]))\n"
)


def in_child(directory: Path, site: Path) -> None:
    """Publish a plan, saying when it begins."""
    loaded = load_plan(directory, KEY)
    accounts = Book(**{f"u{n}": 20_000 + n for n in range(50)})
    pl.scan_parquet(loaded.candidates).head(1).collect()  # slow the first time: no moment of ours
    print("begins", flush=True)
    run(loaded, site, accounts=accounts)


def check_lists(loaded: LoadedPlan, place: Path) -> None:
    lists = present(loaded.publication).lists
    assert len(lists) == len(loaded.plan.candidates.users)
    for one in lists:
        file = place / f"{one.name}.nul"
        data = file.read_bytes()
        assert hashlib.sha256(data).hexdigest() == one.names_sha256
        assert (data.count(b"\0"), file.stat().st_uid) == (one.files, one.uid)
