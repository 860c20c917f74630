"""What is shown is worked out in a process beside the server: the same, and the server answers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.support.small_site import SITE, hour
from tests.web.conftest import keep_small_site

from trimtab.errors import ToolError, UsageError
from trimtab.loop.event_log import Place, add_event
from trimtab.loop.site_judgement import Judged
from trimtab.record.store import Store
from trimtab.web import desk as desks
from trimtab.web.desk import Desk
from trimtab.web.remembering import LONG
from trimtab.web.renewal import Renewal

pytestmark = pytest.mark.cli
PATIENCE_S = 60.0


@pytest.fixture
def store(tmp_path):
    with Store.open(keep_small_site(tmp_path / "t.db")) as opened:
        yield opened


@pytest.fixture
def renewal(store):
    made = Renewal(store.location.url, None)
    yield made
    made.close()


def is_there(process: int) -> bool:
    stat = Path(f"/proc/{process}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def test_the_other_process_works_out_the_same(store, renewal):
    mark, values = renewal(SITE, LONG)
    here = Desk(store)
    here_mark, expected = here.worked_out(SITE, LONG)
    assert mark == here_mark
    assert [*values] == [*LONG]
    judged, of_here = values.pop("judged"), expected.pop("judged")
    assert isinstance(judged, Judged)
    assert isinstance(of_here, Judged)
    assert judged.surveys is not None
    assert of_here.surveys is not None
    assert judged.judgement == of_here.judgement
    assert judged.judgement.series  # it came in parts
    assert [*judged.frames] == [*of_here.frames]
    assert all(judged.frames[key].equals(frame) for key, frame in of_here.frames.items())
    assert judged.surveys.equals(of_here.surveys)
    assert values == expected


def test_the_server_judges_nothing_itself(store, renewal, monkeypatch):
    monkeypatch.setattr(desks, "judge_site", lambda *a, **k: 1 / 0)
    monkeypatch.setattr(desks, "status_of", lambda *a, **k: 1 / 0)
    waiting: list = []
    ticks = iter(range(10**6))
    desk = Desk(store, elapsed_s=ticks.__next__, beside=waiting.append, elsewhere=renewal)
    shown = desk.judged(SITE), desk.status(SITE), desk.panels(SITE), desk.overview(SITE)
    add_event(store, Place(SITE, None), kind="note", detail="something", now=hour(302))
    assert desk.judged(SITE) is shown[0]
    waiting.pop()()
    assert desk.judged(SITE) is not shown[0]
    judged = desk.judged(SITE)
    assert judged is not None
    assert shown[0] is not None
    assert judged.judgement == shown[0].judgement
    assert not waiting  # the state that was worked out is the one that is there


def test_a_value_of_another_state_is_not_mixed_in(store):
    def of_later(site, names):
        return ("later",), dict.fromkeys(names)

    desk = Desk(store, elsewhere=of_later)
    assert desk.status(SITE) == Desk(store).status(SITE)


def test_a_killed_process_is_said_and_another_one_starts(store, renewal):
    first = renewal(SITE, ["status"])
    renewal._process.kill()
    renewal._process.join()
    with pytest.raises(ToolError) as caught:
        renewal(SITE, ["status"])
    assert caught.value.code == "worker-killed"
    assert renewal(SITE, ["status"]) == first


def test_what_it_ends_with_reaches_who_asked(renewal):
    with pytest.raises(UsageError) as caught:
        renewal("nowhere", ["status"])
    assert caught.value.code == "site-unknown"
    assert renewal(SITE, ["status"])[1]["status"] is not None


def test_it_ends_with_a_server_that_is_killed(store):
    program = (
        "import sys, time\n"
        "from trimtab.web.renewal import Renewal\n"
        "if __name__ == '__main__':\n"
        "    renewal = Renewal(sys.argv[1], None)\n"
        "    renewal(sys.argv[2], ['status'])\n"
        "    print(renewal._process.pid, flush=True)\n"
        "    time.sleep(600)\n"
    )
    argv = [sys.executable, "-c", program, store.location.url, SITE]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        worker = int(server.stdout.readline())
        assert is_there(worker)
        os.kill(server.pid, signal.SIGKILL)
    until = time.monotonic() + PATIENCE_S
    while is_there(worker) and time.monotonic() < until:
        time.sleep(0.05)
    assert not is_there(worker)
