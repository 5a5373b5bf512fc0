import json
from pathlib import Path
from xml.etree import ElementTree as ET

from tests.cli.conftest import Run
from tests.docs.pages import DOCS, section, table
from tests.support import (
    PROJECT,
    SKILLS_CONTENT,
    Upstream,
    skill_text,
    write,
    write_skill,
)


def parse(text: str) -> ET.Element:
    return ET.fromstring(text)  # noqa: S314 - our own text


def test_the_list_is_all_that_is_printed(invoke: Run) -> None:
    done = invoke("catalog", "--skills-dir", str(SKILLS_CONTENT))

    assert done.returncode == 0
    assert done.stderr == ""
    assert done.stdout.endswith("</skills_catalog>\n</skills_context>\n")
    context = parse(done.stdout)
    skills = context.findall("skills_catalog/skill")
    assert [skill.findtext("name") for skill in skills[:2]] == ["api/auth", "errors"]
    assert len(skills) == 16
    for skill in skills:
        assert Path(skill.findtext("path", "")).is_file()


def test_the_other_format_lists_files(invoke: Run) -> None:
    done = invoke("catalog", "--format", "available_skills", "--skills-dir", str(SKILLS_CONTENT))

    assert done.returncode == 0
    assert done.stdout.startswith("<available_skills>\n")
    assert "Files: assets/problem-example.json\n" in done.stdout


def test_a_list_that_is_not_complete_is_said_beside_it(invoke: Run) -> None:
    done = invoke("catalog", "--max-entries", "2", "--skills-dir", str(SKILLS_CONTENT))

    assert done.returncode == 0
    assert done.stderr == (
        "The list has 2 of 16 skills. For more, raise --max-entries or --max-bytes.\n"
    )
    catalog = parse(done.stdout).find("skills_catalog")
    assert catalog is not None
    assert catalog.get("truncated") == "true"
    assert len(catalog) == 2


def test_the_bytes_of_the_output_are_limited(invoke: Run) -> None:
    done = invoke("catalog", "--max-bytes", "2500", "--skills-dir", str(SKILLS_CONTENT))

    assert "of 16 skills." in done.stderr
    assert len(done.stdout.encode()) <= 2500
    assert parse(done.stdout).find("skills_catalog/skill") is not None


def test_the_bytes_are_those_of_the_format(invoke: Run) -> None:
    arguments = ("catalog", "--max-bytes", "2500", "--skills-dir", str(SKILLS_CONTENT))

    shorter = invoke(*arguments, "--format", "available_skills")
    longer = invoke(*arguments, "--format", "skills_context")

    assert shorter.stdout.count("<skill ") > longer.stdout.count("<skill>") > 0


def test_the_limits_of_the_configuration_hold(invoke: Run, tmp_path: Path) -> None:
    few = write(tmp_path / "few.yaml", "catalog:\n  max_entries: 2\n")
    small = write(tmp_path / "small.yaml", "catalog:\n  max_bytes: 2500\n")
    folder = ("--skills-dir", str(SKILLS_CONTENT))

    by_entries = invoke("catalog", "--config", str(few), *folder)
    by_bytes = invoke("catalog", "--config", str(small), *folder)
    typed = invoke("catalog", "--config", str(few), "--max-entries", "3", *folder)

    assert "The list has 2 of 16 skills." in by_entries.stderr
    assert "of 16 skills." in by_bytes.stderr
    assert len(by_bytes.stdout.encode()) <= 2500
    assert "The list has 3 of 16 skills." in typed.stderr


def test_a_limit_below_any_list_says_what_to_do(invoke: Run) -> None:
    done = invoke("catalog", "--max-bytes", "20", "--skills-dir", str(SKILLS_CONTENT))

    assert done.returncode == 3
    assert done.stdout == ""
    assert "pass --max-bytes" in done.stderr
    assert "Traceback" not in done.stderr


def test_hidden_skills_are_not_in_the_list(invoke: Run, tmp_path: Path) -> None:
    file = write(tmp_path / "mine.yaml", "visibility:\n  deny: [ui/*]\n")

    done = invoke("catalog", "--config", str(file), "--skills-dir", str(SKILLS_CONTENT))

    assert "/ui/" not in done.stdout
    assert "/api/" in done.stdout


def test_only_the_skills_of_one_scope(invoke: Run, home: Path, tmp_path: Path) -> None:
    write(
        home / ".agents" / "skills" / "mine" / "SKILL.md",
        "---\nname: mine\ndescription: My own\n---\nText",
    )
    write_skill(tmp_path / "content", "theirs.md")
    folder = ("--discover", "--skills-dir", str(tmp_path / "content"))

    everybody = invoke("catalog", *folder)
    own = invoke("catalog", "--scope", "user", *folder)

    assert "<name>theirs</name>" in everybody.stdout
    assert "<scope>user</scope>" in own.stdout
    assert "<name>mine</name>" in own.stdout
    assert "theirs" not in own.stdout


def test_an_output_that_is_poor_in_characters_gets_them_as_numbers(
    run: Run, tmp_path: Path
) -> None:
    write_skill(tmp_path, "a.md", description="Créer")

    done = run("catalog", "--skills-dir", str(tmp_path), PYTHONIOENCODING="ascii")

    assert "Cr&#233;er" in done.stdout


def test_a_repository_is_synced_first(invoke: Run, upstream: Upstream) -> None:
    commit = upstream.commit({"skills/one.md": skill_text(keywords=["one"])})

    done = invoke("catalog", "--repo", upstream.url)

    path = parse(done.stdout).findtext("skills_catalog/skill/path", "")
    assert commit in path
    assert Path(path).is_file()


def test_without_content_there_is_no_list(invoke: Run, tmp_path: Path) -> None:
    done = invoke("catalog", "--skills-dir", str(tmp_path / "nothing"))

    assert done.returncode == 4
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


def test_the_list_costs_what_the_page_says(invoke: Run) -> None:
    page = DOCS / "how-to" / "list-skills-in-a-prompt.md"
    rows = table(section(page, "## What it costs"))

    for row in rows:
        folder = PROJECT / row["Content"].strip("`")
        for style in ("skills_context", "available_skills"):
            done = invoke("catalog", "--format", style, "--skills-dir", str(folder))
            shown = done.stdout.replace(str(folder), "/srv/skills")
            cost = f"{len(shown.encode()):,} bytes, about {len(shown) // 4:,} tokens"
            assert row[f"`{style}`"] == cost
            assert row["Skills in the list"] == str(shown.count("</skill>"))
    assert len(rows) == 2


def test_programs_get_the_list_with_what_is_in_it(invoke: Run) -> None:
    options = ("--skills-dir", str(SKILLS_CONTENT), "--max-entries", "3")
    text = invoke("catalog", *options).stdout
    told = json.loads(invoke("catalog", "--json", *options).stdout)

    assert told["text"] == text
    assert told["size_bytes"] == len(text.encode())
    assert (len(told["skills"]), told["truncated"]) == (3, True)
    assert f"3 of {told['total']} skills" in invoke("catalog", *options).stderr
