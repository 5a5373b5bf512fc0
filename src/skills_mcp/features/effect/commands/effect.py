"""Measure whether skills help: run an agent with each and without it.

PATHS are skills or folders of the tree; without any, all that have cases.  Agents run in
the sandbox of scripts, with the network unless you forbid it, and cost what they cost.
"""

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, Literal, get_args
from xml.etree import ElementTree as ET

import anyio
import click

from skills_mcp.bootstrap import Options, build, find_state_folder, is_folder, opened_baseline
from skills_mcp.cli.command_group import SectionedCommand, format_options
from skills_mcp.cli.options import content_options, read_options
from skills_mcp.cli.terminal import open_console, print_json, progress_bar, sync_and_load, tabulate
from skills_mcp.features.authoring.cases import Case, CaseFinding, find_evals_folder, load_cases
from skills_mcp.features.effect import EVAL_RESULTS, evidence
from skills_mcp.features.effect.agents import (
    AGENT_NAMES,
    Agent,
    AgentName,
    Via,
    choose_agent,
    parse_command_line,
)
from skills_mcp.features.effect.case_runner import (
    ARM_NAMES,
    Arm,
    ArmName,
    CaseRunner,
    RunRules,
    build_arm,
)
from skills_mcp.features.effect.evidence import ArmFigures, Lift, MeasuredSkill, Result
from skills_mcp.features.effect.experiment import (
    Experiment,
    TestedSkill,
    describe_estimate,
    index_results,
    parse_budget,
    run_experiment,
)
from skills_mcp.files.paths import expand_home_folder
from skills_mcp.library import SkillLibrary, Snapshot
from skills_mcp.scripts.prepared_runs import ScriptEnvironment
from skills_mcp.skills.model import Skill
from skills_mcp.text.redaction import register_secret
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
    compared = "an agent without it" if effect.lift else "the skill before the change"
    over = "what it inherits" if effect.adds else compared
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


def find_failures(effects: Iterable[MeasuredSkill], fail_under: float | None) -> dict[str, str]:
    """Reasons for which CI fails, by skill."""
    failures = {}
    for effect in effects:
        lift = effect.lift or effect.adds
        if effect.verdict == "harms" and lift:
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

    folder = Path(__file__).parents[1] / "templates"
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


EffectFormat = Literal["text", "json", "markdown", "junit"]

_VERSION_SECONDS = 60.0
_HOW_TO_BEGIN = """\
No skill has a case, so there is nothing to run.
Write one beside the skill, such as ui/auth/evals/login.yaml for ui/auth.md:
  - prompt: Add a login to the page
    checks: [{file: login.html, exists: true}]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """Values of the command's own options."""

    paths: tuple[str, ...]
    agent: AgentName | None
    command_line: str | None
    model: str
    arms: str | None
    baseline: str | None
    via: Via
    repetitions: int
    jobs: int
    budget: str | None
    judge: str
    credentials: tuple[str, ...]
    readable: tuple[Path, ...]
    has_network: bool
    results_file: Path | None
    page: Path | None
    report_format: EffectFormat
    as_json: bool
    fail_under: float | None
    is_dry: bool
    is_confirmed: bool


_FILE = click.Path(dir_okay=False, path_type=Path)
_COUNT = click.IntRange(1)


