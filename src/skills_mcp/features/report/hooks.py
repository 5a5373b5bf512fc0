"""The hook of the report: it rolls up the collected events of each day."""

from functools import partial

from skills_mcp.server.parts import ServerPart, Serving


def open_part(serving: Serving) -> ServerPart | None:
    """Open the roll-up of a server that collects events."""
    return _RollUp(serving) if serving.store else None


class _RollUp(ServerPart):
    def __init__(self, serving: Serving) -> None:
        self._store = serving.store

    async def run(self) -> None:
        """Roll up days with new events until cancelled."""
        from skills_mcp.events.collector.event_store import repeat_hourly
        from skills_mcp.features.report.database_report import roll_up_days

        if self._store:
            await repeat_hourly(partial(roll_up_days, self._store))
