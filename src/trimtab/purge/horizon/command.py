"""``trimtab purge policy``, ``horizon``, ``evasion`` and ``replay``: try a policy on an index."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from trimtab.base.error import UsageError, visible
from trimtab.purge import command
from trimtab.show import command_options
from trimtab.show.screen_document import show, show_page


@click.command("policy")
@click.argument("file", metavar="[FILE]", type=command_options.PATH, required=False)
@click.option("--root", metavar="DIR", help="Root of the new policy. Without it, FILE is checked.")
@click.option(
    "--name", metavar="NAME", help="Name of the new policy. Default: the last part of the root."
)
@click.option(
    "--target", type=command_options.FRACTION, help="Target fullness of the whole file system: 70%."
)
@click.option(
    "--target-ost", type=command_options.FRACTION, help="Or: target fullness of every OST."
)
@command.target_pool
@command_options.as_json
def purge_policy_command(
    *,
    file: Path | None,
    root: str | None,
    name: str | None,
    target: float | None,
    target_ost: float | None,
    target_pool: tuple[tuple[str, float], ...],
) -> None:
    """Write a commented policy file with every key and its default, or check one.

    With --root, write it to FILE, which must not exist; without FILE, print it. Without --root,
    check FILE as `plan` would read it: each error names its line.
    """
    from trimtab.base.text import sentences
    from trimtab.purge.policy_file import PurgePolicyDocument, load_policy, new_policy
    from trimtab.show.document import Document, Section

    targets = [target, target_ost, target_pool]
    if root is not None:
        command.one_target(*targets)
        if targets == [None, None, ()]:
            target = 0.7
        loaded = new_policy(
            root if root.startswith("/") else str(Path(root).resolve()),
            file,
            name=name,
            target=target,
            target_ost=target_ost,
            target_pool=command.pool_limits(target_pool),
        )
    elif file is None:
        raise UsageError(
            "give a policy file to check, or a root for a new policy",
            code="policy-missing",
            hint="trimtab purge policy --root /scratch scratch-purge.toml",
        )
    elif name is not None or targets != [None, None, ()]:
        raise UsageError(
            "--name and --target are for a new policy, which needs --root",
            code="root-missing",
            hint="edit the file itself",
        )
    else:
        loaded = load_policy(file)
    json = PurgePolicyDocument(
        file=None if file is None else str(file),
        name=loaded.policy.name,
        root=visible(loaded.policy.root),
        sha256=loaded.sha256,
        warnings=tuple(loaded.warnings),
        text=loaded.text,
    )
    if file is None:
        show(lambda: json, lambda: click.echo(loaded.text, nl=False))
        return
    done = "is good:" if root is None else "written to"
    warnings = Section(lines=sentences(loaded.warnings), tone="warning")
    answer = f"policy {loaded.policy.name} of {loaded.policy.root} {done} {file}"
    show_page(lambda: json, lambda: Document(answer, (warnings,)))


@click.command("horizon", cls=command_options.GroupedCommand)
@command.index
@click.option(
    "--policy",
    type=command_options.PATH,
    metavar="FILE",
    help="Policy whose target and rules apply.",
)
@click.option(
    "--target", type=command_options.FRACTION, help="Target fullness of the whole file system: 70%."
)
@click.option(
    "--target-ost", type=command_options.FRACTION, help="Target fullness of every OST: 75%."
)
@command.target_pool
@click.option(
    "--forecast", "forecast_s", type=command_options.POSITIVE_DURATION,
    help="How far growth is forecast. Default: until a plan of the policy expires.",
)  # fmt: skip
@click.option(
    "--used",
    type=command_options.SIZE,
    help="Bytes in use, if the file system is not mounted here.",
)
@click.option("--available", type=command_options.SIZE, help="Bytes available; with --used.")
@command.site
@command_options.place
@command.threads
@command_options.dask_or_site
@command_options.store
@command_options.keep
@command_options.report
@command_options.output
def purge_horizon_command(
    directory: Path, report: str | None, keep: str | None, **options_given: Any
) -> None:
    """Find the age cut-off that reaches a target, and what each cut-off frees, by owner.

    The horizon is the earliest cut-off at which deleting everything last used before it brings
    usage down to the target. Read-only: deletes nothing and lists nothing.
    """
    from trimtab.base.event import utc_now
    from trimtab.purge.horizon.horizon_question import ask_horizon
    from trimtab.purge.horizon.page import horizon_document
    from trimtab.show.screen_document import progress_bar

    policy = command.policy_of(options_given.pop("policy"))
    targets = [options_given[name] for name in ("target", "target_ost", "target_pool")]
    if [policy, *targets] == [None, None, None, ()]:
        raise UsageError(
            "the target fullness is missing",
            code="target-missing",
            hint="--target 70%, or --policy POLICY.toml",
        )
    command.one_target(*targets)
    question = command.horizon_question(directory, policy, **options_given)
    with progress_bar() as progress:
        progress("reading the index", 0.0)
        horizons = ask_horizon(question, now=utc_now())
    result = horizons.result
    if keep is not None:
        from trimtab.site.lookup import keep_result

        keep_result(keep, options_given["store_url"], result, utc_now())
    show_page(lambda: horizons, lambda: horizon_document(result), report)


@click.command("evasion")
@command.index
@click.option(
    "--earlier", type=command_options.PATH, multiple=True, metavar="DIR",
    help="Earlier index; give two or more to detect repeated renewal.",
)  # fmt: skip
@click.option(
    "--policy", type=command_options.PATH, metavar="FILE",
    help="Policy with ages, times and exempt users. Default: 8 weeks, all times, no user.",
)  # fmt: skip
@click.option(
    "--files", type=click.IntRange(1), metavar="N",
    help="Ignore owners with fewer files than this. Default: 1,000.",
)  # fmt: skip
@command_options.output
def purge_evasion_command(
    *,
    directory: Path,
    earlier: tuple[Path, ...],
    policy: Path | None,
    files: int | None,
) -> None:
    """Detect files kept artificially young. For information only.

    Detects files touched by the thousand, holdings read all at once, times in the future, and
    metadata that changes from index to index. None of this is proof; plans and runs ignore it.
    """
    from trimtab.purge.horizon.evasion import look_for_evasion
    from trimtab.purge.horizon.evasion_sign import PurgeEvasionDocument
    from trimtab.purge.horizon.page import evasion_document
    from trimtab.show.screen_document import progress_bar

    with progress_bar() as progress:
        progress("reading the index", 0.0)
        known = command.policy_of(policy)
        signs = look_for_evasion(directory, earlier=earlier, policy=known, files=files)
    show_page(
        lambda: PurgeEvasionDocument(str(directory), signs),
        lambda: evasion_document(signs, directory),
    )


@click.command("replay", cls=command_options.GroupedCommand)
@command.index
@click.option(
    "--later", type=command_options.PATH, required=True, metavar="DIR", help="Later index."
)
@click.option(
    "--policy",
    type=command_options.PATH,
    metavar="FILE",
    help="Policy whose target and rules apply.",
)
@click.option(
    "--target", type=command_options.FRACTION, help="Target fullness at the time of the index: 70%."
)
@click.option("--before", metavar="TIME", help="The cut-off itself, instead of a target.")
@click.option("--used", type=command_options.SIZE, help="Bytes in use at the time of the index.")
@click.option(
    "--available",
    type=command_options.SIZE,
    help="Bytes available at the time of the index; with --used.",
)
@click.option(
    "--reads-known", is_flag=True, help="Every class of client recorded reads in between."
)
@command.threads
@command_options.output
def purge_replay_command(
    directory: Path, later: Path, before: str | None, **options_given: Any
) -> None:
    """Replay a policy at the time of --index, and count what was used afterwards.

    Files are matched by their identity in the later index. Reads are counted only where every
    class of client records them.
    """
    from trimtab.base.units import parse_moment
    from trimtab.purge.horizon.horizon_question import replay_policy
    from trimtab.purge.horizon.page import replay_document
    from trimtab.show.screen_document import progress_bar

    policy = command.policy_of(options_given.pop("policy"))
    cut_off = None if before is None else parse_moment(before)
    if cut_off is not None and policy is None and options_given["target"] is None:
        options_given["target"] = 1.0  # any value: the cut-off is given
    reads_known = options_given.pop("reads_known")
    question = command.horizon_question(directory, policy, **options_given)
    with progress_bar() as progress:
        progress("reading both indexes", 0.0)
        replayed = replay_policy(question, later, before=cut_off, reads_known=reads_known)
    show_page(lambda: replayed, lambda: replay_document(replayed))
