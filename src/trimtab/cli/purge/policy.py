"""``trimtab purge policy``: write a policy file, or check one."""

from __future__ import annotations

from pathlib import Path

import click

from trimtab.cli import options
from trimtab.cli.purge import terms
from trimtab.cli.render.document import show, show_page
from trimtab.errors import UsageError
from trimtab.visible import visible


@click.command("policy")
@click.argument("file", metavar="[FILE]", type=terms.PATH, required=False)
@click.option("--root", metavar="DIR", help="Root of the new policy. Without it, FILE is checked.")
@click.option(
    "--name", metavar="NAME", help="Name of the new policy. Default: the last part of the root."
)
@click.option(
    "--target", type=options.FRACTION, help="Target fullness of the whole file system: 70%."
)
@click.option("--target-ost", type=options.FRACTION, help="Or: target fullness of every OST.")
@terms.target_pool
@options.as_json
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
    from trimtab.loop.purging.policies import new_policy
    from trimtab.purge.policy_file import PurgePolicyDocument, load_policy
    from trimtab.report.sections import Document, Section
    from trimtab.report.text import sentences

    targets = [target, target_ost, target_pool]
    if root is not None:
        terms.one_target(*targets)
        if targets == [None, None, ()]:
            target = 0.7
        loaded = new_policy(
            root if root.startswith("/") else str(Path(root).resolve()),
            file,
            name=name,
            target=target,
            target_ost=target_ost,
            target_pool=terms.pool_limits(target_pool),
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
