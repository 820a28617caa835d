"""Alerts as Prometheus itself sees them: on which figures each one fires, and on which none does.

Source: ``promtool test rules`` of Prometheus 2.42, Debian 12.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from tests.cluster import parts

pytestmark = pytest.mark.cluster

RULES: Final = Path(__file__).parents[3] / "configs/monitoring/berth-rules.yaml"
NODE: Final = 'instance="worker-7"'

SICK: Final[Mapping[str, Mapping[str, str]]] = {
    "BerthDeviceUnhealthy": {"device_health{kind='gpu',device='gpu-0'}": "1 0+0x30"},
    "BerthDeviceUnknown": {"device_health{kind='gpu',device='gpu-0'}": "-1+0x30"},
    "BerthGpuXid": {"gpu_xid_total{class='fault',xid='79',device='gpu-0'}": "_x20 1+0x10"},
    "BerthNicAwayTooLong": {"device_excluded{kind='nic',reason='returning'}": "1+0x30"},
    "BerthHoldsDisputed": {"holds_disputed": "1+0x30"},
    "BerthNotReady": {"ready": "0+0x30"},
    "BerthRestarts": {"start_time_seconds": "100+60x30"},
    "BerthComponentRestarts": {"component_restarts_total{component='dra'}": "0+1x30"},
    "BerthComponentDown": {"component_up{component='dra'}": "0+0x30"},
    "BerthNriDisconnected": {"nri_connected": "0+0x30", "component_up{component='nri'}": "0+0x30"},
    "BerthSlicesNotWritten": {
        "slice_writes_total{verb='update',result='refused'}": "0+1x30",
        "slice_writes_total{verb='update',result='ok'}": "7+0x30",
    },
    "BerthProbesStuck": {"probes_stuck{kind='gpu'}": "1+0x30"},
    "BerthStateNotWritten": {"state_writes_total{result='error'}": "0+1x30"},
    "BerthPreparesFail": {"prepare_errors_total{kind='nic',reason='disk'}": "0+1x30"},
    "BerthPreparesSlow": {
        "prepare_seconds_bucket{result='ok',le='10'}": "0+0x60",
        "prepare_seconds_bucket{result='ok',le='45'}": "0+1x60",
        "prepare_seconds_bucket{result='ok',le='+Inf'}": "0+1x60",
    },
    "BerthHooksSlow": {
        "nri_hook_seconds_bucket{hook='RunPodSandbox',le='1'}": "0+0x60",
        "nri_hook_seconds_bucket{hook='RunPodSandbox',le='2.5'}": "0+1x60",
        "nri_hook_seconds_bucket{hook='RunPodSandbox',le='+Inf'}": "0+1x60",
    },
    "BerthLoopLags": {
        "event_loop_lag_seconds_bucket{le='0.25'}": "0+0x60",
        "event_loop_lag_seconds_bucket{le='0.5'}": "0+1x60",
        "event_loop_lag_seconds_bucket{le='+Inf'}": "0+1x60",
    },
}
"""By alert: figures on which it fires, one a minute, and no other does."""

WELL: Final[Mapping[str, str]] = {
    "device_health{kind='gpu',device='gpu-0'}": "0 1+0x30",
    "gpu_xid_total{class='application',xid='13',device='gpu-0'}": "0+1x30",
    "device_excluded{kind='nic',reason='not-selected'}": "9+0x30",
    "device_excluded{kind='nic',reason='returning'}": "0 1 1 0+0x30",
    "holds_disputed": "0+0x30",
    "ready": "0 0 1+0x30",
    "start_time_seconds": "100 100 200+0x30",
    "component_restarts_total{component='dra'}": "3+0x30",
    "component_up{component='dra'}": "0 1+0x30",
    "component_up{component='nri'}": "0+0x30",
    "nri_connected": "0 1+0x30",
    "slice_writes_total{verb='update',result='refused'}": "0+1x30",
    "slice_writes_total{verb='update',result='ok'}": "0+1x30",
    "probes_stuck{kind='gpu'}": "1 0+0x30",
    "state_writes_total{result='error'}": "4+0x30",
    "state_writes_total{result='ok'}": "0+9x30",
    "prepare_errors_total{kind='nic',reason='disk'}": "9+0x30",
    "prepare_seconds_bucket{result='ok',le='10'}": "0+1x30",
    "prepare_seconds_bucket{result='ok',le='+Inf'}": "0+1x30",
    "nri_hook_seconds_bucket{hook='RunPodSandbox',le='1'}": "0+1x30",
    "nri_hook_seconds_bucket{hook='RunPodSandbox',le='+Inf'}": "0+1x30",
    "event_loop_lag_seconds_bucket{le='0.25'}": "0+1x30",
    "event_loop_lag_seconds_bucket{le='+Inf'}": "0+1x30",
}
"""Figures of a node on which all is well, though something was amiss for a moment."""


def promtool(*arguments: str) -> str:
    """What promtool says, which must be that all is well."""
    done = subprocess.run(
        [str(parts.promtool()), *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def series(name: str) -> str:
    """The whole name of a series of the node."""
    name = name.replace("'", '"')
    return f"berth_{name[:-1]},{NODE}}}" if name.endswith("}") else f"berth_{name}{{{NODE}}}"


def case(figures: Mapping[str, str], fires: str) -> dict[str, Any]:
    """What promtool is asked: these figures, and that this alert alone fires, or none."""
    firing = [{"labels": f'{{alertname="{fires}"}}', "value": 1}] if fires else []
    asked = 'count by (alertname) (ALERTS{alertstate="firing"})'
    return {
        "name": fires or "well",
        "interval": "1m",
        "input_series": [{"series": series(s), "values": v} for s, v in figures.items()],
        "promql_expr_test": [{"expr": asked, "eval_time": "28m", "exp_samples": firing}],
    }


def test_promtool_takes_the_rules() -> None:
    """Prometheus' own judgement of each expression and each template."""

    assert f"{len(SICK)} rules found" in promtool("check", "rules", str(RULES))


def test_each_alert_fires_on_its_figures_alone(tmp_path: Path) -> None:
    """And none on a node that is well."""

    cases = [case(WELL, ""), *(case(figures, alert) for alert, figures in SICK.items())]
    asked = tmp_path / "alerts.yaml"  # JSON is YAML
    asked.write_text(
        json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": cases})
    )

    promtool("test", "rules", str(asked))
