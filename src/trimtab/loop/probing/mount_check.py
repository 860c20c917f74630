"""Is what is mounted at a site's path the site's own file system?

An unmounted mount point is a directory of the disk above it. Everything works there, and every
number is of the wrong file system: so it is asked before each probe, not once.
"""

from __future__ import annotations

from trimtab.drivers.lustre.asking import ask_name
from trimtab.errors import ToolError
from trimtab.launch.launchers import Execute
from trimtab.launch.process import execute as run_process
from trimtab.loop.probing.reach import Reach
from trimtab.model.filesystem import PathDescription
from trimtab.model.mounts import lustre_name
from trimtab.model.site import Site


def why_wrong_place(
    site: Site,
    description: PathDescription,
    identity: str | None,
    *,
    execute: Execute = run_process,
) -> str | None:
    """Return why the path does not lead to the site's file system, ``None`` when it does.

    Parameters
    ----------
    identity
        Of the file system that is kept under the site's name; ``None`` where none is yet.
    """
    there = f"at {site.path} is {description.fs_type} of {description.source}"
    if site.driver == "lustre":
        # The mount table tells it all; what lfs knows of the path is as good.
        name = lustre_name(description.fs_type, description.source)
        name = name or ask_name(site.path, execute)
        if name is None:
            return f"{there}, and no Lustre: is it mounted?"
        if site.file_system not in (None, name):
            return f"at {site.path} is the Lustre file system {name}, not {site.file_system}"
    if identity is not None and description.identity != identity:
        return f"{there} ({description.identity}); {site.name} is kept as {identity}"
    return None


def refuse_wrong_place(site: Site, identity: str | None, reach: Reach) -> None:
    """Raise where the path does not lead to the site's file system now.

    Raises
    ------
    ToolError
        It does not: a file system that is not mounted yet may be soon.
    """
    description = reach.open_path(site.path, reach.execute, reach.clock).description
    why = why_wrong_place(site, description, identity)
    if why is not None:
        raise ToolError(
            why, hint="mount it; where it was made anew give the site another name or store"
        )
