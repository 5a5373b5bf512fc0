"""Which skills are handed out, and which of them help, commit by commit.  Pure."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from skills_mcp.usage.entries import MOST_TEXT, Entry
from skills_mcp.usage.summary import Feedback, SkillUse, Unserved

_MOST_COMMENTS = 5  # of a skill at a commit: what is wrong is said by then

_EARLIEST = datetime.min.replace(tzinfo=UTC)
_LATEST = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class OfferedSkill:
    """What a report needs to know of a skill that is offered."""

    path: str
    description: str
    keywords: tuple[str, ...]
    is_above_others: bool = False
    """Whether it reaches agents with the skills below it, and seldom by itself."""


@dataclass(slots=True)
class Seen:
    """When something was seen for the first and for the last time."""

    first: datetime = _LATEST
    last: datetime = _EARLIEST

    def add(self, moment: datetime) -> None:
        """Count a moment in."""
        self.first, self.last = min(self.first, moment), max(self.last, moment)


@dataclass(slots=True)
class _Used:
    """How often a skill was handed out."""

    served: int = 0
    unchanged: int = 0
    picked: int = 0
    files: int = 0
    seen: Seen = field(default_factory=Seen)


class Uses:
    """How often each skill was handed out, or almost."""

    def __init__(self) -> None:
        self._used: defaultdict[str, _Used] = defaultdict(_Used)
        self._candidates: Counter[str] = Counter()

    def add_served(self, entry: Entry) -> None:
        """Count a skill."""
        used = self._use(entry)
        used.served += 1
        used.unchanged += entry.is_set("unchanged")
        used.picked += entry.is_set("was_ambiguous")

    def add_file(self, entry: Entry) -> None:
        """Count a file of a skill."""
        self._use(entry).files += 1

    def add_ambiguous(self, entry: Entry) -> None:
        """Count those that almost were."""
        self._candidates.update(set(entry.texts("candidates")))

    def _use(self, entry: Entry) -> _Used:
        used = self._used[entry.text("skill_path")]
        used.seen.add(entry.moment)
        return used

    def derive(
        self, offered: Mapping[str, OfferedSkill] | None
    ) -> tuple[SkillUse, ...]:
        """Return them, the most frequent first."""
        order = sorted(self._used.items(), key=lambda item: (-item[1].served, item[0]))
        return tuple(
            SkillUse(
                skill=path,
                served=used.served,
                unchanged=used.unchanged,
                picked=used.picked,
                files=used.files,
                last_seen=used.seen.last.date(),
                is_offered=None if offered is None else path in offered,
            )
            for path, used in order
        )

    def derive_unserved(
        self, offered: Mapping[str, OfferedSkill] | None
    ) -> tuple[Unserved, ...] | None:
        """Return the skills that nobody got, in the order of their paths."""
        if offered is None:
            return None
        served = {path for path, used in self._used.items() if used.served}
        return tuple(
            Unserved(
                skill=skill.path,
                description=skill.description,
                keywords=skill.keywords,
                candidate=self._candidates[skill.path],
            )
            for _, skill in sorted(offered.items())
            if skill.path not in served and not skill.is_above_others
        )


@dataclass(slots=True)
class _Judged:
    """What agents thought of one state of a skill."""

    served: int = 0
    useful: int = 0
    not_useful: int = 0
    comments: dict[tuple[bool, str], datetime] = field(default_factory=dict)
    """When each was written last, and whether it is a complaint."""
    seen: Seen = field(default_factory=Seen)

    def comment(self, text: str, moment: datetime, *, is_complaint: bool) -> None:
        """Keep a comment, if it is among the first to be read."""
        key = is_complaint, text
        self.comments[key] = max(moment, self.comments.get(key, moment))
        if len(self.comments) > _MOST_COMMENTS:
            del self.comments[self.order()[-1]]

    def order(self) -> list[tuple[bool, str]]:
        """Return the comments: complaints first, and the newest of them."""
        return sorted(
            self.comments,
            key=lambda key: (key[0], self.comments[key], key[1]),
            reverse=True,
        )


class Verdicts:
    """What agents thought of skills, commit by commit."""

    def __init__(self) -> None:
        self._judged: defaultdict[tuple[str, str], _Judged] = defaultdict(_Judged)

    def add_served(self, entry: Entry) -> None:
        """Count who could have said something."""
        self._judge(entry).served += 1

    def add(self, entry: Entry) -> None:
        """Count what somebody said."""
        judged = self._judge(entry)
        is_useful = entry.is_set("useful")
        judged.useful += is_useful
        judged.not_useful += not is_useful
        if text := entry.text("comment", MOST_TEXT):
            judged.comment(text, entry.moment, is_complaint=not is_useful)

    def _judge(self, entry: Entry) -> _Judged:
        judged = self._judged[entry.text("skill_path"), entry.commit]
        judged.seen.add(entry.moment)
        return judged

    def derive(self) -> tuple[Feedback, ...]:
        """Return what was said: most complaints first, and each skill's in time."""
        complaints: Counter[str] = Counter()
        for (path, _), judged in self._judged.items():
            complaints[path] += judged.not_useful
        rows = [
            Feedback(
                skill=path,
                commit=commit,
                served=judged.served,
                useful=judged.useful,
                not_useful=judged.not_useful,
                comments=tuple(text for _, text in judged.order()),
                first_seen=judged.seen.first.date(),
                last_seen=judged.seen.last.date(),
            )
            for (path, commit), judged in sorted(
                self._judged.items(), key=lambda item: (item[1].seen.first, item[0])
            )
            if judged.useful + judged.not_useful
        ]
        return tuple(sorted(rows, key=lambda row: (-complaints[row.skill], row.skill)))
