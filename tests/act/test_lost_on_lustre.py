"""What is still changed on a fake Lustre of which a part is lost, by the commands that act."""

from __future__ import annotations

import pytest
from tests.act.lustre_site import LustreSite, lustre
from tests.act.test_on_lustre import GIB, counts, fill, outcomes

__all__ = ["lustre"]
pytestmark = pytest.mark.system

POLICY = '[policy.balance]\nmost_closed = "50%"\n'
FIRST, LAST = "OST0000", "OST0007"


@pytest.mark.parametrize(
    ("part", "closed", "why"),
    [
        (LAST, [FIRST], "pool second: no current state of OST0007"),
        ("MDT0001", [], "the snapshot is incomplete"),
    ],
)
def test_a_lost_part_stops_what_rests_on_it_and_nothing_else(
    lustre: LustreSite, part: str, closed: list[str], why: str
) -> None:
    names = [target.name for target in lustre.fake.osts]
    lustre.fake.pools = {"first": names[:4], "second": names[4:]}
    lustre.write_site(POLICY)
    for name, fullness in ((FIRST, 0.9), ("OST0004", 0.92)):
        lustre.fake.target(name).untrimmed_bytes = GIB
        fill(lustre, name, fullness)
    lustre.fake.target(part).up = False
    assert outcomes(lustre.run("trim", "fake", "--targets", FIRST, "--apply")) == ["done"]
    assert lustre.fake.target(FIRST).untrimmed_bytes == 0
    plan = lustre.run("balance", "fake", *(["--apply"] if closed else []))["plan"]
    assert [row["target"] for row in plan["instructions"]] == closed
    assert all(row["reason"].startswith(why) for row in plan["untouched"])
    assert len(plan["untouched"]) == 2 - len(closed)
    assert all(count == 0 for count in counts(lustre, FIRST)) is bool(closed)
    assert all(count == 20000 for count in counts(lustre, "OST0004"))


def test_a_list_of_pools_that_cannot_be_read_closes_nothing(
    lustre: LustreSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    lustre.write_site(POLICY)
    fill(lustre, FIRST, 0.9)
    execute = lustre.fake.execute

    def without_pools(argv, **options):
        if tuple(argv[:2]) == ("lfs", "pool_list"):
            argv = ("lfs", "pool_list", "another")
        return execute(argv, **options)

    monkeypatch.setattr(lustre.fake, "execute", without_pools)
    plan = lustre.run("balance", "fake")["plan"]
    assert plan["instructions"] == []
    (left,) = plan["untouched"]
    assert left["reason"].startswith("members of pools unknown: lfs pool_list")
