"""A purge on a real ext4 through every command: what is gone, what stayed, what is said of it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.purge.command.walk import AGO_S, DAY_S, OWNERS, Walk
from tests.support.command import trimtab
from tests.support.documents import misfits
from tests.support.mailbox import Post, certificate, mail_server

MINIMUM_S = 16 * 7 * DAY_S
"""Eight weeks, twice, since reads do not count."""
pytestmark = [pytest.mark.system]


@pytest.fixture(scope="module")
def post(walk: Walk) -> Iterator[Post]:
    """Give a mail server that wants TLS and a login."""
    (walk.private / "password").write_text("wonderful\n")
    (walk.private / "password").chmod(0o400)
    with mail_server(certificate(walk.private)) as post:
        post.passwords = {"trimtab": "wonderful"}
        yield post


@pytest.fixture(scope="module")
def purged(walk: Walk, post: Post) -> dict[str, Any]:
    """Purge once, with trouble in between, and return what was found on the way."""
    walk.make_files()
    exempt = _exempt(walk)
    walk.write_policy(
        "[[exempt]]",
        f'path_hex = "{exempt.hex()}"',
        'reason = "asked for"',
        notice=f"""\
mail_to = "{{user}}@example.org"
mail_from = "storage@example.org"
[notice.mail]
server = "localhost"
port = {post.port}
security = "starttls"
user = "trimtab"
password = "file:{walk.private}/password"
ca_file = "{walk.private}/localhost.pem"
""",
    )
    found: dict[str, Any] = {"scan": walk.scan()}
    index = ("--index", walk.index)
    found["horizon"] = walk.good("horizon", *index, "--policy", walk.policy, ago_s=AGO_S - 300)
    found["by"] = walk.good("query", *index, "--by", "user")
    found["sql"] = walk.good("query", *index, "SELECT path, size_bytes FROM files ORDER BY path")
    found["evasion"] = walk.good("evasion", *index, "--policy", walk.policy)
    plan = ("plan", *index, "--policy", walk.policy, "--out", walk.plan)
    found["plan"] = walk.good(*plan, ago_s=AGO_S - 600)
    found["unpublished"] = walk.trimtab("run", walk.plan, "--apply", "--json")
    found["arm early"] = walk.trimtab("arm", walk.plan)
    found["notify"] = walk.good("notify", walk.plan, "--mail", ago_s=AGO_S - 1200)
    found["room"] = sum(
        path.stat().st_size for path in walk.root.glob(".trimtab-purge-*/reserve/*")
    )
    found["unarmed"] = walk.trimtab("run", walk.plan, "--apply")
    found["arm"] = walk.good("arm", walk.plan, ago_s=3 * DAY_S)
    found["before"] = walk.there()
    found["dry"] = walk.good("run", walk.plan)
    found["after dry"] = walk.there()
    found["kept"] = _trouble(walk)
    walk.stop.touch()
    found["stopped"] = walk.trimtab("run", walk.plan, "--apply")
    found["after stop"] = walk.there()
    walk.stop.unlink()
    found["run"] = walk.good("run", walk.plan, "--apply", *_site(walk))
    found["after"] = walk.there()
    found["again"] = walk.good("run", walk.plan, "--apply")
    found["report"] = walk.good("report")
    found["replay"] = walk.good(
        "replay", *index, "--policy", walk.policy, "--later", _scanned_again(walk),
        "--before", _day_ago(200), "--used", "10MB", "--available", "10MB",
    )  # fmt: skip
    return found


def _trouble(walk: Walk) -> dict[str, bytes]:
    """Use, replace, link and exempt files that stand in the plan; return their paths."""
    top = os.fsencode(walk.root) + b"/user %d" % OWNERS[1]
    old = sorted(
        (path for path in walk.files if path.startswith(top) and walk.files[path] > 200 * DAY_S),
        key=lambda path: -walk.files[path],
    )
    touched, replaced, linked, shorter = old[:4]
    os.utime(touched)
    state = Path(os.fsdecode(replaced)).stat()
    other = Path(os.fsdecode(replaced + b".new"))
    other.write_bytes(b"y" * state.st_size)
    os.chown(other, state.st_uid, state.st_gid)
    os.utime(other, ns=(state.st_atime_ns, state.st_mtime_ns))
    other.rename(os.fsdecode(replaced))
    os.link(linked, linked + b".link")
    os.truncate(shorter, 100)
    return {"touched": touched, "replaced": replaced, "linked": linked, "written": shorter}


def _site(walk: Walk) -> tuple[object, ...]:
    file = walk.private / "walk.toml"
    walk.write_site(file)
    return "--site", file, "--store", walk.private / "store.db"


def _scanned_again(walk: Walk) -> Path:
    later = walk.private / "later"
    walk.good("scan", walk.root, "--index", later)
    return later


def _day_ago(days: int) -> str:
    return (datetime.now(UTC) - timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ")


def _old(walk: Walk) -> set[bytes]:
    """Return the files that were old enough when the file system was scanned."""
    return {path for path, age_s in walk.files.items() if age_s - AGO_S > MINIMUM_S + 3600}


def _exempt(walk: Walk) -> bytes:
    return os.fsencode(walk.root) + b"/user %d/new\nline 10" % OWNERS[0]


def test_what_is_deleted_is_what_was_old_and_nobody_used(walk, purged):
    expected = _old(walk) - set(purged["kept"].values()) - {_exempt(walk)}
    assert expected
    assert _exempt(walk) in _old(walk)
    assert purged["before"] - purged["after"] == expected


def test_room_is_set_aside_until_the_plan_is_exhausted(walk, purged):
    assert purged["room"] > 2**20
    assert not list(walk.root.glob(".trimtab-*"))


def test_nothing_is_touched_but_by_a_run_that_deletes(purged):
    assert purged["after dry"] == purged["before"]
    assert purged["after stop"] >= purged["before"]
    assert purged["dry"]["applied"] is False


def test_every_row_of_the_plan_is_accounted_for(walk, purged):
    run = purged["run"]
    assert (run["applied"], run["reason"], run["rows_left"]) == (True, "plan-exhausted", 0)
    assert run["rows"] == purged["plan"]["files"] == sum(run["outcomes"].values())
    assert run["outcomes"]["deleted"] == run["files"] == run["rows"] - len(purged["kept"])
    assert run["freed_bytes"] == run["bytes"] > 0
    assert run["after"]["used_bytes"] < run["before"]["used_bytes"]
    assert purged["again"]["files"] == 0


def test_a_dry_run_says_what_the_run_then_does(purged):
    assert purged["dry"]["outcomes"] == {"would_delete": purged["plan"]["files"]}


@pytest.mark.parametrize(
    ("when", "guards"), [("unpublished", ("published", "armed")), ("unarmed", ("armed",))]
)
def test_a_run_is_refused_and_says_what_is_missing(purged, when, guards):
    ended = purged[when]
    assert ended.code == 4
    assert "Traceback" not in ended.stderr
    for guard in guards:
        assert f"{guard}: " in ended.stderr
    if when == "unpublished":
        assert [one["guard"] for one in ended.document["objections"]] == list(guards)
        assert ended.document["error"]["exit_code"] == 4


@pytest.mark.parametrize(("what", "words"), [("arm early", "notify"), ("stopped", "kill-switch")])
def test_a_plan_that_nobody_has_seen_is_not_armed_and_the_kill_switch_stops_a_run(
    purged, what, words
):
    assert (purged[what].code, words in purged[what].stderr) == (4, True)


def test_the_horizon_names_the_lists_that_the_plan_then_has(walk, purged):
    horizon, plan = purged["horizon"], purged["plan"]
    freed, rules = horizon["published"]["freed"], horizon["rules"]
    assert (freed["files"], freed["allocated_bytes"]) == (plan["files"], plan["allocated_bytes"])
    assert (rules["counted"], rules["minimum_age_s"]) == (["mtime"], MINIMUM_S)
    assert {one["owner"] for one in horizon["users"]} == set(OWNERS)
    frees = [one["freed"]["allocated_bytes"] for one in horizon["steps"]]
    assert frees == sorted(frees)
    reasons = {one["reason"]: one["files"] for one in horizon["needed"]["kept"]}
    assert reasons["exempt_path"] == 1
    assert sum(reasons.values()) + horizon["needed"]["eligible"]["files"] == purged["scan"]["names"]


def test_every_user_has_a_list_of_their_own(walk, purged):
    lists = purged["notify"]["lists"]
    assert {one["uid"] for one in lists} == set(OWNERS)
    directory = Path(purged["notify"]["directory"])
    for one in lists:
        text = directory / f"{one['name']}.txt"
        assert (text.stat().st_uid, text.stat().st_mode & 0o777) == (one["uid"], 0o600)
        names = (directory / f"{one['name']}.nul").read_bytes().split(b"\0")[:-1]
        assert len(names) == one["files"]
        assert all(b"user %d" % one["uid"] in name for name in names)


def test_the_report_says_what_was_deleted_and_what_was_kept(walk, purged):
    (real,) = [day for day in purged["report"]["days"] if not day["dry"]]
    run = purged["run"]
    assert (real["files"], real["freed_bytes"]) == (run["files"], run["freed_bytes"])
    assert (sum(real["kept"].values()), len(real["runs"])) == (len(purged["kept"]), 5)
    assert {user["uid"] for user in real["users"]} == set(OWNERS)
    (plan,) = purged["report"]["plans"]
    assert (plan["plan"], plan["waiting_rows"]) == (purged["plan"]["plan"], 0)
    assert sum(plan["outcomes"].values()) == plan["rows"]


def test_the_run_stands_in_the_sites_log_book(walk, purged):
    ended = trimtab(
        "event", "list", walk.private / "walk.toml", "--json", store=walk.private / "store.db"
    )
    (event,) = ended.document["events"]
    assert (event["kind"], event["source"]) == ("purge", "journal")
    assert f"{purged['run']['files']} files" in event["detail"]
    assert purged["run"]["notes"] == []


def test_who_holds_what(walk, purged):
    assert {row["files"] for row in purged["by"]["rows"]} == {len(walk.files) // len(OWNERS)}
    assert len(purged["sql"]["rows"]) == len(walk.files)
    assert all(row["path"].isprintable() for row in purged["sql"]["rows"])


def test_every_user_has_one_mail_over_tls(walk, purged, post):
    told = {user["account"] for user in purged["notify"]["lists"]}
    recipients = sorted(each.recipient for each in post.taken)
    assert recipients == sorted(f"{name}@example.org" for name in told)
    assert all(each.encrypted for each in post.taken)
    assert purged["notify"]["mails"]["sent"] == len(told) == len(OWNERS)
    again = walk.good("notify", walk.plan, "--mail", ago_s=AGO_S - 1200)
    assert (again["mails"]["sent"], again["mails"]["sent_before"]) == (0, len(told))
    assert len(post.taken) == len(told)


def test_the_past_is_replayed(walk, purged):
    replayed = purged["replay"]
    assert replayed["deleted"]["files"] > 0
    outcomes = {name: one["files"] for name, one in replayed["outcomes"].items()}
    assert sum(outcomes.values()) == replayed["deleted"]["files"]
    # The one that was touched, or written.
    assert min(outcomes["written"], outcomes["gone"]) >= 1


def test_what_is_printed_acts_on_no_terminal(walk, purged):
    """Every page and every word on standard error, names of files and all."""
    pages = [
        ("query", "--index", walk.index, "SELECT path FROM files"),
        ("query", "--index", walk.index, "--by", "age"),
        ("horizon", "--index", walk.index, "--policy", walk.policy),
        ("evasion", "--index", walk.index, "--files", 1),
        ("run", walk.plan),
        ("report",),
        ("policy", walk.policy),
        ("notify", walk.plan),
    ]
    for page in pages:
        ended = walk.trimtab(*page)
        assert ended.code == 0, ended.stderr
        assert ended.stdout.strip()
        assert not re.search(r"[^\S\n ]|[\x00-\x08\x0b-\x1f\x7f]", ended.stdout + ended.stderr)


def test_every_document_fits_its_published_schema(walk, purged):
    commands = set(walk.ended)
    assert commands == {
        "scan", "query", "horizon", "evasion", "replay", "plan", "notify", "arm", "run", "report",
    }  # fmt: skip
    for name in commands:
        schema = "purge" if name == "report" else f"purge-{name}"
        assert misfits(walk.ended[name].document, schema) == [], name
