"""A token shows up nowhere, in any failure, and follows no redirect."""

import os
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skills_mcp.errors import AccessRefusedError
from soak.scenario import Figure, Scale, Scenario, Unavailable
from soak.stdio import home_variables, started
from soak.sync.canary import (
    SECRET,
    WAYS,
    Way,
    challenged,
    dispatch,
    find_canaries,
    read_below,
    repeat_secret,
    write_settings,
)
from soak.sync.mirror import mirrored
from tests.content.git_server import (
    Fault,
    GitServer,
    Request,
    answer,
    cut,
    flip,
    hang,
    hang_after_headers,
    only,
    redirect,
    serving,
    stall,
)
from tests.support import PROJECT, Upstream, skill_text

_FEWEST_PATHS = 40

_GARBAGE = answer(
    200, b"0009hello\xff\0", Content_Type="application/x-git-upload-pack-advertisement"
)


@dataclass(frozen=True, slots=True)
class _Run:
    """The files that one server has left, and the ways in which its syncs failed."""

    failed: frozenset[str]
    places: Mapping[str, bytes]
    served: str


def hide_token(folder: Path, scale: Scale) -> Iterator[Figure]:
    """Fail in every way with each kind of token; then search every file and output."""
    with ThreadPoolExecutor(len(WAYS)) as pool:
        jobs = [pool.submit(_fail_everywhere, folder, way, scale) for way in WAYS]
        runs = [job.result() for job in jobs]
    paths = sum(len(run.failed) for run in runs)
    served = sum(run.served == "fine/one" for run in runs)
    yield Figure.every(24, "the token works: private content served", served, len(runs))
    places = sum(len(run.places) for run in runs)
    yield Figure(
        24,
        f"error paths ({len(runs)} kinds of token)",
        str(paths),
        f"at least {_FEWEST_PATHS}",
        paths >= _FEWEST_PATHS,
    )
    found = [place for run in runs for place in find_canaries(run.places)]
    seen = f" ({', '.join(found[:3])})" if found else ""
    yield Figure(
        24,
        "places with the token: replies, logs, arguments of processes, files",
        f"{len(found)} of {places}{seen}",
        "0",
        not found,
    )


def rotate_token(folder: Path, _: Scale) -> Iterator[Figure]:
    """Change the token in its file, in the ways that people and platforms do it."""
    file = folder / "token"
    file.write_text("first\n", encoding="utf-8")
    with mirrored(folder) as (mirror, server):
        source = mirror.source = mirror.open(token_file=file)
        facts = []
        server.token = "first"  # noqa: S105 - it opens nothing
        facts.append(mirror.sync() is None)
        for number, rotate in enumerate((_write, _replace, _swap_folder)):
            server.token = f"next-{number}"
            refused = mirror.sync()
            rotate(file, server.token)
            facts += [isinstance(refused, AccessRefusedError), mirror.sync() is None]
        file.unlink()
        mirror.push("while the file is away")
        facts.append(isinstance(mirror.sync(), AccessRefusedError))
        facts.append(mirror.served() is not None)
        _write(file, server.token)
        facts.append(mirror.sync() is None and mirror.serves())
        facts.append(source is mirror.source)
    yield Figure.every(26, "rotation of the file, no restart", sum(facts), len(facts))


def _fail_everywhere(folder: Path, way: Way, scale: Scale) -> _Run:
    """Run one server with a source for each way to fail, and one that is fine."""
    folder = folder / way.name
    folder.mkdir()
    seen: dict[str, bytes] = {}
    faults = _invent_faults(scale)
    upstream = Upstream.create(folder / "served")
    upstream.commit({"skills/one.md": skill_text(keywords=["one"])})
    traces = {
        name: str(folder / "home" / name)
        for name in ("GIT_TRACE", "GIT_TRACE_CURL", "GIT_TRACE_PACKET")
    }
    variables = {**way.environment(folder), **traces, "GIT_TRACE_REDACT": "0"}
    with serving(folder / "served", SECRET) as server:
        watched = {name: _watched(name, fault, seen) for name, fault in faults.items()}
        dispatch(server, watched)
        said = {}
        if scale.is_full:
            fine = write_settings(folder, [_source(server, way, "fine")])
            said["sync of one"] = _run_command("sync", folder, fine, variables)
        settings = write_settings(
            folder,
            [_source(server, way, name) for name in faults],
            sync={"timeout_seconds": scale.count(full=5, quick=60)},
            analytics={"enabled": True, "endpoint": "http://127.0.0.1:9/events"},
        )
        words = ("--config", str(settings), "--log-level", "debug")
        with started(folder, *words, **variables) as process:
            replies = _call_everything(process.call)
            process.close_input()
            process.wait()
            process.wait_for_end_of_output()
        said |= {"stdout": "".join(process.lines), "stderr": process.log}
        for command in ("status", "sync") if scale.is_full else ():
            said[command] = _run_command(command, folder, settings, variables)
    places = {name: text.encode() for name, text in said.items()}
    failed = {each["mount"] for each in replies["refresh"]["sources"] if "error" in each}
    return _Run(
        frozenset(failed),
        {**places, **seen, **read_below(folder / "home")},
        replies["skill"].get("skill_path", ""),
    )


