"""Options that several steps of a purge share, and the question that they come to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from trimtab import units
from trimtab.errors import UsageError
from trimtab.visible import visible

if TYPE_CHECKING:
    from trimtab.loop.purging.horizons import Question

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

PATH = click.Path(path_type=Path)


class PoolLimit(click.ParamType):
    """The name of a pool and the fullness that it is not to be above: ``flash=75%``."""

    name = "pool"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, float]:
        """Return name and fraction."""
        if not isinstance(value, str):
            return value
        name, equals, text = value.partition("=")
        if not name or not equals:
            self.fail(f"{visible(value)!r} is no pool and fullness: flash=75%", param, ctx)
        try:
            return name, units.parse_fraction(text)
        except UsageError as error:
            hint = f" ({error.hint})" if error.hint else ""
            self.fail(f"{error.message}{hint}", param, ctx)


def target_pool(function: Decorated) -> Decorated:
    """Add ``--target-pool``."""
    return click.option(
        "--target-pool",
        type=PoolLimit(),
        multiple=True,
        metavar="POOL=FRACTION",
        help="Target fullness of a pool of OSTs: flash=75%. Repeatable.",
    )(function)


def pool_limits(pairs: Sequence[tuple[str, float]]) -> tuple[tuple[str, float], ...]:
    """Return the limits of pools as a policy has them.

    Raises
    ------
    UsageError
        A pool has two.
    """
    limits = dict(pairs)
    if len(limits) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in limits if names.count(name) > 1)
        raise UsageError(
            f"--target-pool names the pool {visible(twice)} twice",
            code="pool-named-twice",
            hint="leave one out",
        )
    return tuple(sorted(limits.items()))


def one_target(*targets: object) -> None:
    """Raise where more than one target is asked for.

    Parameters
    ----------
    targets
        What ``--target``, ``--target-ost`` and ``--target-pool`` were given; ``None`` or empty:
        nothing.

    Raises
    ------
    UsageError
        More than one was.
    """
    if sum(target is not None and target != () for target in targets) > 1:
        raise UsageError(
            "--target, --target-ost and --target-pool exclude one another",
            code="targets-exclusive",
            hint="leave one",
        )


def index(function: Decorated) -> Decorated:
    """Add ``--index``."""
    return click.option(
        "--index",
        "directory",
        type=PATH,
        required=True,
        metavar="DIR",
        help="Directory of the index.",
    )(function)


def place(function: Decorated) -> Decorated:
    """Add ``--place``."""
    text = (
        "Root-only directory for the signing key, journals and approvals. Default: "
        "$TRIMTAB_PURGE, else /var/lib/trimtab/purge."
    )
    return click.option("--place", "place", metavar="DIR", help=text)(function)


def site(function: Decorated) -> Decorated:
    """Add ``--site``."""
    text = (
        "Site that provides whether reads are recorded (a canary is read through each class of "
        "client), the use of each OST, the pools, and how use has grown."
    )
    return click.option("--site", "site", metavar="SITE", help=text)(function)


def threads(function: Decorated) -> Decorated:
    """Add ``--threads``."""
    return click.option(
        "--threads",
        type=click.IntRange(0, 256),
        default=0,
        metavar="N",
        help="Threads. Default: as many as suit the machine.",
    )(function)


def dask_of(site: str | None, dask: str | None) -> str | None:
    """Return whose Dask workers read the index: as asked, else those of the site's file."""
    from trimtab.loop.sites import open_site, with_dask

    named = open_site(site).site if site is not None and dask is None else None
    return with_dask(named, dask)


def horizon_question(directory: Path, *, policy: Path | None, **options_given: Any) -> Question:
    """Return the question that the options of ``horizon`` ask."""
    from trimtab.loop.purging.horizons import Question
    from trimtab.loop.purging.place import purge_place
    from trimtab.purge.horizon.usage import Usage
    from trimtab.purge.policy_file import load_policy

    used, available, ahead_s = (
        options_given["used"],
        options_given["available"],
        options_given["forecast_s"],
    )
    return Question(
        directory=directory,
        policy=None if policy is None else load_policy(policy).policy,
        target=options_given["target"],
        target_ost=options_given["target_ost"],
        target_pool=pool_limits(options_given["target_pool"]),
        usage=None if used is None else Usage(int(used), int(available)),
        site=options_given["site"],
        store_url=options_given["store_url"],
        place=purge_place(options_given["place"]),
        ahead_s=None if ahead_s is None else int(ahead_s),
        threads=options_given["threads"],
        dask=dask_of(options_given["site"], options_given["dask"]),
    )
