"""The core's tally of an index as curves: of the whole, and of each user, project and OST."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trimtab.purge.horizon.curve import AgeCurve, OwnerDays

if TYPE_CHECKING:
    from trimtab._core import Tally


def curve_of(tally: Tally) -> AgeCurve:
    """Return the curve of all eligible files, by the hour of their last use."""
    return AgeCurve.from_buffers(*tally.hours())


def user_days(tally: Tally) -> OwnerDays:
    """Return the eligible files of each user, by the day of their last use."""
    return OwnerDays.from_buffers((uid, tally.days_of_user(uid)) for uid in tally.users())


def project_days(tally: Tally) -> OwnerDays:
    """Return the eligible files of each project, by the day of their last use."""
    return OwnerDays.from_buffers(
        (project, tally.days_of_project(project)) for project in tally.projects()
    )


def ost_curves(tally: Tally) -> dict[int, AgeCurve]:
    """Return the curve of each OST that holds eligible objects, by OST index."""
    return {index: AgeCurve.from_buffers(*tally.hours_of_ost(index)) for index in tally.osts()}
