"""What speaks for a skill: the words of a task, and where they were found."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WordEvidence:
    """A word of the task, as an algorithm sees it."""

    typed: str
    """As it stands in the task, folded."""
    term: str
    """What is compared: a token of the keyword algorithm, or a stem."""
    weight: float
    """Its share of the task; those of all words add up to 1."""
    skills: int
    """How many skills it speaks for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One reason for a skill's score."""

    word: str
    """The word of the task, or words; empty for what no word decides."""
    where: str
    """What holds it: `keyword`, `name`, `description`, `body`, `priority` …"""
    found: str
    """What stands there, such as the keyword."""
    worth: float
    """What it adds to the score; all evidence together is the score."""
