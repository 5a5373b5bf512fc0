"""Reports of an experiment: sentences, tables, JSON, Markdown, JUnit and a page."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import zip_longest
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from skills_mcp.features.authoring.cases import Case
from skills_mcp.features.effect.case_runner import ARM_NAMES
from skills_mcp.features.effect.evidence import ArmFigures, MeasuredSkill, Result
from skills_mcp.features.effect.experiment import Experiment
from skills_mcp.features.effect.statistics import Lift
from skills_mcp.text.rendering import count_noun

COLUMNS = ("Skill", "Arm", "Runs", "Passed", "Cost", "Turns", "Tokens", "Seconds")
_MAX_LISTED_FAULTS = 5
_MAX_TRANSCRIPT_CHARACTERS = 100_000  # on a page, of a run
_SPECIAL = re.compile(r"([\\`|<>*_\[\]])")


def describe_points(lift: Lift) -> str:
    """Describe a lift in points of a hundred, with its interval.

    >>> describe_points(Lift(0.44, 0.2, 0.68))
    '+44 points (+20 to +68)'
    """
    estimate, low, high = (f"{100 * value:+.0f}" for value in asdict(lift).values())
    return f"{estimate} points ({low} to {high})"


def describe_verdict(effect: MeasuredSkill) -> str:
    """Describe the verdict in a sentence."""
    lift = effect.adds or effect.lift or effect.change
    if lift is None:
        return "too few runs to tell: no case has run with the skill and without it"
    points = describe_points(lift)
    over = "what it inherits" if effect.adds else "an agent without it"
    if effect.verdict == "no_effect" and effect.adds and effect.lift and effect.lift.low > 0:
        whole = describe_points(effect.lift)
        return f"no effect of its own: the rules that it inherits do the work ({whole} with them)"
    return {
        "helps": f"helps: {points} over {over}",
        "harms": f"worse: {points} against {over}",
        "does_not_discriminate": ("both arms pass: these cases measure the agent, not the skill"),
        "no_effect": f"no effect: {points} over {over}",
        "too_few_runs": (f"too few runs to tell: {points} over {over}; add cases or --repetitions"),
    }[effect.verdict]


def describe_change_effect(effect: MeasuredSkill, baseline: str) -> str:
    """Describe the effect of a change; empty without a baseline."""
    if effect.change is None:
        return ""
    word = "no clear difference"
    if is_worse(effect):
        word = "the change makes it worse"
    elif effect.change.low > 0:
        word = "the change makes it better"
    return f"{word}: {describe_points(effect.change)} against {baseline}"


def is_worse(effect: MeasuredSkill) -> bool:
    return effect.change is not None and effect.change.high < 0


def find_failures(effects: Iterable[MeasuredSkill], fail_under: float | None) -> Mapping[str, str]:
    """Reasons for which CI fails, by skill."""
    failures = {}
    for effect in effects:
        lift = effect.lift or effect.adds
        if effect.verdict == "harms":
            failures[effect.path] = "the skill makes it worse"
        elif is_worse(effect):
            failures[effect.path] = "the change makes it worse"
        elif fail_under is not None and (lift is None or lift.estimate < fail_under):
            found = f"{lift.estimate:.2f}" if lift else "unknown"
            failures[effect.path] = f"the lift is {found}, below {fail_under:g}"
    return failures


def describe_notes(experiment: Experiment, effects: Sequence[MeasuredSkill]) -> Iterator[str]:
    """Yield caveats of the figures."""
    if experiment.stopped:
        yield f"Stopped: {experiment.stopped}"
    for run, reason in experiment.faults[:_MAX_LISTED_FAULTS]:
        yield f"Not counted: {run.skill.path}, case {run.case.id}, {run.arm.name}: {reason}"
    more = len(experiment.faults) - _MAX_LISTED_FAULTS
    if more > 0:
        yield f"and {more} more that are not counted"
    models = {model for effect in effects for model in effect.models}
    if len(models) > 1:
        yield f"Runs of several models are mixed: {', '.join(sorted(models))}; name one (--model)"
    for effect in effects:
        if effect.agreement is not None:
            yield f"{effect.path}: judge and checks agree in {effect.agreement:.0%} of runs"
    results = [result for effect in effects for result in effect.results]
    if any(result.sandbox in {"limits", "none"} for result in results):
        yield "No sandbox has confined the agents of some runs"


def describe_effects_aloud(
    experiment: Experiment, effects: Sequence[MeasuredSkill], baseline: str
) -> Iterator[str]:
    for effect in effects:
        said = describe_verdict(effect), describe_change_effect(effect, baseline)
        yield from (f"{effect.path}: {each}" for each in said if each)
    yield from describe_notes(experiment, effects)


def tabulate_effects(effects: Iterable[MeasuredSkill]) -> Iterator[tuple[str, ...]]:
    """Rows of `COLUMNS`; cost, turns, tokens and seconds are means of a run."""
    for effect in effects:
        path = effect.path
        for arm in ARM_NAMES:
            if arm in effect.arms:
                yield (path, arm, *_describe_arm(effect.arms[arm]))
                path = ""


def _describe_arm(figures: ArmFigures) -> tuple[str, ...]:
    return (
        str(figures.runs),
        f"{figures.passed} ({figures.pass_rate:.0%})",
        "" if figures.cost is None else f"${figures.cost:.3f}",
        "" if figures.turns is None else f"{figures.turns:.1f}",
        "" if figures.tokens is None else f"{figures.tokens:,.0f}",
        "" if figures.seconds is None else f"{figures.seconds:.1f}",
    )


def render_json(experiment: Experiment, effects: Iterable[MeasuredSkill]) -> dict[str, Any]:
    hidden = {"results", "agents", "last_run"}
    return {
        "skills": [{k: v for k, v in asdict(e).items() if k not in hidden} for e in effects],
        "agent": experiment.agent.name,
        "model": experiment.agent.model,
        "via": experiment.via,
        "repetitions": experiment.repetitions,
        "new_runs": len(experiment.new),
        "spent": {
            "cost": round(sum(result.cost or 0 for result in experiment.new), 6),
            "tokens": sum(result.tokens or 0 for result in experiment.new),
        },
        "stopped": experiment.stopped or None,
        "faults": [
            {"skill": run.skill.path, "case": run.case.id, "arm": run.arm.name, "reason": reason}
            for run, reason in experiment.faults
        ],
    }


def render_markdown(
    experiment: Experiment, effects: Sequence[MeasuredSkill], baseline: str
) -> Iterator[str]:
    """Render a comment for a pull request."""
    yield f"### {count_noun(len(effects), 'skill')}, with {_escape(experiment.agent.name)}"
    yield ""
    yield f"| {' | '.join(COLUMNS)} |"
    yield f"| {' | '.join('---' for _ in COLUMNS)} |"
    for row in tabulate_effects(effects):
        yield f"| {' | '.join(map(_escape, row))} |"
    yield ""
    lines = describe_effects_aloud(experiment, effects, baseline)
    yield from (f"- {_escape(line)}" for line in lines)


def _escape(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", " ".join(text.split())).replace("@", "@\u200b")


def render_effect_junit(effects: Sequence[MeasuredSkill], failures: Mapping[str, str]) -> str:
    """Render a JUnit report: one case per skill."""
    counts = {"tests": str(len(effects)), "failures": str(len(failures)), "errors": "0"}
    root = ET.Element("testsuites", {"name": "skills-mcp effect", **counts})
    suite = ET.SubElement(root, "testsuite", {"name": "effect", **counts})
    for effect in effects:
        case = ET.SubElement(suite, "testcase", name=effect.path, classname="effect")
        said = describe_verdict(effect)
        if effect.path in failures:
            ET.SubElement(case, "failure", message=failures[effect.path]).text = said
        else:
            ET.SubElement(case, "system-out").text = said
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True)


def render_page(
    experiment: Experiment, effects: Sequence[MeasuredSkill], baseline: str, transcripts: Path
) -> str:
    """Render a page without scripts or external resources; every text is escaped."""
    from jinja2 import Environment, FileSystemLoader

    folder = Path(__file__).with_name("templates")
    environment = Environment(loader=FileSystemLoader(folder), autoescape=True)
    skills = [
        (effect, describe_verdict(effect), describe_change_effect(effect, baseline), arms, cases)
        for effect, skill in zip(effects, experiment.skills, strict=True)
        for arms in [[arm for arm in ARM_NAMES if arm in effect.arms]]
        for cases in [[(case, _list_runs(case, arms, effect, transcripts)) for case in skill.cases]]
    ]
    return environment.get_template("effect.html").render(
        experiment=experiment,
        columns=COLUMNS,
        rows=list(tabulate_effects(effects)),
        skills=skills,
        notes=list(describe_notes(experiment, effects)),
    )


def _list_runs(
    case: Case, arms: Sequence[str], effect: MeasuredSkill, transcripts: Path
) -> list[tuple[tuple[Result, str] | None, ...]]:
    """Runs by repetition with their transcripts, a column for each arm."""
    columns = [
        [
            (result, _read_transcript(transcripts, result.id))
            for result in effect.results
            if (result.case_digest, result.arm) == (case.digest, arm)
        ]
        for arm in arms
    ]
    return list(zip_longest(*columns))


def _read_transcript(folder: Path, name: str) -> str:
    try:
        text = (folder / f"{name}.txt").read_text("utf-8", "replace")
    except OSError:
        return "The transcript is on the machine that made this run."
    return text[:_MAX_TRANSCRIPT_CHARACTERS]
