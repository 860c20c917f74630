"""From options to the questions that the steps of a purge take."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trimtab.loop.purging.horizons import Question


def horizon_question(directory: Path, *, policy: Path | None, **asked: Any) -> Question:
    """Return the question that the options of ``horizon`` ask."""
    from trimtab.cli.purge.terms import pool_limits
    from trimtab.loop.purging.horizons import Question
    from trimtab.loop.purging.place import purge_place
    from trimtab.purge.horizon.usage import Usage
    from trimtab.purge.policy_file import load_policy

    used, available, ahead_s = asked["used"], asked["available"], asked["forecast_s"]
    return Question(
        directory=directory,
        policy=None if policy is None else load_policy(policy).policy,
        target=asked["target"],
        target_ost=asked["target_ost"],
        target_pool=pool_limits(asked["target_pool"]),
        usage=None if used is None else Usage(int(used), int(available)),
        site=asked["site"],
        store_url=asked["store_url"],
        place=purge_place(asked["place"]),
        ahead_s=None if ahead_s is None else int(ahead_s),
        threads=asked["threads"],
    )
