"""One user's requests wait for one another; who takes too much is refused, and nobody else."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Iterator
from contextlib import contextmanager

import polars as pl
import pytest
from sqlalchemy import select
from starlette.testclient import TestClient
from tests.web.conftest import HOSTILE, SITE, hour, signed_in

from trimtab.base.snapshot import Reading, Snapshot, Target, TargetSnapshot
from trimtab.store import schema
from trimtab.store.store import Store
from trimtab.web import api, request_guard
from trimtab.web import desk as desks
from trimtab.web.desk import Desk, Texts
from trimtab.web.request_guard import Busy, Lane, Lanes, RequestGuard, Turn

API = f"/api/v1/sites/{SITE}"
STRETCHES = "before=2026-01-01..2026-01-04&after=2026-01-05..2026-01-10"


async def entered(lane: Lane, user: str, order: list[str]) -> None:
    """Take a place, note it, and give it back when others had their turn."""
    await lane.enter(user)
    order.append(user)
    await asyncio.sleep(0)
    lane.leave(user)


def test_who_waits_for_themselves_holds_up_nobody_else():
    async def orders() -> list[str]:
        order: list[str] = []
        lane = Lane(2, 1, waiting_of_user=10)
        many = [entered(lane, "abuser", order) for _ in range(10)]
        await asyncio.gather(*many, entered(lane, "viewer", order), entered(lane, "other", order))
        assert lane._inside.total() == 0
        return order

    order = asyncio.run(orders())
    assert order[:2] == ["abuser", "viewer"]
    assert order.index("other") <= 3
    assert order.count("abuser") == 10


def test_places_and_those_who_wait_are_bounded():
    async def refused() -> None:
        lane = Lane(3, 2, waiting_of_user=1, refusal="full")
        await lane.enter("abuser")
        await lane.enter("abuser")
        waiting = asyncio.create_task(lane.enter("abuser"))
        await asyncio.sleep(0)
        with pytest.raises(Busy, match="full"):
            await lane.enter("abuser")
        await lane.enter("viewer")
        lane.leave("abuser")
        await waiting

    asyncio.run(refused())


@pytest.mark.parametrize("is_given", [False, True])
def test_who_goes_away_leaves_no_place_taken(is_given):
    async def gone() -> None:
        lane = Lane(1, 1, waiting_of_user=2)
        await lane.enter("a")
        waiting = asyncio.create_task(lane.enter("b"))
        await asyncio.sleep(0)
        if is_given:
            lane.leave("a")  # the place is b's, who has not run yet
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        if not is_given:
            lane.leave("a")
        await asyncio.wait_for(lane.enter("c"), 60)
        assert not lane._waiting

    asyncio.run(gone())


def test_a_turn_gives_back_every_place():
    async def taken() -> None:
        lanes = Lanes()
        every = (lanes.light, lanes.heavy, lanes.computing, lanes.streams)
        for _ in range(3):
            heavy, stream = Turn(lanes, "a"), Turn(lanes, "b")
            await heavy.light()
            await heavy.heavy()
            await stream.light()
            await stream.stream()
            assert [lane._inside.total() for lane in every] == [0, 1, 1, 1]
            heavy.computed()
            assert lanes.computing._inside.total() == 0
            heavy.end()
            stream.end()
            assert [lane._inside.total() for lane in every] == [0, 0, 0, 0]

    asyncio.run(taken())


# On the dashboard


@contextmanager
def full(guard: RequestGuard, user: str, *, heavy: int = 0, streams: int = 0) -> Iterator[None]:
    """Have a user hold places of a dashboard."""
    lanes = guard._lanes
    held = [lanes.heavy] * heavy + [lanes.streams] * streams

    async def take() -> None:
        for lane in held:
            await lane.enter(user)

    asyncio.run(take())
    yield
    for lane in held:
        lane.leave(user)


@pytest.mark.parametrize(
    "path",
    [
        f"{API}/compare?{STRETCHES}",
        f"{API}/targets/OST0000/readings.csv",
        f"{API}/targets/OST0000/readings.parquet",
        f"{API}/actions",
        f"{API}/runs",
        f"{API}/surveys.csv",
        f"{API}/runs/x/outputs/0",
        f"{API}/sweeps/x?workload=a",
        f"/s/{SITE}/target/OST0000",
        f"/s/{SITE}/runs/x",
        f"/s/{SITE}/sweeps?workload=a",
        f"/s/{SITE}/series?{STRETCHES}",
    ],
)
def test_what_takes_long_has_few_places_of_a_user(client, path):
    guard: RequestGuard = client.app  # type: ignore[assignment]
    assert client.get(path).status_code != 503
    with full(guard, "alice", heavy=request_guard.HEAVY_OF_USER):
        answer = client.get(path)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
        assert client.get(f"{API}/events").status_code == 200
        assert client.get(f"/s/{SITE}/overview").status_code == 200
    with full(guard, "somebody else", heavy=request_guard.HEAVY_OF_USER):
        assert client.get(path).status_code != 503
    assert guard._lanes.heavy._inside.total() == guard._lanes.computing._inside.total() == 0


def test_streams_of_a_user_are_few(client):
    guard: RequestGuard = client.app  # type: ignore[assignment]
    with full(guard, "alice", streams=request_guard.STREAMS_OF_USER):
        answer = client.get(f"/s/{SITE}/live")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
        assert client.get(f"{API}/events").status_code == 200
    assert request_guard.STREAMS_MAX >= 20 * request_guard.STREAMS_OF_USER


def test_requests_of_a_user_wait_in_a_bounded_queue(client):
    lane = client.app._lanes.light
    entry = ("alice", None)
    lane._inside["alice"] = request_guard.HELD_OF_USER
    lane._waiting += [entry] * request_guard.WAITING_OF_USER
    answer = client.get(f"{API}/events")
    lane._waiting.clear()
    del lane._inside["alice"]
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "busy")
    assert client.get(f"{API}/events").status_code == 200


# What is read and remembered


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """A site with three targets in five snapshots, one of them with a hostile name."""
    with Store.open(tmp_path_factory.mktemp("many") / "t.db") as store:
        store.ensure_site(SITE, driver="lustre")
        for number in range(5):
            seen = [
                TargetSnapshot(
                    Target(name, "ost", "oss1"),
                    (
                        Reading("used_bytes", number + 0.5, "statfs"),
                        Reading("import_state", "=1+1", "lctl", None, "@SUM(A1)"),
                    ),
                )
                for name in ("OST0000", "OST0001", HOSTILE)
            ]
            store.add_snapshot(SITE, Snapshot(hour(number), "lustre", True, tuple(seen)))
        yield Desk(store)


@pytest.fixture
def reader(many: Desk) -> TestClient:
    """A client of it that was let in."""
    return signed_in(many)


def test_readings_are_of_one_target_and_whole_in_every_form(reader, monkeypatch):
    monkeypatch.setattr(api, "_SNAPSHOTS_EACH", 2)
    path = f"{API}/targets/OST0001/readings"
    csv = pl.read_csv(io.BytesIO(reader.get(f"{path}.csv").content))
    parquet = pl.read_parquet(io.BytesIO(reader.get(f"{path}.parquet").content))
    assert csv.columns == parquet.columns == ["at", "name", "label", "number", "words"]
    assert csv.height == parquet.height == 10
    assert csv["number"].drop_nulls().to_list() == [0.5, 1.5, 2.5, 3.5, 4.5]
    assert parquet["words"].drop_nulls().to_list() == ["=1+1"] * 5
    assert reader.get(f"{path}.csv?since=2031-01-01").text.splitlines() == [",".join(csv.columns)]


def test_a_csv_holds_no_formula(reader):
    text = reader.get(f"{API}/targets/OST0000/readings.csv").text
    assert "'=1+1" in text
    assert "'@SUM(A1)" in text
    cells = [cell for line in text.splitlines() for cell in line.split(",")]
    assert not [cell for cell in cells if cell.startswith(("=", "@", "+"))]
    frame = pl.DataFrame({"a": ["=x", "+x", "-x", "@x", "\tx", "\rx", "\uff1dx", "x=", None]})
    kept = ["x=", None]
    expected = [*(f"'{text}" for text in frame["a"].to_list()[:-2]), *kept]
    assert api.harmless(frame)["a"].to_list() == expected


def kept(desk: Desk) -> set[str]:
    """Return the nouns of all values that the store keeps."""
    with desk.store._reading() as connection:
        return set(connection.execute(select(schema.derived.c.noun)).scalars())


def test_what_means_nothing_makes_no_further_document(reader, many):
    reader.get(f"{API}/targets")
    before = kept(many)
    assert f"document {API}/targets" in before
    for number in range(20):
        assert reader.get(f"{API}/targets?junk={number}&x={'x' * 3000}").status_code == 200
        assert reader.get(f"{API}/targets?limit={number + 1}").status_code == 200
    assert kept(many) == before


def test_documents_are_bounded_with_their_addresses(monkeypatch):
    monkeypatch.setattr(desks, "TEXTS_MAX", 20_000)
    texts = Texts()
    for number in range(200):
        texts.put((SITE, f"{number}" + "x" * 4000), "1", "y")
        held = sum(len(noun) + len(text) for (_, noun), (_, text) in texts._held.items())
        assert held < texts._size <= desks.TEXTS_MAX
    assert len(texts._held) == 4
    texts.put((SITE, "large"), "1", "y" * 30_000)
    assert (texts._size, len(texts._held)) == (0, 0)


def test_a_text_that_is_held_is_only_of_what_it_rests_on(monkeypatch):
    monkeypatch.setattr(desks, "TEXTS_MAX", 2000)
    texts = Texts()
    for name in "abca":
        texts.put((SITE, name), "1", name * 400)
    assert texts.get((SITE, "b"), "1") is None  # asked for longest ago
    assert texts.get((SITE, "a"), "1") == "a" * 400
    assert texts.get((SITE, "a"), "2") is None
    texts.put((SITE, "a"), "2", "x")
    assert (texts.get((SITE, "a"), "1"), texts.get((SITE, "a"), "2")) == (None, "x")


def test_names_that_nothing_has_leave_nothing_behind(reader, many):
    reader.get(f"/s/{SITE}/overview")
    before = kept(many)
    held = [dict(each) for each in (many._places, many._making, many._recent, many._states)]
    for number in range(5):
        for path in (
            f"/api/v1/sites/no{number}/status",
            f"/api/v1/sites/no{number}/ladder",
            f"/api/v1/sites/no{number}/events",
            f"/s/no{number}/ladder",
            f"/s/no{number}/survey/x",
            f"/s/no{number}/live",
            f"/s/{SITE}/survey/no{number}",
            f"/s/{SITE}/chart/no{number}",
            f"/s/{SITE}/target/no{number}%00",
            f"/s/{SITE}/sweeps?name=no{number}",
        ):
            assert reader.get(path).status_code in {400, 404}, path
    assert kept(many) == before
    assert held == [dict(each) for each in (many._places, many._making, many._recent, many._states)]