def _invent_faults(scale: Scale) -> dict[str, Fault | None]:
    statuses = (400, 401, 403, 404, 429, 500, 503)
    faults = {f"status-{status}": answer(status) for status in statuses}
    faults |= {
        "moves": redirect(302, _elsewhere()),
        "repeats": repeat_secret,
        "cuts": cut(0.5),
        "cuts-early": only("ls-refs", _cut_early),
        "flips": flip(0.7),
        "garbage": _GARBAGE,
    }
    if scale.is_full:
        faults |= {f"status-{status}": answer(status) for status in (410, 502)}
        faults |= {f"moves-{code}": redirect(code, _elsewhere()) for code in CODES}
        faults |= {"hangs": hang, "hangs-later": hang_after_headers}
        faults["stalls"] = stall(0.5)
    challenging = {name: challenged(fault) for name, fault in faults.items()}
    return {"no-branch": None, **challenging, "fine": None}


def _cut_early(request: Request) -> None:
    good = request.ask_git()
    request.send(good, good.content[:20])


def _elsewhere() -> str:
    return "http://127.0.0.2:9"


def _source(server: GitServer, way: Way, name: str) -> Mapping[str, object]:
    address = way.address(f"{server.url}/{name}/upstream.git")
    branch = "nobody-has-it" if name == "no-branch" else "main"
    return {"repo": address, "mount": name, "branch": branch}


def _watched(name: str, fault: Fault | None, seen: dict[str, bytes]) -> Fault:
    """Look at the arguments of all processes while Git waits for its answer."""

    def look(request: Any) -> None:
        place = f"processes at {request.kind} of {name}"
        if request.headers.get("Authorization") and place not in seen:
            seen[place] = _read_arguments()
        (fault or type(request).serve)(request)

    return look


def _read_arguments() -> bytes:
    done = subprocess.run(["ps", "-A", "-ww", "-o", "args="], capture_output=True, check=True)
    return done.stdout


def _call_everything(call: Any) -> dict[str, Any]:
    return {
        "list": call("list_skills"),
        "skill": call("get_skill", context="one", skill_path="fine/one"),
        "asset": call("get_asset", skill_path="fine/one", file="none.txt"),
        "usage": call("report_usage", skill_path="fine/one", useful=True),
        "refresh": call("refresh_skills"),
        "again": call("list_skills"),
    }


def _run_command(command: str, folder: Path, settings: Path, variables: Mapping[str, str]) -> str:
    """Return what a command for people prints."""
    words = (command, "--config", str(settings), "--log-level", "debug", "--json")
    done = subprocess.run(
        [sys.executable, "-m", "skills_mcp", *words],
        env={**os.environ, **home_variables(folder), **variables},
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "fine" in done.stdout, done.stderr  # noqa: S101 - or it proves nothing
    return done.stdout + done.stderr


def _write(file: Path, token: str | None) -> None:
    file.write_text(f"{token}\n", encoding="utf-8")


def _replace(file: Path, token: str | None) -> None:
    new = file.with_name("new-token")
    _write(new, token)
    new.replace(file)


def _swap_folder(file: Path, token: str | None) -> None:
    """Do as Kubernetes does: the file is a link into a folder that is replaced."""
    data = file.with_name("..data")
    data.mkdir()
    _write(data / "token", token)
    file.unlink()
    file.symlink_to("..data/token")


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
            {"repo": way.address(f"{url}/{code}/upstream.git"), "mount": code} for code in faults
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


SCENARIOS: tuple[tuple[str, Scenario], ...] = (
    ("canary", hide_token),
    ("rotation", rotate_token),
    ("redirects", follow_no_redirect),
)
