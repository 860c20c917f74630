"""Metrics served and written, and a real Prometheus and Alertmanager that read them."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import bcrypt
import pytest
from tests.support.mailbox import web_server
from tests.support.monitoring import alert_manager, eventually, prometheus
from tests.support.small_twin import small_scenario
from tests.support.watched import MONDAY, Ended, Moving, a_log, a_site, a_watch

from trimtab.base.action import Action, ActionKind, Instruction, Outcome
from trimtab.base.error import Message
from trimtab.base.event import new_identifier
from trimtab.base.site import Site
from trimtab.base.site_policy import MetricsExport, Webhook
from trimtab.base.snapshot import Reading
from trimtab.probe.site_probe import runner_of
from trimtab.site.lookup import open_acting_driver, open_driver, reach_of
from trimtab.site.site_file import load_site
from trimtab.store.store import Store
from trimtab.twin import twin_site
from trimtab.twin.scenario import ProbeLoad
from trimtab.twin.twin_run import TwinRequest, run_twin
from trimtab.watch.alerting import Alerting
from trimtab.watch.exporter import Exporter, families
from trimtab.watch.site_metrics import Collector
from trimtab.watch.watch import Watch

pytestmark = pytest.mark.system

ROOT = Path(__file__).resolve().parents[2]
PROBE = ProbeLoad(
    "hourly", "ior", "every 1h", nodes=2, tasks_per_node=2, bytes_written=128 * 2.0**20,
    timeout_s=600.0,
)  # fmt: skip


def scraped(port: int | None, accept: str = "") -> tuple[str, str]:
    """Return the metrics at a port, and their content type."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.read().decode(), answer.headers["Content-Type"]


@contextmanager
def exporting(tmp_path: Path, **metrics: Any) -> Iterator[tuple[Exporter, Store, Any]]:
    clock = Moving()
    site = a_site(snapshots="every 15m", metrics=MetricsExport(**metrics))
    log, lines = a_log()
    with Store.open(tmp_path / "t.db") as store:
        exporter = Exporter(site, Collector(site, store, clock=clock), log=log)
        until = MONDAY + timedelta(hours=2)
        watch = a_watch(site, store, clock, until=until, observers=(exporter,))
        close, exporter.close = exporter.close, lambda: None
        with pytest.raises(Ended):
            watch.run()
        try:
            yield exporter, store, lines
        finally:
            close()


def test_a_watch_is_scraped_in_both_formats_and_from_memory_alone(tmp_path: Path) -> None:
    with exporting(tmp_path, listen="127.0.0.1:0") as (exporter, store, _):
        text, kind = scraped(exporter.port)
        assert kind.startswith("text/plain")
        assert 'trimtab_watch_slots_total{item="snapshot",site="scratch",state="done"}' in text
        assert "process_resident_memory_bytes" in text
        opened, kind = scraped(exporter.port, "application/openmetrics-text; version=1.0.0")
        assert kind.startswith("application/openmetrics-text")
        assert opened.endswith("# EOF\n")
        store.close()
        (tmp_path / "t.db").unlink()
        assert scraped(exporter.port)[0].startswith("# HELP")
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(f"http://127.0.0.1:{exporter.port}/", timeout=10)


def test_a_text_file_is_whole_at_any_time_and_says_nothing_of_the_process(tmp_path: Path) -> None:
    file = tmp_path / "trimtab.prom"
    mask = os.umask(0o077)
    try:
        where = {"textfile": str(file), "listen": "127.0.0.1:0"}
        with exporting(tmp_path, **where) as (exporter, _, _lines):
            assert exporter.port is not None
            text = file.read_text()
    finally:
        os.umask(mask)
    assert text.endswith("\n")
    assert "process_" not in text
    assert file.stat().st_mode & 0o777 == 0o644
    assert [path.name for path in tmp_path.glob("*.prom*")] == ["trimtab.prom"]
    if shutil.which("promtool") is not None:
        words = ["promtool", "check", "metrics"]
        check = subprocess.run(words, input=text, text=True, capture_output=True, check=False)
        assert (check.returncode, check.stdout + check.stderr) == (0, "")


