"""One server for all windows of a user: forwarders, their server, and where they meet."""

TYPE_CHECKING = False  # as in `typing`, for which a forwarder has no time
if TYPE_CHECKING:
    from skills_mcp.server.windows.rendezvous import Rendezvous

claim: "tuple[Rendezvous, int] | None" = None
"""Place and lock, in a process that was started to be the server; otherwise None."""
