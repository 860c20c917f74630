"""Which observers a site file asks for."""

from __future__ import annotations

from pathlib import Path

from tests.support.watched import Moving, a_log, a_site

from trimtab.base.notification import Alerts, MailAlerts, MetricsExport, Webhook
from trimtab.store.store import Store
from trimtab.watch.alert.alerting import Alerting
from trimtab.watch.beside import observers_of
from trimtab.watch.exporter import Exporter


def test_a_site_gets_the_observers_that_its_file_asks_for(tmp_path: Path) -> None:
    mail = Alerts(mail=MailAlerts(to=("ops@example.org",)))
    hook = (Webhook("chat", "https://example.org/"),)
    textfile = MetricsExport(textfile=str(tmp_path / "t.prom"))
    with Store.open(tmp_path / "t.db") as store:
        kinds = [
            [type(each) for each in observers_of(site, store, log=a_log()[0], clock=Moving())]
            for site in (
                a_site(),
                a_site(alerts=mail),
                a_site(webhooks=hook),
                a_site(metrics=textfile),
                a_site(webhooks=hook, metrics=textfile),
            )
        ]
    assert kinds == [[], [Alerting], [Alerting], [Exporter], [Alerting, Exporter]]


def test_metrics_of_lustre_name_its_file_system_and_no_others_do(tmp_path: Path) -> None:
    metrics = MetricsExport(textfile=str(tmp_path / "t.prom"))
    with Store.open(tmp_path / "t.db") as store:
        for driver, name in (("lustre", "work"), ("local", None), ("twin", None)):
            site = a_site(driver=driver, file_system="work", metrics=metrics)
            (exporter,) = observers_of(site, store, log=a_log()[0], clock=Moving())
            assert isinstance(exporter, Exporter)
            assert exporter._collector.collect().file_system == name
