"""The hook of the report: it rolls up the collected events of each day."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skills_mcp.features.report.database_report import RollUp
    from skills_mcp.server.parts import Serving


def open_part(serving: "Serving") -> "RollUp | None":
    """Open the roll-up of a server that collects events."""
    if serving.store is None:
        return None
    from skills_mcp.features.report.database_report import RollUp

    return RollUp(serving.store)
