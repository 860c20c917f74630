"""Plans: frozen, hashed and signed lists of what will be deleted, and that they were published.

::

    staging ─▶ candidates.parquet ─▶ freeze ─▶ plan.json, signature      (never changed again)
                                                    │
                                     notice ────────┤  published.json    (once all lists are out)
                                                    ▼
                                     load_plan ─▶ refusals ─▶ run

A plan is a directory of root's, 0700. What it is bound to (file system, root, index, policy) stands
in ``plan.json``; `load_plan` gives it back only if every byte is what was signed, `refusals` says
why it may not be carried out now.
"""

from __future__ import annotations

from trimtab.purge.plan.changes import Change, Named, changes, named
from trimtab.purge.plan.freeze import Staging, freeze, staging
from trimtab.purge.plan.key import SigningKey, create_key, read_key
from trimtab.purge.plan.load import (
    Circumstances,
    LoadedPlan,
    load_plan,
    published_before,
    refusals,
)
from trimtab.purge.plan.model import (
    Candidates,
    Plan,
    PlanDraft,
    PlannedFileSystem,
    PlannedHorizon,
    PlannedIndex,
    PlannedPolicy,
    PlannedRules,
    UserTotals,
)
from trimtab.purge.plan.names import escape, unescape
from trimtab.purge.plan.publication import Publication, UserList

__all__ = [
    "Candidates",
    "Change",
    "Circumstances",
    "LoadedPlan",
    "Named",
    "Plan",
    "PlanDraft",
    "PlannedFileSystem",
    "PlannedHorizon",
    "PlannedIndex",
    "PlannedPolicy",
    "PlannedRules",
    "Publication",
    "SigningKey",
    "Staging",
    "UserList",
    "UserTotals",
    "changes",
    "create_key",
    "escape",
    "freeze",
    "load_plan",
    "named",
    "published_before",
    "read_key",
    "refusals",
    "staging",
    "unescape",
]
