"""Check that a site's own file system is mounted at its path.

An unmounted mount point is a directory of the disk above it. Everything works there, and every
number is of the wrong file system. So this is checked before each probe, not once.
"""

from __future__ import annotations

from trimtab.errors import ToolError
from trimtab.launch.process import Execute
from trimtab.launch.process import execute as run_process
from trimtab.loop.probing.reach import Reach
from trimtab.message import Message
from trimtab.model.driver import DRIVERS
from trimtab.model.filesystem import PathDescription
from trimtab.model.site import Site


def why_wrong_mount(
    site: Site,
    description: PathDescription,
    identity: str | None,
    *,
    execute: Execute = run_process,
) -> Message | None:
    """Return why the path does not lead to the site's file system, ``None`` when it does.

    Parameters
    ----------
    identity
        Of the file system that is stored under the site's name; ``None`` where none is yet.
    """
    entry = DRIVERS[site.driver]
    mounted = f"at {site.path} is {description.fs_type} of {description.source}"
    if entry.named:
        # Lustre is the one kind of file system with a name.
        from trimtab.drivers.lustre.placement import name_at

        name = name_at(site.path, description, execute)
        if name is None:
            text = f"{mounted}, which is not {entry.title}: is {site.path} mounted?"
            return Message("not-mounted", text)
        if site.file_system not in (None, name):
            text = f"at {site.path} is the {entry.title} file system {name}, not {site.file_system}"
            return Message("other-file-system", text)
    if identity is not None and description.identity != identity:
        text = f"{mounted} ({description.identity}); {site.name} is stored as {identity}"
        return Message("other-file-system", text)
    return None


def refuse_wrong_mount(site: Site, identity: str | None, reach: Reach) -> None:
    """Raise where the path does not lead to the site's file system now.

    Raises
    ------
    ToolError
        It does not; a file system that is not mounted yet may be soon.
    """
    description = reach.open_path(site.path, reach.execute, reach.clock).description
    why = why_wrong_mount(site, description, identity)
    if why is not None:
        raise ToolError(
            why,
            code="wrong-file-system",
            hint="mount it; if it was made anew, give the site another name or store",
        )
