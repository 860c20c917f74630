"""The core's tally of an index as curves: of the whole, each user, project and OST."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from trimtab.purge.horizon.curve import AgeCurve, OwnerDays

Buffers = tuple[bytes, bytes, bytes]
"""Native arrays: hours or days since 1970 (i64), files (u64), allocated bytes (u64)."""


class TallyLike(Protocol):
    """What is read of `trimtab._core.Tally`."""

    @property
    def files(self) -> int:
        """Regular files of the index, eligible or not, hard links once."""
        ...

    @property
    def allocated_bytes(self) -> int:
        """What they take up."""
        ...

    @property
    def future_files(self) -> int:
        """Files with a time beyond the scan's end."""
        ...

    @property
    def latest_future_s(self) -> int | None:
        """The latest such time."""
        ...

    def kept(self) -> dict[str, tuple[int, int]]:
        """Return why files are not eligible: reason to files and bytes."""
        ...

    def hours(self) -> Buffers:
        """Return what is eligible, by the hour."""
        ...

    def users(self) -> Sequence[int]:
        """Return the users of whom something is eligible."""
        ...

    def projects(self) -> Sequence[int]:
        """Return the projects of which something is eligible."""
        ...

    def osts(self) -> Sequence[int]:
        """Return the OSTs on which something is eligible."""
        ...

    def days_of_user(self, uid: int, /) -> Buffers:
        """Return what is eligible of a user, by the day."""
        ...

    def days_of_project(self, project: int, /) -> Buffers:
        """Return what is eligible of a project, by the day."""
        ...

    def hours_of_ost(self, index: int, /) -> Buffers:
        """Return what is eligible of the objects on an OST, by the hour."""
        ...


def curve_of(tally: TallyLike) -> AgeCurve:
    """Return the curve of all that is eligible."""
    return AgeCurve.from_buffers(*tally.hours())


def user_days(tally: TallyLike) -> OwnerDays:
    """Return what is eligible of each user, by the day."""
    return OwnerDays.from_buffers((uid, tally.days_of_user(uid)) for uid in tally.users())


def project_days(tally: TallyLike) -> OwnerDays:
    """Return what is eligible of each project, by the day."""
    return OwnerDays.from_buffers(
        (project, tally.days_of_project(project)) for project in tally.projects()
    )


def ost_curves(tally: TallyLike) -> dict[int, AgeCurve]:
    """Return the curve of each OST on which something is eligible."""
    return {index: AgeCurve.from_buffers(*tally.hours_of_ost(index)) for index in tally.osts()}
