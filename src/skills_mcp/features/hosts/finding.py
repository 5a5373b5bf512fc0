"""Result of a check, with its remedy."""

from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class CheckResult:
    name: str
    is_ok: bool
    message: str
    fix: str = ""
    """Command or instruction; empty if ok."""

    def render(self) -> dict[str, object]:
        """JSON representation."""
        values = asdict(self)
        return {"name": values.pop("name"), "ok": values.pop("is_ok"), **values}
