"""Write the Grafana dashboard of a site: ``python scripts/dashboard.py deploy/grafana``.

One table of panels; the rest is what Grafana wants around each. A test compares the file with what
this writes, another evaluates every query on a real Prometheus.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

SCHEMA_VERSION: Final = 36
"""Grafana 9; later versions migrate it when it is opened."""
WIDTH: Final = 24
SITE: Final = 'site=~"$site"'
SERIES: Final = "{{probe}} {{metric}}"


@dataclass(frozen=True)
class Panel:
    """One panel: its title, unit, type, and queries with their legends.

    Attributes
    ----------
    steps
        Thresholds of its colours: pairs of colour and value.
    """

    title: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    kind: str = "timeseries"
    width: int = 8
    height: int = 8
    text: str = ""
    steps: tuple[tuple[str, float | None], ...] = (("green", None),)
    most: float | None = None


def _age(metric: str) -> str:
    return f"time() - {metric}{{{SITE}}}"


ROWS: Final[tuple[tuple[str, tuple[Panel, ...]], ...]] = (
    (
        "Now",
        (
            Panel(
                "Age of the metrics",
                "s",
                ((_age("trimtab_watch_refreshed_timestamp_seconds"), "{{site}}"),),
                kind="stat",
                width=4,
                height=4,
                text="Since the last slot. Old figures below are no news.",
                steps=(("green", None), ("orange", 7200), ("red", 86400)),
            ),
            Panel(
                "Open incidents",
                "none",
                ((f"sum(trimtab_incidents_open{{{SITE}}})", "incidents"),),
                kind="stat",
                width=4,
                height=4,
                steps=(("green", None), ("orange", 1)),
            ),
            Panel(
                "Targets with a problem",
                "none",
                ((f'sum(trimtab_targets{{{SITE},state!="ok"}}) or vector(0)', "targets"),),
                kind="stat",
                width=4,
                height=4,
                steps=(("green", None), ("orange", 1)),
            ),
            Panel(
                "Fullest target",
                "percentunit",
                ((f"max(trimtab_target_fullness_ratio{{{SITE}}})", "fullest"),),
                kind="stat",
                width=4,
                height=4,
                steps=(("green", None), ("orange", 0.70), ("red", 0.75)),
            ),
            Panel(
                "Goals missed",
                "none",
                ((f'sum(trimtab_probe_goal_state{{{SITE},state="missed"}})', "series"),),
                kind="stat",
                width=4,
                height=4,
                steps=(("green", None), ("orange", 1)),
            ),
            Panel(
                "Store",
                "bytes",
                ((f"trimtab_store_size_bytes{{{SITE}}}", "{{site}}"),),
                kind="stat",
                width=4,
                height=4,
            ),
        ),
    ),
    (
        "Performance",
        (
            Panel(
                "Bandwidth, last run",
                "Bps",
                ((f"trimtab_probe_last_bandwidth_bytes_per_second{{{SITE}}}", SERIES),),
                width=12,
            ),
            Panel(
                "Bandwidth, mean over the window",
                "Bps",
                ((f"trimtab_probe_bandwidth_bytes_per_second{{{SITE}}}", SERIES),),
                width=12,
            ),
            Panel(
                "Coefficient of variation and its 95 % interval",
                "percentunit",
                (
                    (f"trimtab_probe_cov_ratio{{{SITE}}}", SERIES),
                    (f"trimtab_probe_cov_lower_bound_ratio{{{SITE}}}", f"{SERIES} lower"),
                    (f"trimtab_probe_cov_upper_bound_ratio{{{SITE}}}", f"{SERIES} upper"),
                    (f"max(trimtab_probe_cov_goal_ratio{{{SITE}}})", "goal"),
                ),
                width=12,
                text="The goal is met where the upper end is under it, missed where the lower end "
                "is over it.",
            ),
            Panel(
                "State of the goals",
                "none",
                ((f"sum by (state) (trimtab_probe_goal_state{{{SITE}}})", "{{state}}"),),
                width=6,
            ),
            Panel(
                "Runs a day, by status",
                "none",
                (
                    (
                        f"sum by (status) (increase(trimtab_probe_runs_total{{{SITE}}}[1d]))",
                        "{{status}}",
                    ),
                ),
                width=6,
            ),
        ),
    ),
    (
        "Targets",
        (
            Panel(
                "Targets by state",
                "none",
                ((f"sum by (state) (trimtab_targets{{{SITE}}})", "{{state}}"),),
            ),
            Panel(
                "Fullness of the 10 fullest",
                "percentunit",
                ((f"topk(10, trimtab_target_fullness_ratio{{{SITE}}})", "{{target}}"),),
                most=1.0,
            ),
            Panel(
                "Age of the last trim, 10 oldest",
                "s",
                (
                    (
                        f"topk(10, {_age('trimtab_target_trimmed_timestamp_seconds')})",
                        "{{target}}",
                    ),
                ),
                text="Targets without a known trim are missing here.",
            ),
            Panel(
                "Writes to targets",
                "Bps",
                ((f"sum(rate(trimtab_target_written_bytes_total{{{SITE}}}[1h]))", "written"),),
            ),
            Panel(
                "Write amplification, 10 highest",
                "none",
                ((f"topk(10, trimtab_target_write_amplification_ratio{{{SITE}}})", "{{target}}"),),
            ),
            Panel(
                "Useless loops of the allocator, 10 most",
                "ops",
                (
                    (
                        "topk(10, sum by (target) (rate("
                        f"trimtab_target_allocator_useless_loops_total{{{SITE}}}[1h])))",
                        "{{target}}",
                    ),
                ),
            ),
        ),
    ),
    (
        "Incidents, actions, alerts",
        (
            Panel(
                "Open incidents by cause",
                "none",
                ((f"sum by (cause) (trimtab_incidents_open{{{SITE}}})", "{{cause}}"),),
            ),
            Panel(
                "Actions by outcome",
                "none",
                (
                    (
                        f"sum by (policy, outcome) (trimtab_actions_total{{{SITE}}}) or vector(0)",
                        "{{policy}} {{outcome}}",
                    ),
                ),
            ),
            Panel(
                "Alerts and plans that wait",
                "none",
                (
                    (
                        f"sum by (receiver) (trimtab_alerts_waiting{{{SITE}}}) or vector(0)",
                        "alerts {{receiver}}",
                    ),
                    (
                        f"sum by (policy) (trimtab_plans_waiting{{{SITE}}}) or vector(0)",
                        "plans {{policy}}",
                    ),
                ),
            ),
        ),
    ),
    (
        "The watch itself",
        (
            Panel(
                "Duration of slots",
                "s",
                ((f"trimtab_watch_slot_duration_seconds{{{SITE}}}", "{{item}}"),),
            ),
            Panel(
                "Lag of slots",
                "s",
                ((f"trimtab_watch_slot_lag_seconds{{{SITE}}}", "{{item}}"),),
            ),
            Panel(
                "Memory",
                "bytes",
                (('process_resident_memory_bytes{job="trimtab"}', "{{instance}}"),),
            ),
        ),
    ),
)

DATASOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}


def dashboard() -> dict[str, Any]:
    """Return the dashboard."""
    return {
        "uid": "trimtab-site",
        "title": "Trimtab: a site",
        "description": "Performance, targets and incidents of a site that trimtab watches.",
        "tags": ["trimtab", "storage"],
        "timezone": "browser",
        "editable": True,
        "graphTooltip": 1,
        "refresh": "1m",
        "schemaVersion": SCHEMA_VERSION,
        "time": {"from": "now-7d", "to": "now"},
        "annotations": {"list": []},
        "templating": {
            "list": [
                {
                    "type": "datasource",
                    "name": "datasource",
                    "label": "Data source",
                    "query": "prometheus",
                    "current": {"text": "default", "value": "default"},
                },
                {
                    "type": "query",
                    "name": "site",
                    "label": "Site",
                    "datasource": DATASOURCE,
                    "query": "label_values(trimtab_site_info, site)",
                    "includeAll": True,
                    "multi": True,
                    "refresh": 2,
                    "current": {"text": "All", "value": "$__all"},
                },
            ]
        },
        "panels": list(_panels()),
    }


def _panels() -> Iterator[dict[str, Any]]:
    number, y = 1, 0
    for title, panels in ROWS:
        yield {
            "id": number,
            "type": "row",
            "title": title,
            "collapsed": False,
            "panels": [],
            "gridPos": {"h": 1, "w": WIDTH, "x": 0, "y": y},
        }
        number, y, x, height = number + 1, y + 1, 0, 0
        for panel in panels:
            if x + panel.width > WIDTH:
                x, y, height = 0, y + height, 0
            yield _panel(panel, number, {"h": panel.height, "w": panel.width, "x": x, "y": y})
            number, x, height = number + 1, x + panel.width, max(height, panel.height)
        y += height


def _panel(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    steps = [{"color": color, "value": value} for color, value in panel.steps]
    defaults: dict[str, Any] = {
        "unit": panel.unit,
        "thresholds": {"mode": "absolute", "steps": steps},
    }
    options: dict[str, Any] = {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
    if panel.kind == "stat":
        options = {"reduceOptions": {"calcs": ["lastNotNull"], "values": False}}
        options |= {"colorMode": "value", "graphMode": "none", "justifyMode": "auto"}
        options |= {"textMode": "auto", "wideLayout": True, "orientation": "auto"}
        options |= {"showPercentChange": False, "percentChangeColorMode": "standard"}
    else:
        defaults |= {"min": 0, "custom": {"fillOpacity": 0, "showPoints": "auto"}}
    if panel.most is not None:
        defaults["max"] = panel.most
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.text,
        "datasource": DATASOURCE,
        "gridPos": place,
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": DATASOURCE,
                "expr": expr,
                "legendFormat": legend,
            }
            for index, (expr, legend) in enumerate(panel.queries)
        ],
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": options,
    }


def text() -> str:
    """Return the file."""
    return json.dumps(dashboard(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    (Path(sys.argv[1]) / "trimtab.json").write_text(text())
