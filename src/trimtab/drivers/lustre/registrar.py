"""Reads, registers and removes Trimtab's changelog users on the MDTs of a Lustre."""

from __future__ import annotations

from dataclasses import dataclass

from trimtab.drivers.lustre.acting import Order, act_alone
from trimtab.drivers.lustre.changelog import NEEDED
from trimtab.drivers.lustre.changelogs import ask_users
from trimtab.drivers.lustre.writer_changelog import REGISTER_TIMEOUT_S
from trimtab.drivers.lustre.writes import CHANGELOG_USER, changelog_parameter, mdt_service
from trimtab.drivers.lustre.writing import Writer
from trimtab.launch.fleet import FanOut
from trimtab.model.site import Servers
from trimtab.model.telemetry import NotAvailable, not_available


@dataclass(frozen=True, slots=True)
class Registrar:
    """Trimtab's changelog users on the MDTs of a file system.

    Attributes
    ----------
    writer
        ``None`` for read-only use.
    """

    servers: Servers
    file_system: str
    writer: Writer | None
    fan_out: FanOut

    def user(self, mdt: str) -> str | NotAvailable:
        """Return the user of an MDT, empty if it has none; see `ChangelogRegistrar.user`."""
        users = ask_users(self.servers, self.file_system, fan_out=self.fan_out).get(mdt)
        if users is None:
            return not_available("server-silent", f"the server of {mdt} does not answer")
        return ", ".join(user.name for user in users.of(CHANGELOG_USER))

    def change(self, server: str, mdt: str, before: str, *, registered: bool) -> str | NotAvailable:
        """Register or remove the user of an MDT; see `ChangelogRegistrar.change`."""
        if self.writer is None:
            return not_available("driver-read-only", "this driver is read-only")
        fields = {"fs": self.file_system, "mdt": mdt}
        instruction = {
            "do": "changelog", "fields": fields, "place": {"service": mdt_service(fields)},
            "registered": registered, "before": before, "needed": sorted(NEEDED),
        }  # fmt: skip
        order = Order(server, mdt, changelog_parameter(fields, "changelog_users"), instruction)
        timeout_s = self.servers.timeout_s + REGISTER_TIMEOUT_S
        change = f"{'registration' if registered else 'removal'} of the changelog user of {mdt}"
        result = act_alone(self.writer, order, change, timeout_s=timeout_s)
        return result if isinstance(result, NotAvailable) else result.found or ""