@click.command(
    cls=SectionedCommand,
    examples=(
        "skills-mcp effect --agent claude --dry-run --skills-dir ./skills",
        "skills-mcp effect ui/auth --agent claude --credential ANTHROPIC_API_KEY --budget 5",
        "skills-mcp effect --command 'my-agent -p {prompt}' --page effect.html",
        "skills-mcp effect --agent codex --baseline origin/main --format markdown",
    ),
)
@click.argument("paths", nargs=-1)
@click.option("--agent", type=click.Choice(AGENT_NAMES), help="A known agent.")
@click.option(
    "--command",
    "command_line",
    metavar="WORDS",
    help="Another agent, or other words for a known one; {prompt} stands for the task.",
)
@click.option("--model", metavar="NAME", default="", help="The model that the agent uses.")
@click.option("--arms", metavar="NAMES", help="Of without,with,inherited,before.")
@click.option("--baseline", metavar="REF", help="Compare with a commit, or a folder: ./before.")
@click.option(
    "--via",
    type=click.Choice(get_args(Via)),
    default="native",
    show_default=True,
    help="How the skill reaches the agent: as a folder, over MCP, or in the prompt.",
)
@click.option(
    "--repetitions", type=_COUNT, default=3, help="Runs of a case in an arm.  [default: 3]"
)
@click.option("--jobs", type=_COUNT, default=2, help="Runs at the same time.  [default: 2]")
@click.option("--budget", metavar="AMOUNT", help="Start no run beyond it: 2.50usd, 300ktokens.")
@click.option("--judge", metavar="COMMAND", default="", help="A program that decides assertions.")
@click.option(
    "--credential",
    "credentials",
    metavar="NAME|FILE",
    multiple=True,
    help="A variable, or a file of your home, that agents get.",
)
@click.option(
    "--read",
    "readable",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    help="A file or folder that agents may read.",
)
@click.option(
    "--network/--no-network",
    "has_network",
    default=True,
    help="Whether agents reach the network, this machine included.  [default: network]",
)
@click.option("--results", "results_file", type=_FILE, help=f"Not in {EVAL_RESULTS} of the skills.")
@click.option("--page", type=_FILE, help="Write a page with the transcripts side by side.")
@format_options(
    get_args(EffectFormat), "For people, programs, a comment on a pull request, or test reports."
)
@click.option("--fail-under", type=click.FloatRange(-1, 1), help="Fail if a lift is below.")
@click.option("--dry-run", "is_dry", is_flag=True, help="Print the estimate, and run nothing.")
@click.option("--yes", "is_confirmed", is_flag=True, help="Do not ask before runs begin.")
@content_options(log_level="error")
def command(**values: Any) -> None:
    request = _Request(**{field.name: values.pop(field.name) for field in fields(_Request)})
    agent = choose_agent(request.agent, request.command_line, request.model)
    arms = _parse_arms(request.arms)
    if request.via == "mcp" and agent.connect is None:
        raise click.UsageError("--via mcp needs --agent: how another one is connected is unknown.")
    options, environment = read_options(**values)
    library = build(options, environment).library
    snapshot = sync_and_load(library)
    file = request.results_file or _find_results_file(options)
    known = _load_known(snapshot, file)
    skills = _select_skills(snapshot, request.paths, judge=request.judge)
    if not skills:
        click.echo(_HOW_TO_BEGIN)
        return
    with _opened_before(options, environment, request.baseline, arms) as before:
        tested = [
            TestedSkill(path=skill.path, cases=cases, arms=found)
            for skill, cases in skills.items()
            for found in [_build_arms(skill, snapshot, agent, arms, before)]
        ]
    experiment = Experiment(
        agent=agent,
        via=request.via,
        skills=tested,
        known=index_results(known),
        repetitions=request.repetitions,
        jobs=request.jobs,
        budget=parse_budget(request.budget) if request.budget else None,
    )
    click.echo(describe_estimate(experiment, known), err=True)
    if request.is_dry:
        return
    transcripts = find_state_folder(environment) / "effect"
    if any(True for _ in experiment.plan()):
        rules = _derive_rules(request, agent, library, environment)
        _run(experiment, CaseRunner(rules), file, transcripts)
        _track(library, experiment)
    _report(request, experiment, transcripts)


def _derive_rules(
    request: _Request, agent: Agent, library: SkillLibrary, environment: Mapping[str, str]
) -> RunRules:
    variables, files = _find_credentials(request.credentials, environment)
    if not request.is_confirmed and sys.stdin.isatty() and sys.stderr.isatty():
        click.confirm("Run them?", abort=True, err=True)
    return RunRules(
        agent=agent,
        via=request.via,
        sandbox=library.config.scripts,
        environment=ScriptEnvironment.of(environment),
        readable=[path.absolute() for path in request.readable],
        variables=variables,
        credentials=files,
        network=request.has_network,
        judge=parse_command_line(request.judge, "--judge"),
        version=_read_version(agent, environment),
    )


