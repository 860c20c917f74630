"""``trimtab serve``: the dashboard."""

from __future__ import annotations

import getpass
import ipaddress
from typing import TYPE_CHECKING, Final

import click

from trimtab.base.error import RefusedError, UsageError, install_command

if TYPE_CHECKING:
    from trimtab.site.place import Place
    from trimtab.store.store import Store
    from trimtab.web.access import WebSettings

DEFAULT: Final = "127.0.0.1:8765"


@click.command("serve")
@click.option("--site", "where", metavar="SITE", help="Serve this site alone. Default: all.")
@click.option(
    "--store",
    "store_url",
    metavar="URL",
    help="Where results are kept. Default: the site's own place, else $TRIMTAB_STORE, else "
    "/var/lib/trimtab (root) or the user's data directory.",
)
@click.option(
    "--bind",
    metavar="HOST:PORT",
    default=DEFAULT,
    show_default=True,
    help="Address to listen on. Others than this host's own need --config with a proxy.",
)
@click.option(
    "--config",
    "config",
    metavar="FILE",
    help="File with host names, the reverse proxy and roles. Default: none; a link that works "
    "once is printed.",
)
def serve_command(where: str | None, store_url: str | None, bind: str, config: str | None) -> None:
    """Serve the dashboard and its API from the store.

    It reads the store, the site file and what commands left on this host: purge plans and
    their journals. It asks no file system and no server. Ends with Ctrl-C.
    """
    refuse_without_libraries()
    from trimtab.site.lookup import open_site, open_store
    from trimtab.site.place import Place
    from trimtab.web.access import load_settings

    host, port = address(bind)
    settings = None if config is None else load_settings(config)
    _refuse_open(host, settings)
    site = None if where is None else open_site(where).site
    with open_store(store_url, site) as store:
        only = None if site is None or where is None else (where, Place(site.name, site))
        serve(store, only, host, port, settings)


def serve(
    store: Store,
    only: tuple[str, Place] | None,
    host: str,
    port: int,
    settings: WebSettings | None = None,
) -> None:
    """Serve the sites of a store until the process is ended.

    Parameters
    ----------
    only
        The one site to serve, with the word that names it; ``None``: all sites of the store.
    """
    import time

    from trimtab.watch.service import configured
    from trimtab.web.access import ProxyAccess, TokenAccess
    from trimtab.web.desk import Desk
    from trimtab.web.server import allow_connections, guarded, listening, server_of

    log = configured()
    allow_connections()
    listener = listening(host, port)
    port = listener.getsockname()[1]
    hosts = _hosts(host, port, settings)
    if settings is not None and settings.proxy.peers:
        access = ProxyAccess(settings)
        click.echo(f"Listening on {_shown(host, port)} for {', '.join(settings.proxy.peers)}.")
        if settings.secret is None and any(n.is_loopback for n in settings.proxy.networks):
            log.warning("every user of this host can name any user: set [proxy] secret_file")
    else:
        access = TokenAccess(
            lambda token: click.echo(
                f"Open http://{_shown(host, port)}/enter?token={token} (works once)"
            ),
            user=getpass.getuser(),
            elapsed_s=time.monotonic,
        )
        access.offer()
    server_of(guarded(Desk(store, only), access, hosts=hosts, log=log), listener).run()


def address(bind: str) -> tuple[str, int]:
    """Return host and port of an address to listen on.

    Raises
    ------
    UsageError
        It is no such address.
    """
    host, _, port = bind.rpartition(":")
    host = host.strip("[]")
    try:
        ipaddress.ip_address(host)
        number = int(port)
    except ValueError:
        number = -1
    if not 0 <= number < 2**16:
        raise UsageError(f"{bind!r} is no address", code="address-malformed", hint=DEFAULT)
    return host, number


def _refuse_open(host: str, settings: WebSettings | None) -> None:
    """Raise if a token would cross a network unencrypted."""
    if not ipaddress.ip_address(host).is_loopback and not (settings and settings.proxy.peers):
        raise RefusedError(
            f"{host} can be reached from other hosts, and no proxy signs people in",
            code="bind-not-loopback",
            hint="--config FILE with [proxy] peers; or bind to 127.0.0.1 and forward the port: "
            "ssh -L 8765:127.0.0.1:8765 HOST",
        )


def _shown(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _hosts(host: str, port: int, settings: WebSettings | None) -> frozenset[str]:
    """Return the accepted values of ``Host``."""
    names = {_shown(host, port), f"localhost:{port}"}
    if settings is not None:
        names |= {name.lower() for name in settings.hosts}
    return frozenset(names)


def refuse_without_libraries() -> None:
    """Raise if the extra ``web`` is not installed, with a hint."""
    try:
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise UsageError(
            f"the dashboard needs {error.name}, which is not installed",
            code="extra-missing",
            hint=install_command("web"),
        ) from error
