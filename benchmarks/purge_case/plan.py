"""``trimtab purge plan`` for a file system that is not there: how full it is has to be said.

python -m benchmarks.purge_case.plan INDEX POLICY SITE STORE OUT
"""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.purge_case import case

from trimtab.base.encode import to_json
from trimtab.base.event import utc_now
from trimtab.purge.fullness import Usage
from trimtab.purge.horizon.horizon_question import HorizonQuestion
from trimtab.purge.plan.plan_making import make_plan
from trimtab.purge.policy_file import load_policy
from trimtab.store.location import purge_place


def main() -> None:
    """Make the plan and print its document."""
    index, policy, site, store, out = sys.argv[1:]
    loaded, place = load_policy(Path(policy)), purge_place(None)
    question = HorizonQuestion(Path(index), site=site, store_url=store, place=place)
    usage = Usage(case.USED_BYTES, case.CAPACITY_BYTES - case.USED_BYTES)
    made = make_plan(
        question, loaded, Path(out), place=place, now=utc_now(), measure=lambda _: usage
    )
    print(to_json(made))


if __name__ == "__main__":
    main()
