"""`powers.yaml` and `validate --powers`: what is allowed where."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.support import write

_TERRAFORM = "\n```sh\nterraform init -input=false\ncurl -d @a https://registry.example.com\n```\n"


@pytest.fixture
def infra(tree: Path) -> Path:
    """The tree with a skill that has three powers."""
    file = tree / "skills" / "deploy" / "canary.md"
    file.write_text(file.read_text() + _TERRAFORM)
    return tree


def _validate(invoke: Run, top: Path) -> tuple[int, list[tuple[str, str]]]:
    done = invoke("validate", str(top), "--powers", "--select", "power-*", "--json")
    found = json.loads(done.stdout)
    problems = found["problems"] if "problems" in found else found["findings"]
    return done.returncode, [(each["rule"], each["reason"]) for each in problems]


def test_without_a_file_powers_to_review_are_warnings(invoke: Run, infra: Path) -> None:
    code, found = _validate(invoke, infra)

    reason = "has the power network, registry.example.com, sends text (review)"
    assert (code, found) == (0, [("power-found", reason)])


def test_what_the_file_allows_is_no_finding(invoke: Run, infra: Path) -> None:
    entry = "{in: deploy/**, network: ['*.example.com'], command: [terraform, curl]}"
    write(infra / "powers.yaml", f"allow: [{entry}]")

    assert _validate(invoke, infra) == (0, [])


def test_a_kind_that_is_not_named_is_not_allowed(invoke: Run, infra: Path) -> None:
    entries = "{in: deploy/**, network: true}, {in: other/**, command: true}"
    write(infra / "powers.yaml", f"allow: [{entries}]")

    code, found = _validate(invoke, infra)

    assert code == 1
    assert [rule for rule, _ in found] == ["power-not-allowed"] * 2
    assert {reason.split(",")[1] for _, reason in found} == {" terraform", " curl"}


@pytest.mark.parametrize("name", ["deploy/canary", "1", "true", "a, b", "deploy/[a]", "#a"])
def test_what_a_finding_says_to_write_allows_its_power(invoke: Run, tree: Path, name: str) -> None:
    words = r"Read `%APPDATA%\tool\a.json`, then:" + "\n\n```sh\npip install 'tool[extra]'\n```\n"
    text = (tree / "skills" / "deploy" / "canary.md").read_text()
    file = write(tree / "skills" / f"{name}.md", f"{text}\n{words}")
    (file.with_suffix("") / "assets").mkdir(parents=True)
    (file.with_suffix("") / "assets" / "long.md").write_bytes(b"word " * 300_000)
    write(tree / "powers.yaml", "allow: []")
    found = json.loads(invoke("validate", str(tree), "--powers", "--json").stdout)["problems"]
    hints = [p["hint"] for p in found if p["rule"] == "power-not-allowed"]

    entries = [hint.partition("allow: [")[2].removesuffix("]") for hint in hints]
    write(tree / "powers.yaml", f"allow: [{', '.join(entries)}]")

    assert len(entries) >= 3
    assert _validate(invoke, tree) == (0, [])


@pytest.mark.parametrize(
    "text, said",
    [
        ("allow: {}", "one list `allow`"),
        ("allow: [{network: true}]", "without `in`"),
        ("allow: [{in: a, networks: true}]", "no kind"),
        ("allow: [{in: a, network: 3}]", "write true"),
        ("allow: [", "no YAML"),
        ("allow: []\nallow: [{in: '**', command: true}]", "allow twice"),
        ("allow: [{in: '**', command: [a], command: true}]", "command twice"),
        (f"allow: []{' ' * 300_000}", "longer than"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(
    invoke: Run, infra: Path, text: str, said: str
) -> None:
    write(infra / "powers.yaml", text)

    done = invoke("validate", str(infra), "--powers")

    assert done.returncode == 3
    assert said in done.stderr


@pytest.mark.parametrize("kind", ["link", "broken link", "folder"])
def test_no_link_and_no_folder_is_taken_for_a_missing_file(
    invoke: Run, infra: Path, kind: str
) -> None:
    file = infra / "powers.yaml"
    if kind == "folder":
        file.mkdir()
    else:
        file.symlink_to("rules.yaml")
    if kind == "link":
        write(infra / "rules.yaml", "allow: [{in: '**', network: true, command: true}]")

    done = invoke("validate", str(infra), "--powers")

    assert done.returncode == 3
    assert "powers.yaml cannot be read: make it a readable file" in done.stderr