def _track(library: SkillLibrary, experiment: Experiment) -> None:
    tested = {result.skill for result in experiment.new}
    for effect in experiment.summarise():
        if effect.path in tested:
            evidence.track_effect(library.tracker, effect)


def _report(request: _Request, experiment: Experiment, transcripts: Path) -> None:
    """Print the report and exit."""
    effects, baseline = experiment.summarise(), request.baseline or ""
    failures = find_failures(effects, request.fail_under)
    for run, reason in () if experiment.new else experiment.faults:
        failures.setdefault(run.skill.path, f"no run has worked: {reason}")
    if request.page:
        page = render_page(experiment, effects, baseline, transcripts)
        request.page.write_text(page, "utf-8")
    match "json" if request.as_json else request.report_format:
        case "json":
            print_json(render_json(experiment, effects))
        case "markdown":
            click.echo("\n".join(render_markdown(experiment, effects, baseline)))
        case "junit":
            click.echo(render_effect_junit(effects, failures))
        case "text":
            console = open_console()
            console.print(tabulate(COLUMNS, tabulate_effects(effects), numbers=COLUMNS[2:]))
            for line in describe_effects_aloud(experiment, effects, baseline):
                console.print(line, soft_wrap=True, markup=False)
            for path, reason in failures.items():
                console.print(f"Failed: {path}: {reason}", soft_wrap=True, markup=False)
    sys.exit(1 if failures else 0)


def _parse_arms(text: str | None) -> tuple[ArmName, ...] | None:
    if text is None:
        return None
    words = [word.strip() for word in text.split(",")]
    if unknown := [word for word in words if word not in ARM_NAMES]:
        raise click.UsageError(f"--arms: {unknown[0]!r} is none of {', '.join(ARM_NAMES)}")
    return tuple(name for name in ARM_NAMES if name in words)


def _find_results_file(options: Options) -> Path:
    if options.skills_dir:
        return expand_home_folder(options.skills_dir) / EVAL_RESULTS
    return Path(EVAL_RESULTS)  # a repository is read, so results stay where the command runs


def _load_known(snapshot: Snapshot, file: Path) -> list[evidence.Result]:
    found = [*evidence.read_snapshot_results(snapshot)]
    with suppress(OSError):
        found += evidence.parse_results(file.read_bytes())
    return list({result.id: result for result in found}.values())


def _select_skills(
    snapshot: Snapshot, paths: Sequence[str], *, judge: str
) -> dict[Skill, list[Case]]:
    """Select skills below the paths, with their cases; print omissions."""
    index = snapshot.index
    skills = {skill.path: skill for skill in (*index, *index.drafts)}
    wanted = [path.strip("/") for path in paths]
    for path in wanted:
        if not any(_is_below(each, path) for each in skills):
            raise index.not_found(path)
    selected: dict[Skill, list[Case]] = {}
    for found in chain.from_iterable(_load_all(skills.values())):
        if isinstance(found, CaseFinding):
            click.echo(f"skills-mcp: {found}", err=True)
            continue
        owner, case = found
        skill = skills.get(case.skill or owner) or skills.get(owner)
        if case.skill and case.skill not in skills:
            click.echo(f"skills-mcp: left out: {case.origin}: no skill {case.skill}", err=True)
        elif not case.checks and not judge:
            click.echo(f"skills-mcp: left out: {case.origin}: needs --judge", err=True)
        elif skill and (not wanted or any(_is_below(skill.path, path) for path in wanted)):
            selected.setdefault(skill, []).append(case)
    return selected


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def _load_all(skills: Iterable[Skill]) -> Iterator[Iterator[CaseFinding | tuple[str, Case]]]:
    """Cases of every skill, and those at the top, each folder once."""
    folders: dict[Path, str] = {}
    for skill in skills:
        if folder := find_evals_folder(skill):
            folders.setdefault(folder, skill.path)
    tops = {skill.root for skill in skills if skill.root}
    for folder in tops - folders.keys():
        folders[folder] = ""
    for folder, path in folders.items():
        found = load_cases(folder, path)
        yield ((each if isinstance(each, CaseFinding) else (path, each)) for each in found)


