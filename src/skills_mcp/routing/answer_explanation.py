"""Explain a decision: its evidence, and the changes for another one. Pure."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from itertools import filterfalse, islice
from typing import Any

from skills_mcp.config import Matching
from skills_mcp.routing.decision import (
    MAX_LISTED,
    NEAR_MISS_SHARE,
    PRIORITY_UNIT,
    Ambiguous,
    Decision,
    NoMatch,
    answered_candidates,
    estimate_certainty,
    merge_near_copies,
    score_and_decide,
    score_texts,
    select_texts,
    to_exact_fraction,
)
from skills_mcp.routing.lexicon import is_unsegmented
from skills_mcp.routing.matcher import (
    Candidate,
    Evidence,
    Mask,
    Matcher,
    MixedMatcher,
    NegatedScope,
    TermWeight,
)
from skills_mcp.skills.model import Skill
from skills_mcp.text.rendering import abbreviate_value

FOR_USERS_ONLY = "has disable-model-invocation: only who names it gets it"
"""Why no task finds a skill that is served."""

_MAX_NEW_KEYWORDS = 3
"""A skill that needs more is right to lose."""


_QUOTED_WORDS = 3
_MIN_TASK_SHARE = 0.1
"""Share of the task; less would change nothing."""

_WEAK_FIELDS = frozenset({"body", "headings", "opening"})
"""Fields of low weight, because most of a text is about something else."""

# Three digits tell scores apart; rounded down, a limit that is named is a safe one.
_ROUNDED_DOWN = Context(prec=3, rounding=ROUND_FLOOR)


@dataclass(frozen=True, slots=True)
class ExplainedCandidate:
    """A skill with its score, rank and evidence."""

    skill: Skill
    score: Fraction
    rank: int | None
    """From 1, among all scores; None without any evidence."""
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True, slots=True)
class ScoredDecision:
    """A decision and its candidates."""

    decision: Decision
    compared: Sequence[Candidate]
    algorithm: str


def suggest_changes(
    answered: ScoredDecision,
    contenders: Sequence[ExplainedCandidate],
    words: Sequence[TermWeight],
    matching: Matching,
    *,
    requested: Skill | None = None,
) -> Iterator[str]:
    """Suggest changes for another answer, one sentence each."""
    decision, algorithm = answered.decision, answered.algorithm
    if not words:
        yield "no word of the task says anything: describe it in more words"
        return
    if not any(contender.rank for contender in contenders):
        place = " among its keywords" if any(word.skills for word in words) else ""
        yield f"no skill has any of these words{place}: {_quote(words)}"
    elif isinstance(decision, NoMatch):
        yield from _explain_threshold(contenders[0], matching)
    elif algorithm == "keyword":
        yield from _explain_margin(decision, contenders, matching)
    else:
        yield from _explain_probability(answered, matching)
    target = _select_target(decision, contenders, requested)
    if target and algorithm == "keyword":
        yield from _suggest_keywords(target, contenders, words, matching)
    elif target:
        yield from _suggest_words(target, contenders, words)


def format_rounded_down(number: Fraction) -> str:
    """Format with three significant digits, never rounded up.

    >>> [format_rounded_down(Fraction(*n)) for n in ((2, 3), (1, 5), (1, 1), (0, 1))]
    ['0.666', '0.2', '1', '0']
    """
    rounded = _ROUNDED_DOWN.divide(number.numerator, number.denominator)
    return f"{rounded.normalize() if rounded else Decimal(0):f}"


def is_in_weak_fields(evidence: Sequence[Evidence], word: str) -> bool:
    fields = {item.where for item in evidence if item.word == word}
    return bool(fields) and fields <= _WEAK_FIELDS


def _explain_threshold(best: ExplainedCandidate, matching: Matching) -> Iterator[str]:
    score = format_rounded_down(best.score)
    if best.score < to_exact_fraction(matching.min_score):
        yield (
            f"{best.skill.path} is the best with {score}, below min_score "
            f"{matching.min_score:g}: with min_score {score} or less it would be "
            "in the answer"
        )
    else:
        yield (
            f"{best.skill.path} is the best with {score}, but too little of the task speaks for it"
        )


def _explain_margin(
    decision: Decision, contenders: Sequence[ExplainedCandidate], matching: Matching
) -> Iterator[str]:
    best, second = contenders[0], contenders[1] if len(contenders) > 1 else None
    min_score = to_exact_fraction(matching.min_score)
    min_margin = format_rounded_down(to_exact_fraction(matching.ambiguity_threshold))
    gap = format_rounded_down(best.score - second.score) if second else ""
    match decision:
        case Ambiguous() if second and best.score > second.score:
            yield (
                f"ambiguous because {second.skill.path} is only {gap} behind "
                f"{best.skill.path}, less than ambiguity_threshold "
                f"{matching.ambiguity_threshold:g}: a threshold of {gap} or less would "
                f"make {best.skill.path} the answer"
            )
        case Ambiguous() if second:
            yield _describe_tie(best, second)
        case Candidate() if second and second.rank and second.score >= min_score:
            yield (
                f"{second.skill.path} is the runner-up, {gap} behind: below {min_margin} "
                "(ambiguity_threshold) the answer would be ambiguous"
            )


def _explain_probability(answered: ScoredDecision, matching: Matching) -> Iterator[str]:
    min_relevant = to_exact_fraction(matching.min_score) * NEAR_MISS_SHARE
    likely = [candidate for candidate in answered.compared if candidate.exact_score >= min_relevant]
    if not likely:
        return
    best, second = likely[0], likely[1] if len(likely) > 1 else None
    wrong = 1 - estimate_certainty([candidate.exact_score for candidate in likely])
    # Rounded up, a limit that is named is a safe one.
    needed = f"{math.ceil(wrong * 1000) / 1000:g}"
    threshold = f"{matching.ambiguity_threshold:g}"
    if isinstance(answered.decision, Candidate):
        runner_up = f"{second.skill.path} is the runner-up; the" if second else "the"
        yield (
            f"{runner_up} chance that {best.skill.path} "
            f"is not meant is {needed}, and ambiguity_threshold allows {threshold}: "
            f"below {needed} the answer would be ambiguous"
        )
    elif second and best.score == second.score:
        yield _describe_tie(best, second)
    else:
        yield (
            f"ambiguous because the chance that {best.skill.path} is not meant is "
            f"{needed}, more than ambiguity_threshold {threshold}: a threshold of "
            f"{needed} or more would make {best.skill.path} the answer"
        )


def _describe_tie(
    best: ExplainedCandidate | Candidate, second: ExplainedCandidate | Candidate
) -> str:
    return (
        f"ambiguous because {best.skill.path} and {second.skill.path} score "
        "the same: only a word that one of them lacks can decide"
    )


def _select_target(
    decision: Decision,
    contenders: Sequence[ExplainedCandidate],
    requested: Skill | None,
) -> ExplainedCandidate | None:
    if requested:
        return next(contender for contender in contenders if contender.skill.path == requested.path)
    runner_up = 1 if isinstance(decision, Candidate) else 0
    return contenders[runner_up] if len(contenders) > runner_up else None


def _suggest_keywords(
    target: ExplainedCandidate,
    contenders: Sequence[ExplainedCandidate],
    words: Sequence[TermWeight],
    matching: Matching,
) -> Iterator[str]:
    path = target.skill.path
    rivals = [contender for contender in contenders if contender is not target]
    rival = max((other.score for other in rivals if other.rank), default=Fraction(0))
    gap = to_exact_fraction(matching.ambiguity_threshold)
    if target.score - rival >= gap and target.score >= to_exact_fraction(matching.min_score):
        return
    missing = (word for word in _unmatched_words(target, words) if _is_subject(word))
    terms = [*islice(missing, _MAX_NEW_KEYWORDS)]
    for number in range(1, len(terms) + 1):
        score = _score_with_keywords(target, number)
        is_clear = score > rival and score - rival >= gap
        if is_clear and score >= to_exact_fraction(matching.min_score):
            noun = "keyword" if number == 1 else "keywords"
            added = " and ".join(abbreviate_value(word.term) for word in terms[:number])
            yield f"{path} would win with the {noun} {added}"
            return
    total = len(target.skill.keywords)
    matched = _count_matched(target)
    yield (
        f"{path} has {matched} of its {total} keywords in the task: fewer keywords, or "
        "more of them from the task, would make each count more"
    )


def _score_with_keywords(target: ExplainedCandidate, number: int) -> Fraction:
    matched = _count_matched(target) + number
    total = len(target.skill.keywords) + number
    return Fraction(matched, total) + target.skill.priority * PRIORITY_UNIT


def _count_matched(target: ExplainedCandidate) -> int:
    """Recover the count of matching keywords; a score without any is 0."""
    if target.rank is None:
        return 0
    own = target.score - target.skill.priority * PRIORITY_UNIT
    return round(own * len(target.skill.keywords))


def _suggest_words(
    target: ExplainedCandidate,
    contenders: Sequence[ExplainedCandidate],
    words: Sequence[TermWeight],
) -> Iterator[str]:
    path = target.skill.path
    missing = _pick_heaviest([*filter(_is_subject, _unmatched_words(target, words))])
    if missing:
        share = round(100 * sum(word.weight for word in missing))
        yield (
            f"{path} lacks {_quote(missing)}, {share} % of the task: its description "
            "or keywords are the place for what it is about"
        )
    known = " ".join(item.word for other in contenders for item in other.evidence).split()
    new = (word.typed for word in missing if not word.skills and word.typed not in known)
    # Two characters of a text without spaces are no word to write down.
    unknown = max(filterfalse(is_unsegmented, new), key=len, default="")
    if unknown:
        yield (
            f"no skill has {abbreviate_value(unknown)}: if it is another word for one that "
            f"{path} has, write both into routing.synonyms"
        )
    weak = [word for word in words if is_in_weak_fields(target.evidence, word.typed)]
    heaviest = _pick_heaviest(weak)
    if heaviest:
        yield (
            f"{path} has {_quote(heaviest)} only in its text, where it counts little: "
            "its description or keywords are the place for what it is about"
        )


_TASK_WORDS = frozenset(
    {"add", "build", "change", "check", "clean", "convert", "create", "debug", "delete", "do"}
    | {"edit", "explain", "find", "finish", "fix", "get", "give", "handle", "help", "implement"}
    | {"improve", "make", "modify", "move", "need", "new", "open", "please", "prepare", "put"}
    | {"refactor", "remove", "rename", "repair", "replace", "review", "rewrite", "run", "set"}
    | {"setup", "show", "solve", "start", "stop", "support", "task", "try", "update", "use"}
    | {"want", "work", "write", "issue", "problem", "thing", "way", "correct", "adjust"}
    | {"broken", "bug", "fail", "failing", "wrong"}
)
"""Words with which tasks of every subject begin: no author writes them as keywords."""


def _is_subject(word: TermWeight) -> bool:
    return _TASK_WORDS.isdisjoint({word.typed, word.term})


def _suggest_texts(
    decision: Decision,
    contenders: Sequence[ExplainedCandidate],
    context: str,
    requested: Skill | None,
) -> Iterator[str]:
    """Suggest an example task, and a clause for a rival; neither depends on a score."""
    target = _select_target(decision, contenders, requested)
    is_answer = isinstance(decision, Candidate) and (
        requested is None or decision.skill.path == requested.path
    )
    if target is None or is_answer:
        return
    path, task = target.skill.path, " ".join(context.split())
    is_new = task.casefold() not in map(str.casefold, target.skill.examples)
    if is_new and len(task) <= _MAX_TEXT_CHARACTERS:
        yield (
            f"if {path} is meant, add the task to its examples, which `skills-mcp test` "
            f'checks: "{task}"'
        )
    rivals = (other.skill.path for other in contenders if other is not target and other.rank)
    rival = next(rivals, "") if not isinstance(decision, NoMatch) else ""
    if rival:
        yield (
            f"agents choose by descriptions: if {rival} is not for this, let its own end "
            f'with "Not for this: {path}"'
        )


def _pick_heaviest(words: Sequence[TermWeight]) -> list[TermWeight]:
    heaviest = sorted(words, key=lambda word: -word.weight)[:_QUOTED_WORDS]
    share = sum(word.weight for word in heaviest)
    return heaviest if share >= _MIN_TASK_SHARE else []


def _unmatched_words(target: ExplainedCandidate, words: Sequence[TermWeight]) -> list[TermWeight]:
    """List the words without evidence, rarest first; tasks begin with vague verbs."""
    matched = " ".join(item.word for item in target.evidence).split()
    missing = [word for word in reversed(words) if word.typed not in matched]
    return sorted(missing, key=lambda word: word.skills)


def _quote(words: Sequence[TermWeight]) -> str:
    quoted = ", ".join(abbreviate_value(word.typed) for word in words[:_QUOTED_WORDS])
    more = len(words) - _QUOTED_WORDS
    return f"{quoted} and {more} more" if more > 0 else quoted


_EXPLAINED_CANDIDATES = 3
"""The answer, its rival and the one behind."""

# Of a pasted ticket; more would hide the explanation.
_MAX_WORDS = 30
_MAX_REASONS = 10
_MAX_IGNORED = 50
_MAX_NEGATED = 5

_MAX_TEXT_CHARACTERS = 80  # of a word, a keyword or a task; more of them would be a long reply

_TYPED_WORD = re.compile(r"[^\W_]+(?:['\N{RIGHT SINGLE QUOTATION MARK}][^\W_]+)*")

_DIGITS = 4  # of a weight or worth in JSON; more says nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """A decision with its evidence."""

    algorithm: str
    decision: Decision
    words: tuple[TermWeight, ...]
    """The weighted terms of the task, in its order."""
    ignored: tuple[str, ...]
    """Words without weight for this algorithm."""
    contenders: tuple[ExplainedCandidate, ...]
    """The best skills in their order, then the requested one."""
    notes: tuple[str, ...]


def explain_decision(
    matcher: Matcher,
    context: str,
    matching: Matching,
    *,
    skill: Skill | None = None,
    within: Mask = None,
) -> Explanation:
    """Explain a decision, and the rank of `skill`: why not this one?"""
    if isinstance(matcher, MixedMatcher):
        return _explain_mixed(matcher, context, matching, skill, within)
    return _explain_part(matcher, context, matching, skill, within)


def _explain_part(
    matcher: Matcher, context: str, matching: Matching, skill: Skill | None, within: Mask
) -> Explanation:
    decision = score_and_decide(matcher, context, matching, within=within)
    texts = select_texts(matcher, context, within=within)
    full_text, context = context, texts[0]
    words = matcher.weigh_terms(context)
    compared = score_texts(matcher, texts, limit=MAX_LISTED, within=within)
    if matcher.algorithm == "ranked":
        compared = tuple(merge_near_copies(compared))
    best = compared[:_EXPLAINED_CANDIDATES]
    contenders = tuple(
        _explain_candidate(matcher, texts, candidate, rank, within)
        for rank, candidate in enumerate(best, 1)
    )
    requested, notes = skill, []
    negated = matcher.find_negated(context)
    if skill and skill.path in negated.paths:
        requested = None
    elif skill and all(candidate.skill.path != skill.path for candidate in best):
        explained = _explain_skill(matcher, texts, skill, within)
        if explained:
            contenders += (explained,)
        else:
            requested = None
            outside = "is outside of the part that was chosen from"
            notes.append(f"{skill.path} {FOR_USERS_ONLY if skill.user_only else outside}")
    notes += _explain_reading(full_text, context, negated, skill)
    answered = ScoredDecision(decision, compared, matcher.algorithm)
    notes += suggest_changes(answered, contenders, words, matching, requested=requested)
    notes += _suggest_texts(decision, contenders, context, requested)
    return Explanation(
        algorithm=matcher.algorithm,
        decision=decision,
        words=words,
        ignored=_find_ignored(matcher, context),
        contenders=contenders,
        notes=tuple(notes),
    )


def _explain_mixed(
    matcher: MixedMatcher, context: str, matching: Matching, skill: Skill | None, within: Mask
) -> Explanation:
    """Explain the part of the requested skill, or of the first answer, then the other answers."""
    decision = score_and_decide(matcher, context, matching, within=within)
    answered = answered_candidates(decision)
    leading = skill or (answered[0].skill if answered else None)
    part = matcher.find_part(leading) if leading else matcher.others
    own = _explain_part(part.matcher, context, matching, skill, part.narrow(within))
    known = {contender.skill.path for contender in own.contenders}
    texts = select_texts(matcher.others.matcher, context, within=within)
    more = tuple(
        _explain_candidate(matcher, texts, candidate, rank, within)
        for rank, candidate in enumerate(answered, 1)
        if candidate.skill.path not in known
    )
    contenders = (*own.contenders, *more)
    notes = (*_explain_parts(matcher, contenders), *own.notes)
    return replace(own, algorithm="mixed", decision=decision, contenders=contenders, notes=notes)


def _explain_parts(
    matcher: MixedMatcher, contenders: Sequence[ExplainedCandidate]
) -> Iterator[str]:
    for part, how in (
        (matcher.declared, "matched by declared keywords"),
        (matcher.others, "ranked by all words"),
    ):
        paths = [c.skill.path for c in contenders if matcher.find_part(c.skill) is part]
        if paths:
            yield f"{how}: {', '.join(paths)}"


def render_explanation(explanation: Explanation) -> dict[str, Any]:
    return {
        "algorithm": explanation.algorithm,
        "words": [_render_word(word) for word in heaviest_words(explanation)],
        "ignored": list(explanation.ignored),
        "candidates": [_render_contender(contender) for contender in explanation.contenders],
        "notes": list(explanation.notes),
    }


def heaviest_words(explanation: Explanation) -> tuple[TermWeight, ...]:
    heaviest = sorted(explanation.words, key=lambda word: -word.weight)[:_MAX_WORDS]
    return tuple(word for word in explanation.words if word in heaviest)


def summarize_evidence(evidence: Sequence[Evidence]) -> tuple[Evidence, ...]:
    """Keep the largest contributions and sum up the rest; the total is unchanged."""
    ordered = sorted(evidence, key=lambda item: -abs(item.worth))
    heaviest, rest = ordered[:_MAX_REASONS], ordered[_MAX_REASONS:]
    if not rest:
        return tuple(heaviest)
    worth = sum(item.worth for item in rest)
    others = Evidence(word="", where="rest", found=f"{len(rest)} more", worth=worth)
    return (*heaviest, others)


def _explain_candidate(
    matcher: Matcher, texts: Sequence[str], candidate: Candidate, rank: int, within: Mask
) -> ExplainedCandidate:
    found = (matcher.explain(text, candidate.skill, within=within) for text in texts)
    evidence = max(found, key=lambda evidence: sum(item.worth for item in evidence))
    return ExplainedCandidate(candidate.skill, candidate.exact_score, rank, evidence)


def _explain_skill(
    matcher: Matcher, texts: Sequence[str], skill: Skill, within: Mask
) -> ExplainedCandidate | None:
    for rank, candidate in enumerate(score_texts(matcher, texts, within=within), 1):
        if candidate.skill.path == skill.path:
            return _explain_candidate(matcher, texts, candidate, rank, within)
    unfiltered = score_texts(matcher, texts) if within is not None else ()
    if any(candidate.skill.path == skill.path for candidate in unfiltered):
        return None
    return ExplainedCandidate(skill, Fraction(0), None, ())


def _to_short_line(text: str) -> str:
    line = " ".join(text[: _MAX_TEXT_CHARACTERS + 1].split())
    return line if len(line) <= _MAX_TEXT_CHARACTERS else f"{line[: _MAX_TEXT_CHARACTERS - 1]}…"


def _explain_reading(
    full_text: str, part: str, negated: NegatedScope, requested: Skill | None
) -> Iterator[str]:
    if part != full_text:
        yield f"of this long text a part was taken for the task: {_to_short_line(part)}"
    if negated.words:
        words = ", ".join(map(abbreviate_value, negated.words[:_MAX_NEGATED]))
        yield f"left out, because the task negates them: {words}"
    named = [requested.path] if requested and requested.path in negated.paths else []
    for path in dict.fromkeys((*named, *sorted(negated.paths)[:_MAX_NEGATED])):
        yield f"{path} is not served for this task, which says not to use it"


def _find_ignored(matcher: Matcher, context: str) -> tuple[str, ...]:
    typed = dict.fromkeys(word.casefold() for word in _TYPED_WORD.findall(context))
    ignored = (word for word in typed if not matcher.weigh_terms(word))
    return tuple(map(_to_short_line, islice(ignored, _MAX_IGNORED)))


def _render_word(word: TermWeight) -> dict[str, Any]:
    return {
        "word": _to_short_line(word.typed),
        "term": _to_short_line(word.term),
        "weight": round(word.weight, _DIGITS),
        "skills": word.skills,
    }


def _render_contender(contender: ExplainedCandidate) -> dict[str, Any]:
    return {
        "skill_path": contender.skill.path,
        "place": contender.rank,
        "score": round(float(contender.score), _DIGITS),
        "evidence": [_render_evidence(item) for item in summarize_evidence(contender.evidence)],
    }


def _render_evidence(evidence: Evidence) -> dict[str, Any]:
    return {
        "word": _to_short_line(evidence.word),
        "where": evidence.where,
        "found": _to_short_line(evidence.found),
        "worth": round(evidence.worth, _DIGITS),
    }
