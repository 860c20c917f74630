"""How this installation gets an extra: never by a name that anybody could register.

The name ``trimtab`` is on no public index, so a command that asks one for it would install what a
stranger put there. What is named instead is the wheel or the checkout that this installation was
made from.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from trimtab.visible import shell_text

if TYPE_CHECKING:
    from importlib.metadata import Distribution

_DISTRIBUTION: Final = "trimtab"


def install_command(extra: str) -> str:
    """Return the shell command that adds an extra to this installation.

    Where nothing tells what the installation was made from (a wheelhouse, a package), the command
    has ``WHEEL`` for the path of the release's wheel.
    """
    from importlib.metadata import PackageNotFoundError, distribution  # slow, and hardly needed

    try:
        origin = _origin(distribution(_DISTRIBUTION))
    except PackageNotFoundError:
        origin = ()
    if origin:
        *options, source = origin
        return shell_text([sys.executable, "-m", "pip", "install", *options, f"{source}[{extra}]"])
    pip = shell_text([sys.executable, "-m", "pip", "install"])
    return f"{pip} 'WHEEL[{extra}]' (WHEEL: the path of the release's trimtab-*.whl)"


def _origin(made: Distribution) -> tuple[str, ...]:
    """Return what pip installed, with the option before it; nothing where it is not recorded.

    PEP 610: ``direct_url.json``. A wheel that pip chose from an index or a directory has none.
    """
    import json  # with urllib slow, and hardly needed: every start of a command imports this module
    from urllib.parse import unquote, urlsplit

    try:
        recorded = json.loads(made.read_text("direct_url.json") or "{}")
        url = urlsplit(str(recorded["url"]))
    except (ValueError, KeyError, TypeError):
        return ()
    if url.scheme != "file":
        return ()
    path = unquote(url.path)
    editable = recorded.get("dir_info", {}).get("editable", False)
    return ("--editable", path) if editable else (path,)
