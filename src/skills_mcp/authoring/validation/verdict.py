"""What came out of a validation."""

from dataclasses import dataclass

from skills_mcp.skills.model import Problem


@dataclass(frozen=True, slots=True)
class Validation:
    """Everything that is wrong, and how much was looked at."""

    problems: tuple[Problem, ...]
    """In the order of files and lines; `file` is an absolute path."""
    skill_count: int
    """How many of the skills that were asked about are served."""

    @property
    def error_count(self) -> int:
        """How many problems break the standard or cost a file."""
        return sum(problem.level == "error" for problem in self.problems)

    @property
    def warning_count(self) -> int:
        """How many problems are advice."""
        return len(self.problems) - self.error_count