EXCHANGES_EVERYTHING = """
cd "$1" || exit
echo ready
while :; do for name in .*.part .*.prom.* trimtab.prom; do ln -sfn "$2" "$name"; done; done
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="writes as root into the directory of another user")
def test_the_owner_of_its_directory_gains_nothing_from_the_text_file(tmp_path: Path) -> None:
    for above in (tmp_path, *tmp_path.parents):  # of pytest: closed to others
        if not above.stat().st_mode & 0o001:
            above.chmod(0o755)
    secret = tmp_path / "secret"
    secret.write_text("root's own\n")
    secret.chmod(0o600)
    directory = tmp_path / "collector"
    directory.mkdir()
    os.chown(directory, 65534, 65534)
    for name in ("trimtab.prom", f".trimtab.prom.{os.getpid()}"):
        (directory / name).symlink_to(secret)
    file, known = directory / "trimtab.prom", Collector.__new__(Collector)
    log, _ = a_log()
    exporter = Exporter(a_site(metrics=MetricsExport(textfile=str(file))), known, log=log)
    exporter._write()
    assert not file.is_symlink()
    assert file.stat().st_mode & 0o777 == 0o644
    words = ["sh", "-c", EXCHANGES_EVERYTHING, "sh", str(directory), str(secret)]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(words, **pipes, user=65534, group=65534, extra_groups=[]) as hostile:
        assert hostile.stdout is not None
        hostile.stdout.readline()
        try:
            for _ in range(60):
                exporter._write()
        finally:
            hostile.kill()
    state = secret.stat()
    assert (secret.read_text(), state.st_mode & 0o777) == ("root's own\n", 0o600)
    assert (state.st_uid, state.st_nlink) == (0, 1)


def test_a_directory_that_became_a_link_is_not_written_into(tmp_path: Path) -> None:
    elsewhere, link = tmp_path / "elsewhere", tmp_path / "collector"
    elsewhere.mkdir()
    link.symlink_to(elsewhere)
    with exporting(tmp_path, textfile=str(link / "trimtab.prom")) as (_, _store, lines):
        assert list(elsewhere.iterdir()) == []
    assert "leads through the symbolic link" in lines.text()


def test_a_port_is_opened_with_its_protection_or_not_at_all(tmp_path: Path) -> None:
    config = tmp_path / "web.yml"
    where = {"listen": "127.0.0.1:0", "web_config_file": str(config)}
    with exporting(tmp_path, **where) as (exporter, _, lines):
        assert exporter.port is None
        assert "the web configuration of the metrics was not read" in lines.text()
        hashed = bcrypt.hashpw(b"sesame", bcrypt.gensalt(4)).decode()
        config.write_text(f"basic_auth_users: {{me: '{hashed}'}}")
        exporter.idle(MONDAY)
        for _ in range(2):
            with pytest.raises(urllib.error.HTTPError) as refused:
                scraped(exporter.port)
            refused.value.close()
            config.write_text("not understood")  # the protection that is in force stays
            exporter.idle(MONDAY)


def test_runs_of_sweeps_and_checks_are_no_labels(tmp_path: Path) -> None:
    """Their names are many, and each would be a series for ever."""
    with exporting(tmp_path, listen="127.0.0.1:0") as (exporter, store, _):
        run = store.runs(site="scratch", limit=1)[0]
        other = replace(run, id=new_identifier(MONDAY), probe="sweep-sizes", outputs=())
        store.add_run(other)
        exporter.after_slot()
        text = scraped(exporter.port)[0]
        assert 'probe="hourly"' in text
        assert "sweep-sizes" not in text


def test_a_port_that_is_taken_and_a_directory_that_is_gone_are_logged(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        where = {"listen": listen, "textfile": str(tmp_path / "gone" / "t.prom")}
        with exporting(tmp_path, **where) as (exporter, store, lines):
            assert exporter.port is None
            assert len(store.slots("scratch")) > 2
            taken.close()
            exporter.idle(MONDAY)
            assert exporter.port is not None
    text = lines.text()
    assert "metrics are not served" in text
    assert "the file of metrics was not written" in text


# --- with Prometheus and Alertmanager ------------------------------------------------------------


def twin_site_of(directory: Path) -> Site:
    """Return a site of which three days were simulated, and one target trimmed."""
    scenario = small_scenario(probes=(PROBE,))
    wanted = TwinRequest(scenario, directory, until_s=3 * 86400.0)
    site = load_site(run_twin(wanted, progress=lambda text, part: None).site_file).site
    return replace(site, snapshot_schedule="every 15m", metrics=MetricsExport("127.0.0.1:0"))


@pytest.fixture
def _closed_twins() -> Iterator[None]:
    yield
    for driver in twin_site._opened.values():
        driver.life.close()
    twin_site._opened.clear()


def trim_everything(site: Site, store: Store, now: Any) -> None:
    """Let the ledger say that each target was trimmed, as `trimtab trim --apply` does."""
    snapshot = store.latest_snapshot(site.name)
    assert snapshot is not None
    for seen in snapshot.targets:
        reason = Message("time-since-trim", "trimmed long ago")
        instruction = Instruction(ActionKind.TRIM, seen.target.name, reason)
        done = (now, instruction, now, Outcome.DONE)
        store.put_action(Action(new_identifier(now), site.name, "trim", "plan", "me", *done))


@pytest.mark.usefixtures("_closed_twins")
@pytest.mark.skipif(
    shutil.which("prometheus") is None or shutil.which("prometheus-alertmanager") is None,
    reason="Prometheus or Alertmanager is not installed",
)
def test_every_panel_of_a_scraped_watch_has_series_and_an_alert_arrives(tmp_path: Path) -> None:
    site = twin_site_of(tmp_path)
    board = json.loads((ROOT / "deploy" / "grafana" / "trimtab.json").read_text())
    rules = (ROOT / "deploy" / "prometheus" / "trimtab.rules.yml").read_text()
    expected = "TrimtabTargetCritical"
    # As in the file, but without the wait: that is tested with promtool.
    rules = "\n".join(line for line in rules.splitlines() if not line.startswith("        for: "))
    with web_server() as web, Store.open(site.store.url) as store:
        site = replace(site, webhooks=(Webhook("chat", web.url),))
        reach, (log, _) = reach_of(site), a_log()
        alerting = Alerting(site, store, log=log, clock=reach.clock)
        collector = Collector(site, store, clock=reach.clock, receivers=alerting.standing)
        exporter = Exporter(site, collector, log=log)
        trim_everything(site, store, reach.clock())
        driver, runner = open_driver(site, clock=reach.clock), runner_of(site, store, reach)
        watch = Watch(
            site, store, driver, runner, clock=reach.clock, sleep=reach.sleep,
            elapsed_s=reach.elapsed_s, open_acting=open_acting_driver, log=log,
        )  # fmt: skip
        watch.observe((alerting, exporter))
        assert len(watch.run(once=True)) == 2
        exporter.idle(reach.clock())  # the end of the watch closed its port
        with (
            alert_manager(tmp_path, web.url) as (manager, port),
            prometheus(tmp_path, exporter.port or 0, port, rules) as server,
        ):
            eventually(lambda: server.series("up == 1"))
            eventually(lambda: server.series("rate(trimtab_target_written_bytes_total[1h])"))
            empty = [
                (panel["title"], target["expr"])
                for panel in board["panels"]
                for target in panel.get("targets", ())
                if not server.series(target["expr"].replace("$site", ".*"))
            ]
            assert empty == []
            assert len(health_of_rules(server)) == 25
            eventually(lambda: set(health_of_rules(server)) == {"ok"})
            # A target becomes read-only: the next slot shows it, and everybody is told.
            set_read_only(exporter, collector)
            eventually(lambda: any(named(expected, each["alerts"]) for each in web.documents))
            (alert,) = named(expected, manager.get("/api/v2/alerts"))
            assert alert["labels"]["target"] == "OST0000"
            assert alert["labels"]["trouble"] == "read-only"
            assert alert["annotations"]["runbook_url"] == "RUNBOOK#trimtabtargetcritical"
        exporter.close()
        alerting.close()


def health_of_rules(server: Any) -> list[str]:
    groups = server.get("/api/v1/rules")["data"]["groups"]
    return [rule["health"] for group in groups for rule in group["rules"]]


def named(name: str, alerts: list[Any]) -> list[Any]:
    return [alert for alert in alerts if alert["labels"].get("alertname") == name]


def set_read_only(exporter: Exporter, collector: Collector) -> None:
    """Let the metrics say of one target that it is read-only, as after such a snapshot."""
    now = collector.collect()
    assert now.snapshot is not None
    seen, *others = now.snapshot.targets
    flag = Reading("read_only", True, source="test")
    seen = replace(seen, readings=(*(r for r in seen.readings if r.name != "read_only"), flag))
    snapshot = replace(now.snapshot, targets=(seen, *others))
    exporter._latest = tuple(families(replace(now, snapshot=snapshot)))