def _build_arms(
    skill: Skill,
    snapshot: Snapshot,
    agent: Agent,
    names: Sequence[ArmName] | None,
    before: Snapshot | None,
) -> list[Arm]:
    is_inheriting = len(snapshot.index.contributors(skill)) > 1
    arms: list[Arm] = []
    for name in names or ARM_NAMES:
        if name == "before":
            arms += _build_before(skill, agent, before)
        elif name != "inherited" or is_inheriting:
            arms.append(build_arm(name, snapshot, skill, agent.format))
    return arms


def _build_before(skill: Skill, agent: Agent, before: Snapshot | None) -> Iterator[Arm]:
    old = before.index.get(skill.path) if before else None
    if before and old is None:
        click.echo(f"skills-mcp: {skill.path} is new: it has no arm before", err=True)
    elif before and old:
        yield build_arm("before", before, old, agent.format)


@contextmanager
def _opened_before(
    options: Options,
    environment: Mapping[str, str],
    ref: str | None,
    names: Sequence[ArmName] | None,
) -> Iterator[Snapshot | None]:
    if ref is None:
        if names and "before" in names:
            raise click.UsageError("--arms before needs --baseline REF.")
        yield None
        return
    if not (options.skills_dir or options.repo or is_folder(ref)):
        raise click.UsageError("--baseline needs --skills-dir or --repo.")
    with opened_baseline(options, environment, ref) as library:
        yield library.view().snapshot


def _read_version(agent: Agent, environment: Mapping[str, str]) -> str:
    if agent.name not in AGENT_NAMES:
        return ""
    try:
        done = subprocess.run(  # noqa: S603 - the program that the user has named
            [agent.words[0], "--version"],
            capture_output=True,
            text=True,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            timeout=_VERSION_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return ""
    return next(iter(done.stdout.strip().splitlines()), "")[:100]


def _find_credentials(
    names: Iterable[str], environment: Mapping[str, str]
) -> tuple[Mapping[str, str], Mapping[str, Path]]:
    home = Path(environment.get("HOME") or Path.home())
    variables, files = {}, {}
    for name in names:
        path = Path(name).expanduser().absolute()
        if environment.get(name):
            variables[name] = environment[name]
            register_secret(environment[name])
        elif path.is_file() and path.is_relative_to(home):
            files[path.relative_to(home).as_posix()] = path
        else:
            raise click.UsageError(
                f"--credential {name}: is no variable that is set, and no file of your home."
            )
    return variables, files


def _run(experiment: Experiment, runner: CaseRunner, file: Path, transcripts: Path) -> None:
    """Make the missing runs; write each result at the end of its run."""
    transcripts.mkdir(parents=True, exist_ok=True, mode=0o700)

    def keep(result: evidence.Result, transcript: str) -> None:
        (transcripts / f"{result.id}.txt").write_text(transcript, "utf-8", "replace")
        evidence.append_result(file, result)

    with progress_bar("Running") as on_progress:

        def show(done: int, total: int) -> None:
            cost = sum(result.cost or 0 for result in experiment.new)
            tokens = sum(result.tokens or 0 for result in experiment.new)
            on_progress(done, total, f"${cost:.2f}" if cost else f"{tokens:,} tokens")

        try:
            anyio.run(run_experiment, experiment, runner, keep, show)
        except OSError as error:
            raise click.UsageError(
                f"{error.filename or file} cannot be written: {error.strerror}. Name another "
                "file with --results."
            ) from error
