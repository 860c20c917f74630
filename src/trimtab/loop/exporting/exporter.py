"""Offers metrics at a port and in a file. A scrape is answered from memory: it never reads a store.

A port that is taken, or a file that cannot be written, is logged and tried again with the next
slot; nothing of it reaches the watch.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trimtab.errors import TrimtabError, UsageError
from trimtab.loop.exporting.collecting import Collector
from trimtab.loop.exporting.serving import PATH, Answer, MetricsServer
from trimtab.loop.exporting.web_config import Protection, load_protection
from trimtab.loop.watching.log import fields
from trimtab.model.site import Site
from trimtab.record.trusted import plain_directory, write_durably
from trimtab.report.metrics import SiteNow, grouped, samples

if TYPE_CHECKING:
    from prometheus_client.core import Metric as Family

    from trimtab.record.slots import Slot


def families(now: SiteNow) -> Iterator[Family]:
    """Yield the metrics of a site as prometheus-client has them."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily

    for metric, rows in grouped(samples(now)):
        labels = list(metric.labels)
        if metric.kind == "info":
            family: Any = InfoMetricFamily(metric.name, metric.help, labels=[])
            for row in rows:
                family.add_metric([], dict(zip(labels, (now.site.name, *row.labels), strict=True)))
        else:
            kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
            family = kind(metric.name, metric.help, labels=labels)
            for row in rows:
                family.add_metric([now.site.name, *row.labels], row.value)
        yield family


class Exporter:
    """The metrics of one watch; to prometheus-client a collector that has what was read last."""

    def __init__(self, site: Site, collector: Collector, *, log: logging.Logger) -> None:
        self._site, self._collector, self._log = site, collector, log
        self._latest: tuple[Family, ...] = ()
        self._server: MetricsServer | None = None
        self._is_fresh = False

    @property
    def port(self) -> int | None:
        """The port that is listened on; ``None``: none."""
        return None if self._server is None else self._server.server_address[1]

    def collect(self) -> tuple[Family, ...]:
        """Return what was read last."""
        return self._latest

    def after_slot(self, slot: Slot | None = None) -> None:
        """Read the metrics again, and offer them."""
        now = self._collector.collect(None if slot is None else slot.item)
        self._latest = tuple(families(now))
        self._is_fresh = True
        self._serve()
        self._write()

    def idle(self, now: datetime) -> None:
        """Offer what is known already when the watch begins."""
        if not self._is_fresh:
            self.after_slot()
        self._serve()

    def close(self) -> None:
        """Stop serving; the file stays, with the time at which it was read."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def _serve(self) -> None:
        listen, file = self._site.metrics.listen, self._site.metrics.web_config_file
        if listen is None:
            return
        current = None if self._server is None else self._server.protection
        protection = current
        try:
            if file is not None and (current is None or not current.is_current):
                protection = load_protection(Path(file))
        except UsageError as error:  # without its protection the port is not opened
            extra = fields(problem=error.message, hint=error.hint, served=self._server is not None)
            self._log.error("the web configuration of the metrics was not read", extra=extra)
            return
        if self._server is not None:
            self._server.protection = protection
            return
        self._open(listen, protection)

    def _open(self, listen: str, protection: Protection | None) -> None:
        host, _, port = listen.rpartition(":")
        try:
            server = MetricsServer(host.strip("[]"), int(port), _answer_of(self), protection)
        except OSError as error:
            extra = fields(listen=listen, problem=error.strerror or str(error))
            self._log.error("metrics are not served", extra=extra)
            return
        self._server = server
        threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
        scheme = "http" if protection is None or protection.tls is None else "https"
        address = f"{scheme}://{host}:{self.port}{PATH}"
        self._log.info("serving metrics", extra=fields(address=address))

    def _write(self) -> None:
        textfile = self._site.metrics.textfile
        if textfile is None:
            return
        from prometheus_client import generate_latest

        target = Path(textfile)
        try:
            # The directory may belong to the collector's user: nothing in it is followed.
            with plain_directory(target.parent, "the directory of metrics") as directory:
                text = generate_latest(self)
                write_durably(target.name, directory, text, mode=0o644)
        except TrimtabError as error:
            extra = fields(file=textfile, problem=error.message, hint=error.hint)
            self._log.error("the file of metrics was not written", extra=extra)


def _answer_of(exporter: Exporter) -> Answer:
    """Return what answers a scrape: with the metrics of the process, which the file has not."""
    from prometheus_client import CollectorRegistry, ProcessCollector
    from prometheus_client.exposition import choose_encoder

    registry: Any = CollectorRegistry(auto_describe=False)
    registry.register(exporter)
    ProcessCollector(registry=registry)  # node_exporter has these of its own

    def answer(accept: str) -> tuple[bytes, str]:
        encode, content_type = choose_encoder(accept)
        return encode(registry), content_type

    return answer
