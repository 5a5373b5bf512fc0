"""What a check has found: whether all is well, and what repairs it."""

from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    name: str
    """What was checked, such as `git` or `client codex`."""
    is_ok: bool
    message: str
    fix: str = ""
    """The command that repairs it, or what to do; empty if all is well."""

    def render(self) -> dict[str, object]:
        """Return it as JSON has it."""
        values = asdict(self)
        return {"name": values.pop("name"), "ok": values.pop("is_ok"), **values}
