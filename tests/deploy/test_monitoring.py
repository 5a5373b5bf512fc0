"""Alerts and dashboard: a Prometheus takes them, and they fire when they should."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.files import DEPLOY, load_all
from tests.docs.pages import DOCS, REFERENCE, code, codes, section, table

FOLDER = DEPLOY / "kubernetes" / "monitoring"
[KUSTOMIZATION] = load_all(FOLDER / "kustomization.yaml")
[MONITOR] = load_all(FOLDER / "service-monitor.yaml")
[RULE] = load_all(FOLDER / "prometheus-rule.yaml")
[GROUP] = RULE["spec"]["groups"]
DASHBOARD: dict[str, Any] = json.loads((FOLDER / "dashboard.json").read_text(encoding="utf-8"))
PANELS: list[str] = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
ALERTS: list[str] = [rule["expr"] for rule in GROUP["rules"]]

needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool (prometheus) is not installed"
)


def promtool(*arguments: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["promtool", *map(str, arguments)], capture_output=True, text=True, check=False
    )


def write_yaml(file: Path, content: object) -> Path:
    file.write_text(yaml.safe_dump(content), encoding="utf-8")
    return file


def series(metric: str, values: str, **labels: str) -> dict[str, str]:
    given = ",".join(f'{name}="{value}"' for name, value in labels.items())
    return {"series": f"{metric}{{{given}}}", "values": values}


REQUESTS = "http_server_request_duration_seconds_count"
CALLS = "mcp_server_operation_duration_seconds_bucket"
OPERATIONS = "skills-mcp-operations"

FIRING = {
    "SkillsServerAway": [series("up", "0+0x420", job=OPERATIONS)],
    "SkillsNothingServed": [series("skills_served", "0+0x420")],
    "SkillsContentOld": [
        series("skills_content_age_seconds", "0+60x420", source="", pod=pod) for pod in ("a", "b")
    ],
    "SkillsSyncFailing": [series("skills_sync_failures_total", "0+1x420", source="")],
    "SkillsReplicasDiffer": [
        each
        for c in ("a", "b")
        for each in (
            series("skills_served", "27+0x420", pod=c),
            series("skills_served_commit_info", "1+0x420", source="", commit=c, pod=c),
        )
    ],
    "SkillsServerOverloaded": [
        series(REQUESTS, "0+100x420", http_response_status_code="200"),
        series(REQUESTS, "0+2x420", http_response_status_code="503"),
    ],
    "SkillsServerFailing": [series(REQUESTS, "0+1x420", http_response_status_code="500")],
    "SkillsAnswersSlow": [
        series(CALLS, "0+0x420", gen_ai_tool_name="get_skill", le="1"),
        series(CALLS, "0+9x420", gen_ai_tool_name="get_skill", le="2.5"),
        series(CALLS, "0+9x420", gen_ai_tool_name="get_skill", le="+Inf"),
    ],
    "SkillsTasksWithoutSkill": [
        series("skills_routing_total", "0+3x420", outcome="no_match"),
        series("skills_routing_total", "0+2x420", outcome="match"),
    ],
}
"""For each alert, what a minute after another looks like when it should fire."""

WELL = [
    series("up", "1+0x420", job=OPERATIONS),
    *(series("skills_served", "27+0x420", pod=pod) for pod in ("a", "b")),
    series("skills_content_age_seconds", "60+0x420", source=""),
    series("skills_sync_failures_total", "3+0x420", source=""),
    *(
        series("skills_served_commit_info", "1+0x420", source="", commit=commit, pod=pod)
        for commit in ("a", "pinned")
        for pod in ("a", "b")
    ),
    series(REQUESTS, "0+100x420", http_response_status_code="200"),
    series(REQUESTS, "0+40x420", http_response_status_code="401"),
    series(CALLS, "0+9x420", gen_ai_tool_name="get_skill", le="1"),
    series(CALLS, "0+9x420", gen_ai_tool_name="get_skill", le="+Inf"),
    series("skills_routing_total", "0+1x420", outcome="no_match"),
    series("skills_routing_total", "0+2x420", outcome="match"),
]


FIRES = 'ALERTS{{alertname=~"{}",alertstate="firing"}}'


def alert_case(expression: str, given: list[dict[str, str]], *, fires: bool) -> dict[str, Any]:
    """Return a case for promtool: what an expression has after seven hours."""
    samples = [{"labels": "{}", "value": 1}] if fires else []
    return {
        "interval": "1m",
        "input_series": given,
        "promql_expr_test": [{"expr": expression, "eval_time": "7h", "exp_samples": samples}],
    }


def test_the_monitor_finds_the_operations_port() -> None:
    services = load_all(FOLDER.parent / "service.yaml")
    wanted = MONITOR["spec"]["selector"]["matchLabels"].items()
    [service] = [s for s in services if wanted <= s["metadata"]["labels"].items()]
    [endpoint] = MONITOR["spec"]["endpoints"]

    assert service["metadata"]["name"] == OPERATIONS
    assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
    assert endpoint["path"] == "/metrics"


def test_the_kustomization_lists_every_file() -> None:
    [generated] = KUSTOMIZATION["configMapGenerator"]
    listed = {*KUSTOMIZATION["resources"], *generated["files"], "kustomization.yaml"}

    assert {file.name for file in FOLDER.iterdir()} == listed
    kinds = {each["apiVersion"]: each["kind"] for each in (MONITOR, RULE)}
    assert set(kinds) == {"monitoring.coreos.com/v1"}


def test_each_alert_has_its_row_for_operators() -> None:
    page = DOCS / "how-to" / "operate.md"
    rows = [
        code(row["Alert"]) for row in table(section(page, "## What to do when")) if "Alert" in row
    ]

    assert rows == [rule["alert"] for rule in GROUP["rules"]]


def test_all_expressions_name_metrics_and_labels_that_exist() -> None:
    rows = table(section(REFERENCE / "metrics.md", "## What is measured"))
    metrics = {code(row["Metric"]) for row in rows} | {"up"}
    labels = {label for row in rows for label in codes(row["Labels"])} | {"job", "le"}
    within = r"\{([^}]*)\}|by \(([^)]*)\)"

    for expression in (*ALERTS, *PANELS):
        named = re.findall(r"[a-z]+_\w+|\bup\b", re.sub(within, "", expression))
        used = " ".join(map("".join, re.findall(within, expression)))
        stems = {re.sub("_(bucket|count)$", "", name) for name in named}

        unknown = {name for name in stems - metrics if not name.startswith("process_")}
        assert unknown <= {"histogram_quantile"}
        assert set(re.findall(r"(\w+) *(?==|!=|,|$)", used)) <= labels


@needs_promtool
def test_prometheus_takes_all_expressions(tmp_path: Path) -> None:
    panels = [
        {"record": f"panel:{number}", "expr": expression}
        for number, expression in enumerate(PANELS)
    ]
    groups = {"groups": [GROUP, {"name": "dashboard", "rules": panels}]}

    checked = promtool("check", "rules", write_yaml(tmp_path / "rules.yml", groups))

    assert checked.returncode == 0, checked.stderr
    assert f"{len(ALERTS) + len(PANELS)} rules found" in checked.stdout


@needs_promtool
def test_each_alert_fires_when_it_should_and_no_other_time(tmp_path: Path) -> None:
    assert list(FIRING) == [rule["alert"] for rule in GROUP["rules"]]
    write_yaml(tmp_path / "rules.yml", {"groups": [GROUP]})
    cases = [
        alert_case(f"count({FIRES.format(name)})", given, fires=True)
        for name, given in FIRING.items()
    ]
    cases.append(alert_case(f"count({FIRES.format('.+')})", WELL, fires=False))
    tests = {"rule_files": ["rules.yml"], "evaluation_interval": "5m", "tests": cases}

    done = promtool("test", "rules", write_yaml(tmp_path / "tests.yml", tests))

    assert done.returncode == 0, done.stdout + done.stderr
