"""Suggestions as branches for review: one for each skill, with its evidence and effect.

Rule: an addition is proposed once. What was sent is recorded on this machine, and in a
trailer of each commit, so that a machine without the record knows the branches that are
there, and what was merged, also in part.
"""

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from hashlib import sha256
from pathlib import Path

from skills_mcp.errors import SyncError
from skills_mcp.features.authoring.evaluation import diff_outcomes, evaluate_snapshot
from skills_mcp.features.authoring.prompts import collect_examples
from skills_mcp.features.report.pick_evidence import PickCounts
from skills_mcp.features.report.skill_additions import (
    AcceptedAddition,
    ChangedText,
    ClauseAddition,
    UnsafeAdditionError,
    WordAddition,
    add_deprecation,
)
from skills_mcp.features.report.suggestion_review import SuggestionReview, find_right
from skills_mcp.features.report.usage_report import UsageReport
from skills_mcp.files.durable import write_text_atomically
from skills_mcp.library import (
    RemoteBranch,
    SkillLibrary,
    TextReplacement,
    UneditableError,
    WorkingCopy,
)
from skills_mcp.library.source_edits import SkillReview, SkillTarget, propose_skill
from skills_mcp.skills.model import Skill
from skills_mcp.skills.skill_parser import derive_slug
from skills_mcp.text.rendering import count_noun

_BRANCHES = "skills/suggest-"
_BRANCH_DIGITS = 12
_MAX_SLUG = 64
_MAX_TASKS = 5  # of one addition in a message
_UNSERVED = "No agent got it"
_TRAILER = "Skills-Suggestion"
_MAX_COMMITS = 1000  # in which the last change of a skill is looked for


@dataclass(frozen=True, slots=True)
class SentSuggestion:
    skill: str
    review: SkillReview | None
    """None if it was not sent."""
    reason: str = ""
    """Why it was not sent."""


