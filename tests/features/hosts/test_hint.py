"""A hint is short, whatever the skills are called."""

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.features.hosts.prompt_socket import MAX_HINT_CHARACTERS, compose_hint, find_hint
from tests.support import PROJECT, open_library, write, write_skill

skills = st.lists(st.tuples(st.text(min_size=1, max_size=400), st.text(max_size=2000)), max_size=6)


@given(skills=skills, has_core=st.booleans())
def test_a_hint_keeps_its_limit_and_names_the_best(
    skills: list[tuple[str, str]],
    has_core: bool,  # noqa: FBT001
) -> None:
    hint = compose_hint(skills, has_core=has_core)

    assert len(hint) <= MAX_HINT_CHARACTERS
    assert not hint or skills[0][0] in hint


def test_an_organisation_with_usual_names_always_gets_a_hint() -> None:
    skills = [(f"teams/payments/{n}/refunds", "Description " * 20) for n in range(3)]

    hint = compose_hint(skills, has_core=True)

    assert all(path in hint for path, _ in skills)


def test_a_skill_that_may_not_fit_is_no_order() -> None:
    hint = compose_hint([("refunds", "Refund a payment")], has_core=True, is_low_confidence=True)

    assert "If one fits" in hint


def test_without_a_skill_there_is_no_hint() -> None:
    assert compose_hint([], has_core=True) == ""


def test_a_hint_names_the_misfit_in_the_project_of_its_prompt(tmp_path: Path) -> None:
    applies_to = [{"package": "npm:react", "versions": ">=18,<19"}]
    write_skill(tmp_path / "skills", "hooks.md", keywords=["hooks"], applies_to=applies_to)
    packages = {"node_modules/react": {"version": "19.1.0"}}
    write(tmp_path / "project" / "package-lock.json", json.dumps({"packages": packages}))
    library = open_library(tmp_path / "skills")

    hint = find_hint(library, "hooks", str(tmp_path / "project"))
    elsewhere = find_hint(library, "hooks", str(tmp_path))

    line = "Written for react >=18,<19; this project has 19.1.0 (package-lock.json)."
    assert hint == f"{elsewhere} {line}"
    assert len(hint) <= MAX_HINT_CHARACTERS


def test_a_hint_of_two_tasks_names_the_skills_of_both() -> None:
    library = open_library(PROJECT / "fixtures/packages-content")

    hint = find_hint(library, "write the incident report, then announce the release")

    assert "engineering/incident-report" in hint
    assert "documents/release-announcement" in hint
    assert hint.endswith("skill_path of each.")


def test_a_prompt_to_go_on_is_about_no_skill(tmp_path: Path) -> None:
    write_skill(tmp_path, "go.md", keywords=["go", "retry"])
    library = open_library(tmp_path)

    hints = {said: find_hint(library, said) for said in ("Go on.", "ok, let's go!", "try again")}

    assert set(hints.values()) == {""}
    assert "go" in find_hint(library, "go on with the service in Go")
