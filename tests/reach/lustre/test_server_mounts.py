"""Which mount is a target's: as the servers of several versions answer, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.fake_lustre.acting import FakeMachine
from tests.fake_lustre.state import FakeLustre

from trimtab.reach.lustre.writer_order import End, mount_here

RECORDED = Path(__file__).parents[2] / "fixtures/lustre/2.17.0/server-mounts.out"
OST = "scratch-OST0001"
POINT = "/mnt/lustre/ost1"


class Recorded:
    """A machine that answers what a server of Lustre 2.17.0 answered, but for what is changed."""

    def __init__(self, **changed: str | None) -> None:
        self.out = RECORDED.read_text()
        self.changed = changed

    def text(self, path: str, timeout_s: float) -> str:
        assert path == "/proc/self/mountinfo"
        return "".join(f"{line}\n" for line in self.out.splitlines() if " - lustre " in line) + str(
            self.changed.get("more", "")
        )

    def leads_to(self, mount_point: str, source: str, timeout_s: float) -> list[str | None]:
        forms = {
            "mount": rf"^{mount_point} is in mnt_id: (\d+)$",
            "seen": rf"^{mount_point} lies on (\S+) ",
            "device": rf"^{source} is (\d+:\d+),",
        }
        found = {name: re.findall(form, self.out, re.MULTILINE)[0] for name, form in forms.items()}
        return list({**found, **{k: v for k, v in self.changed.items() if k in forms}}.values())


def test_a_target_is_found_where_a_running_server_has_it() -> None:
    for number, target in enumerate(("MDT0000", "OST0000", "OST0001")):
        mount = mount_here(Recorded(), {"service": f"scratch-{target}"})
        assert mount["source"] == f"/dev/vd{'abc'[number]}"
        # What it is about: the two numbers differ since 2.16.
        _, seen, device = Recorded().leads_to(mount["point"], mount["source"], 1.0)
        assert seen == device != mount["number"]


@pytest.mark.parametrize("device", ["253:32", None])
def test_before_2_16_the_number_is_that_of_the_table(device: str | None) -> None:
    older = Recorded(seen="0:41", device=device)  # no device: a dataset of ZFS
    assert mount_here(older, {"service": OST})["point"] == POINT


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"mount": "160"}, f"another mount hides {OST} at {POINT}"),
        ({"mount": None}, f"another mount hides {OST} at {POINT}"),
        ({"mount": "160", "seen": "0:41"}, "another mount hides"),
        ({"seen": "253:16"}, f"is on device 253:16, but {OST} on 0:41 or 253:32 (/dev/vdc)"),
        ({"device": "253:48"}, f"is on device 253:32, but {OST} on 0:41 or 253:48 (/dev/vdc)"),
        ({"device": None}, f"{OST} on 0:41: /dev/vdc is no block device"),
    ],
)
def test_a_path_that_leads_elsewhere_is_refused(changed: dict[str, str], words: str) -> None:
    with pytest.raises(End) as end:
        mount_here(Recorded(**changed), {"service": OST})
    assert (end.value.answer["outcome"], end.value.answer["code"]) == ("skipped", "mount-changed")
    assert words in str(end.value)


@pytest.mark.parametrize("version", ["2.12.9", "2.15.4", "2.16.0", "2.17.57"])
def test_the_stand_in_answers_as_each_version_does(version: str) -> None:
    machine = FakeMachine(FakeLustre.pair(lustre_version=version), "oss1", None)
    mount = mount_here(machine, {"service": "scratch-OST0000"})
    _, seen, device = machine.leads_to(mount["point"], mount["source"], 1.0)
    assert seen == (device if version >= "2.16" else mount["number"])
    assert device != mount["number"]
