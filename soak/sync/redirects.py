"""Hosts that send us elsewhere, and whether a token goes along."""

import os
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from soak.scenario import Figure, Scale, Scenario, Unavailable
from soak.stdio import home_variables
from soak.sync.canary import (
    SECRET,
    WAYS,
    Way,
    challenged,
    dispatch,
    write_settings,
)
from tests.content.git_server import GitServer, redirect, serving
from tests.support import PROJECT

CODES = (301, 302, 303, 307, 308)


def follow_no_redirect(folder: Path, scale: Scale) -> Iterator[Figure]:
    """Send us to another host, and from https to http."""
    ways = WAYS if scale.is_full else WAYS[:1]
    kinds = {"another host": _serve_plain, "plain http": _serve_securely}
    for kind, serve in kinds.items():
        asked, leaked, sent = 0, 0, 0
        for way in ways:
            inner = folder / f"{way.name}-{kind.replace(' ', '-')}"
            inner.mkdir()
            elsewhere, here = _redirect_everything(inner, way, serve)
            asked += 2 * len(CODES)
            leaked += sum(each is not None for each in elsewhere)
            sent += sum(each is not None for each in here) >= len(CODES)
        said = f"redirects to {kind}, {len(CODES)} codes"
        yield Figure.every(25, f"{said}: the first host got the token", sent, len(ways))
        yield Figure.none(25, f"{said}: tokens seen there", leaked, asked)


@contextmanager
def _serve_plain(folder: Path) -> Iterator[tuple[GitServer, str, Mapping[str, str]]]:
    with serving(folder, SECRET) as server:
        yield server, server.url, {}


@contextmanager
def _serve_securely(folder: Path) -> Iterator[tuple[GitServer, str, Mapping[str, str]]]:
    """Serve over https, with a certificate that is believed."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    words = "req -x509 -nodes -days 2 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1"
    names = ("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1")
    try:
        subprocess.run(
            ["openssl", *words.split(), *names, "-keyout", key, "-out", certificate],
            check=True,
            capture_output=True,
        )
    except FileNotFoundError as error:
        raise Unavailable("a certificate needs openssl") from error
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with serving(folder, SECRET) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        url = server.url.replace("http://", "https://")
        yield server, url, {"GIT_SSL_CAINFO": str(certificate)}


def _redirect_everything(
    folder: Path, way: Way, serve: Any
) -> tuple[list[str | None], list[str | None]]:
    """Return the headers that the other host has got, and those of the first one."""
    # The other host asks for a token, too: it would like to have ours.
    other_host = serving(folder, "another")
    with other_host as other, serve(folder) as (server, url, variables):
        # Before the first host has asked for the token, and after it has got it.
        faults = {f"{code}": redirect(code, other.url) for code in CODES}
        faults |= {f"{name}-later": challenged(it) for name, it in faults.items()}
        dispatch(server, faults)
        sources = (
            {"repo": way.address(f"{url}/{code}/upstream.git"), "mount": code}
            for code in faults
        )
        settings = write_settings(folder, sources)
        done = subprocess.run(
            [sys.executable, "-m", "skills_mcp", "sync", "--config", settings],
            env={
                **os.environ,
                **home_variables(folder),
                **variables,
                **way.environment(folder),
            },
            cwd=PROJECT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode != 0  # noqa: S101 - or it followed one
        return other.authorizations, server.authorizations


SCENARIOS: tuple[tuple[str, Scenario], ...] = (("redirects", follow_no_redirect),)