class ProposalRecord:
    """The additions that were proposed from this machine; digests, as tasks are private."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def load(self) -> frozenset[str]:
        try:
            return frozenset(map(str, json.loads(self._file.read_text("utf-8"))))
        except FileNotFoundError:
            return frozenset()

    def add(self, keys: Collection[str]) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        known = sorted(self.load() | set(keys))
        write_text_atomically(self._file, f"{json.dumps(known, indent=1)}\n")


def load_known(library: SkillLibrary, record: ProposalRecord) -> frozenset[str]:
    """Load the keys of this machine's record, and of the repositories.

    Raises:
        SyncError: A repository does not answer.
    """
    repositories = (mount.source for mount in library.mounts.mounts)
    read = (
        each.read_trailers(_TRAILER, _BRANCHES)
        for each in repositories
        if isinstance(each, RemoteBranch)
    )
    return record.load().union(*read)


def derive_key(skill: str, text: str) -> str:
    """Key of one word, clause or example of a skill."""
    return sha256(json.dumps([skill, text]).encode()).hexdigest()


def propose(
    library: SkillLibrary, review: SuggestionReview, record: ProposalRecord
) -> Iterator[SentSuggestion]:
    """Push a branch for each changed skill of a repository, and yield its outcome."""
    texts = dict(zip(_find_skills(library, review), review.improvement.texts, strict=True))
    for skill, text in texts.items():
        accepted = [a for a in review.improvement.accepted if a.addition.skill == skill]
        mount = library.mounts.find(text.editable.source.mount)
        repository = mount.source if mount else None
        if not isinstance(repository, RemoteBranch):
            yield SentSuggestion(skill, None, "its source is a folder: apply the diff")
            continue
        target = SkillTarget(Path(), "", "", repository)
        additions = [each.addition for each in accepted]
        keys = [derive_key(each.skill, key) for each in additions for key in each.keys]
        change = _compose_change(skill, text, _compose_message(skill, accepted, review), keys)
        try:
            sent = propose_skill(target, change, library.config.web.forges)
        except SyncError as error:
            yield SentSuggestion(skill, None, str(error))
            continue
        record.add(keys)
        yield SentSuggestion(skill, sent)


def propose_deprecations(
    library: SkillLibrary, report: UsageReport, record: ProposalRecord, known: Collection[str]
) -> Iterator[SentSuggestion]:
    """Push a branch for each skill that no agent got in the days of a report.

    Left out is a skill that has changed in these days, and all where events do not go
    back to the first of them.
    """
    if not report.skills or report.counts.oldest is None or report.counts.oldest > report.since:
        return
    snapshot = library.view().snapshot
    reason = f"{_UNSERVED} from {report.since} to {report.until}."
    with library.edited_copy() as copy:
        for unserved in report.unserved or ():
            skill = snapshot.index.require(unserved.skill)
            key = derive_key(skill.path, _UNSERVED)
            if skill.always_apply or skill.lifecycle.marked_status or key in known:
                continue
            try:
                sent = _deprecate(library, copy, skill, report.since, reason)
            except (SyncError, UneditableError, UnsafeAdditionError) as error:
                yield SentSuggestion(skill.path, None, str(error))
                continue
            if sent:
                record.add([key])
                yield SentSuggestion(skill.path, sent)


def _deprecate(
    library: SkillLibrary, copy: WorkingCopy, skill: Skill, since: date, reason: str
) -> SkillReview | None:
    """Push the branch of one skill; None if it is of a folder, or has changed since."""
    editable = copy.read(skill)
    mount = library.mounts.find(editable.source.mount)
    repository = mount.source if mount else None
    commit = library.view().snapshot.content.commit
    if not isinstance(repository, RemoteBranch) or commit is None or skill.location is None:
        return None
    history = repository.history.read(commit, [editable.file], _MAX_COMMITS)
    if not history or history[0].at.date() >= since:
        return None
    new = add_deprecation(editable.raw, reason)
    before, after = copy.serve({}), copy.serve({skill.location: new})
    marked = after.index.get(skill.path)
    if marked is None or not marked.lifecycle.is_deprecated:
        raise UnsafeAdditionError("its frontmatter cannot be read with the mark")
    tasks = collect_examples(before.index)
    outcomes = (evaluate_snapshot(tasks, each) for each in (before, after))
    changed = sum(1 for _ in diff_outcomes(*outcomes))
    message = (
        f"Deprecate {skill.path}\n\n{reason}\n\nOf {count_noun(len(tasks), 'example task')}, "
        f"{changed:,} would get another answer. Merge it, name what replaces the skill, or "
        "decline it: it is proposed once.\n"
    )
    key = derive_key(skill.path, _UNSERVED)
    change = _compose_change(skill.path, ChangedText(editable, new), message, [key])
    target = SkillTarget(Path(), "", "", repository)
    return propose_skill(target, change, library.config.web.forges)


def _find_skills(library: SkillLibrary, review: SuggestionReview) -> Iterator[str]:
    """The skill of each changed text."""
    snapshot = library.view().snapshot
    skills = dict.fromkeys(each.addition.skill for each in review.improvement.accepted)
    with library.edited_copy() as copy:
        files = {
            (read.source, read.file): path
            for path in skills
            for read in (copy.read(snapshot.index.require(path)),)
        }
    for text in review.improvement.texts:
        yield files[text.editable.source, text.editable.file]


def _compose_change(
    skill: str, text: ChangedText, message: str, keys: Sequence[str]
) -> TextReplacement:
    trailers = "".join(f"{_TRAILER}: {key}\n" for key in keys)
    digest = sha256(text.editable.raw + b"\0" + text.new).hexdigest()[:_BRANCH_DIGITS]
    branch = f"{_BRANCHES}{derive_slug(skill)[:_MAX_SLUG]}-{digest}"
    texts = (text.editable.raw, text.new)
    return TextReplacement(text.editable.file, *texts, branch, f"{message}\n{trailers}")


def _compose_message(
    skill: str, accepted: Sequence[AcceptedAddition], review: SuggestionReview
) -> str:
    lines = [f"Let more tasks find {skill}", ""]
    for each in accepted:
        lines += _describe(each, review.count_picks(each.addition))
    lines += ["", "All suggestions of this report together:"]
    for origin in ("picked", "answered", "library"):
        effect = review.measure_effect(origin)
        lines.append(
            f"- {count_noun(effect.tasks, 'task')} ({origin}): the right skill answered "
            f"{effect.right_before}, and now {effect.right_after}"
        )
    return "\n".join((*lines, ""))


def _describe(accepted: AcceptedAddition, counts: PickCounts) -> Iterator[str]:
    addition = accepted.addition
    if isinstance(addition, WordAddition):
        yield f"Keywords: {', '.join(addition.words)}"
    elif isinstance(addition, ClauseAddition):
        yield f"Clause: {addition.text}"
        if not accepted.gains:
            yield "- no answer changes: agents choose from a list by descriptions"
    else:
        yield f"Example: {addition.task}"
    right = find_right(addition)
    other = f" of {right}" if right != addition.skill else ""
    yield f"- {count_noun(counts.picks, 'pick')}{other} on {count_noun(len(counts.days), 'day')}"
    yield from (f"- now found: {task}" for task in accepted.gains[:_MAX_TASKS])
    if more := len(accepted.gains[_MAX_TASKS:]):
        yield f"- and {count_noun(more, 'more task')}"
