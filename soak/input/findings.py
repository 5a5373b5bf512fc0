"""Whether validate finds what skills hide, and nothing in those that hide nothing."""

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from skills_mcp.features.authoring.validation import validate_paths
from soak.input.samples import CLEAN, CONTROLS, HIDDEN, MIXED, SECRETS
from soak.scenario import Figure, Scale, Scenario
from tests.support import PROJECT, write

_FEWEST_SAMPLES = 25

_KINDS: Mapping[str, Mapping[str, str]] = {
    "secret": SECRETS,
    "hidden-character": HIDDEN,
    "control-characters": CONTROLS,
    "mixed-letters": MIXED,
}
"""By the rule that finds them."""

_PLACES = ("SKILL.md", "references/more.md", "scripts/run.sh", "data.txt")


def find_what_is_hidden(folder: Path, scale: Scale) -> Iterator[Figure]:
    """Write each sample into each kind of file of a package."""
    places = _PLACES if scale.is_full else _PLACES[:1]
    for rule, samples in _KINDS.items():
        missed = []
        for number, (name, text) in enumerate(samples.items()):
            for place in places:
                package = _write_package(folder / f"{rule}-{number}", place, text)
                if rule not in _find_rules(package):
                    missed.append(f"{name} in {place}")
        count = len(samples) * len(places)
        names = f" ({', '.join(missed)})" if missed else ""
        what = f"{len(samples)} samples of {rule}, found{names}"
        yield Figure.every(52, what, count - len(missed), count)
    total = sum(map(len, _KINDS.values()))
    enough = total >= _FEWEST_SAMPLES
    yield Figure.every(52, f"{total} samples: as many as promised", enough, 1)


def find_nothing_else(folder: Path, _: Scale) -> Iterator[Figure]:
    """Check texts that say such things, and hide none of them."""
    pages = [*PROJECT.glob("docs/**/*.md"), *PROJECT.glob("*.md")]
    texts = [*CLEAN, *(page.read_text(encoding="utf-8") for page in pages)]
    for number, text in enumerate(texts):
        _write_package(folder / "skills" / f"text-{number}", "SKILL.md", text)
    for content in ("skills-content", "packages-content"):
        shutil.copytree(PROJECT / "fixtures" / content, folder / content)
    checked, alarms = 0, []
    for tree in folder.iterdir():
        validation = validate_paths(tree)
        checked += validation.skill_count
        alarms += [str(p) for p in validation.problems if p.rule in _KINDS]
    names = f" ({'; '.join(alarms)})" if alarms else ""
    yield Figure.none(52, f"clean skills with a finding{names}", len(alarms), checked)


def _find_rules(package: Path) -> frozenset[str]:
    return frozenset(problem.rule for problem in validate_paths(package).problems)


def _write_package(folder: Path, place: str, text: str) -> Path:
    head = f"---\nname: {folder.name}\ndescription: Does it.\n---\nDo it.\n"
    if text.startswith("description: "):
        head = head.replace("description: Does it.", text)
        text = ""
    write(folder / "SKILL.md", head)
    said = (head if place == "SKILL.md" else "") + f"Read this: {text}\n"
    write(folder / place, said)
    return folder


SCENARIOS: tuple[tuple[str, Scenario], ...] = (
    ("hidden-text", find_what_is_hidden),
    ("clean-text", find_nothing_else),
)
