import os
import subprocess
import sys
from pathlib import Path

import pytest

from skills_mcp.features.authoring.validation import validate_paths
from tests.support import PROJECT

PACKAGES = PROJECT / "fixtures" / "packages-content"


@pytest.fixture(scope="module")
def transcript(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What `make demo` prints where there is no terminal."""
    done = subprocess.run(
        [sys.executable, "-m", "demo.run"],
        cwd=PROJECT,
        env=os.environ | {"HOME": str(tmp_path_factory.mktemp("home"))},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "shown",
    [
        "── incident-response",
        "ui/react/auth  0.60  react, auth, component",
        "=== GLOBAL RULES (from _root.md) ===",
        "=== UI > REACT > AUTH (from ui/react/auth.md) ===",
        "get_skill(context='fix the auth', skill_path='api/auth')",
        "ui/react/auth, by the keyword algorithm",
        "No skill matches the given context.",
        "// AuthProvider: makes the gateway session available",
        "image/png, 13,430 bytes, 640 x 260 pixels",
        "from ui/_index",
        "exit code 0",
        "Feedback recorded for ui/react/auth",
        "1 file changed, 28 skills served",
        "ui/feature-flags  0.50  feature-flag, flag",
        "skills-mcp --toolsets core,packages",
        "pdf-forms  Fill in a PDF form",
        "references/cn23-fields.md",
        "=== DOCUMENTS > PDF-FORMS (from documents/pdf-forms/SKILL.md) ===",
        "lines 1 to 5 of 25, go on with start_line=6",
        "total_weight_grams: 200 is less than the items, 250",
        "load_skill(skill_name='pdf-forms', known_digest=",
        "The text of documents/pdf-forms that you had is still current",
    ],
)
def test_the_demo_shows_the_main_job(transcript: str, shown: str) -> None:
    assert shown in transcript


def test_the_rules_of_the_organisation_stand_above_a_package(transcript: str) -> None:
    _, _, loaded = transcript.partition("→ load_skill(")

    rules, package = (loaded.index(f"=== {t}") for t in ("GLOBAL RULES", "DOCUMENTS"))
    assert rules < package


def test_the_demo_is_plain_where_there_is_no_terminal(transcript: str) -> None:
    assert "\x1b" not in transcript


def test_the_demo_shows_no_path_of_this_machine(transcript: str) -> None:
    assert str(Path.home()) not in transcript
    assert str(PROJECT) not in transcript


def test_the_sample_packages_have_nothing_wrong_but_metadata_of_their_own() -> None:
    result = validate_paths(PACKAGES)

    assert {problem.rule for problem in result.problems} == {"metadata-skillhub"}
    assert result.skill_count == 9
    assert result.error_count == 0


def test_the_timeline_script_of_the_samples_needs_nothing_but_python(
    tmp_path: Path,
) -> None:
    alarms = tmp_path / "alarms.log"
    alarms.write_text("2026-11-20T09:41:00+01:00 queue full\n  depot 7\n")
    chat = tmp_path / "chat.log"
    chat.write_text("2026-11-20T08:40:00Z slow today?\n")
    timeline = PACKAGES / "skills/engineering/incident-report/incident-timeline"

    done = subprocess.run(
        [sys.executable, "-I", timeline / "scripts/merge_times.py", alarms, chat],
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.splitlines() == [
        "2026-11-20T08:40:00Z  chat  slow today?",
        "2026-11-20T08:41:00Z  alarms  queue full",
        "      depot 7",
    ]
