"""An application at a port of this process."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

import uvicorn
from starlette.types import ASGIApp

from skills_mcp.http.http_server import open_listener
from tests.support import wait_for


@contextmanager
def listening(app: ASGIApp) -> Iterator[str]:
    """Serve until the block ends, and return the URL without a path."""
    with open_listener("127.0.0.1", 0, "port") as opened:
        config = uvicorn.Config(
            app,
            log_config=None,
            proxy_headers=False,
            timeout_graceful_shutdown=1,
            ws="none",
        )
        server = uvicorn.Server(config)
        thread = Thread(target=server.run, args=([opened],))
        thread.start()
        try:
            wait_for(lambda: server.started)
            yield f"http://127.0.0.1:{opened.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
