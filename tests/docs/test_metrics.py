"""The page of metrics has each of them, with its labels, and no other."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import get_args

import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from skills_mcp.http.http_server import Reason
from skills_mcp.http.metrics import Metrics
from skills_mcp.http.routes import ROUTES
from skills_mcp.server.measurements import (
    OPERATION,
    OUTCOMES,
    SESSION,
    ContentGauges,
)
from tests.docs.pages import REFERENCE, code, codes, section, table
from tests.support import measured_source, write

PAGE = REFERENCE / "metrics.md"
_OF_EVERY_PROGRAM = ("process_", "python_")


def full() -> Metrics:
    """Return metrics with a sample of each."""
    source = measured_source(commit="c0ffee", age_seconds=1.0, failed_syncs=0)
    condition = ContentGauges(skills=1, problems={"error": 1}, sources=(source,), events_waiting=0)
    metrics = Metrics(lambda: condition)
    metrics.record(SESSION, 1.0, "2025-06-18")
    metrics.record(OPERATION, 1.0, "tools/call", "get_skill", "", "2025-06-18")
    metrics.requests.labels("POST", "/mcp", "200").observe(1.0)
    return metrics


def test_the_table_has_every_metric_with_its_type_and_labels() -> None:
    text = full().render("")[0].decode()
    served = {
        _name(family.samples[0]): (family.type, _labels(family.samples[0]))
        for family in text_string_to_metric_families(text)
        if not family.name.startswith(_OF_EVERY_PROGRAM)
    }

    written = {
        code(row["Metric"]): (row["Type"], set(re.findall(r"`(\w+)`", row["Labels"])))
        for row in table(section(PAGE, "## What is measured"))
    }
    assert written == served


def _name(sample: Sample) -> str:
    return re.sub(r"_(bucket|count|sum)$", "", sample.name)


def _labels(sample: Sample) -> set[str]:
    return set(sample.labels) - {"le"}


def test_the_page_names_each_reason_outcome_and_route() -> None:
    text = PAGE.read_text(encoding="utf-8")

    for reason in get_args(Reason):
        assert json.dumps({"reason": reason})[1:-1] in text
    assert {f"`{each}`" in text for each in OUTCOMES} == {True}
    assert {each for each in ROUTES if f"`{each}`" not in text} == {
        each for each in ROUTES if each.startswith("/.well-known/")
    }


@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is not installed")
def test_each_condition_is_one_that_prometheus_understands(tmp_path: Path) -> None:
    conditions = [
        codes(row["Condition"])[0].replace("\\|", "|")
        for row in table(section(PAGE, "## What to watch"))
    ]
    rules = [{"alert": f"A{number}", "expr": each} for number, each in enumerate(conditions)]
    file = write(
        tmp_path / "rules.yml",
        json.dumps({"groups": [{"name": "skills", "rules": rules}]}),
    )

    found = subprocess.run(
        ["promtool", "check", "rules", str(file)], capture_output=True, check=False
    )

    assert found.returncode == 0, found.stdout + found.stderr


def test_each_metric_of_a_condition_exists() -> None:
    names = {code(r["Metric"]) for r in table(section(PAGE, "## What is measured"))}
    watched = {
        re.sub(r"_(bucket|count|sum)$", "", each)
        for row in table(section(PAGE, "## What to watch"))
        for each in re.findall(r"\b(?:skills|mcp|http)_\w+", row["Condition"])
    }

    assert watched - {"mcp_method_name", "http_response_status_code"} <= names
