"""Private words of people stay on their machine: promise 47."""

import json
import random
import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio

from skills_mcp.config import Analytics
from skills_mcp.events.publisher import Publisher
from skills_mcp.events.spool import Outbox
from soak.events.receivers import receiving
from soak.scenario import Figure, Scale, Scenario
from soak.stdio import home_variables, started
from tests.clients import ServerProcess
from tests.support import SKILLS_CONTENT, write

_FEWEST = 50
_SCRIPT = "scripts/validate-auth-config.py"
_chance = random.Random(47)  # noqa: S311 - they open nothing


@dataclass(frozen=True, slots=True)
class _Canary:
    """Something private, as it stands in a sentence."""

    secret: str
    """What must not be found."""
    text: str


def keep_canaries(folder: Path, scale: Scale) -> Iterator[Figure]:
    """Send private texts to a real server, and search for them in events and files."""
    shown = _invent_recognisable(folder)
    hidden = _invent_unrecognisable()
    every = [*shown, *hidden]
    enough = len(every) >= _FEWEST
    yield Figure.every(47, "as many canaries as promised", int(enough), 1)
    scripts = scale.count(full=len(every), quick=2)
    for mode, canaries in (("hashed", every), ("none", every), ("redacted", shown)):
        if mode == "none" and not scale.is_full:
            continue
        sent, kept = _tell(folder / mode, mode, every, scripts)
        for where, data in (("sent", sent), ("on the disk", kept)):
            found = [each.text for each in canaries if each.secret.encode() in data]
            what = f"{mode}: private texts {where}{_name(found)}"
            yield Figure.none(47, what, len(found), len(canaries))
    sent, _ = _tell(folder / "full", "full", every, 0)
    found = [each.text for each in every if each.secret.encode() in sent]
    yield Figure.every(47, "full, as a control: sent", len(found), len(every))


def _name(found: Sequence[str]) -> str:
    return f" ({found})" if found else ""


def _tell(
    folder: Path, mode: str, canaries: Sequence[_Canary], scripts: int
) -> tuple[bytes, bytes]:
    """Return what a receiver gets of a session, and what is on the disk after it."""
    folder.mkdir()
    ours = folder / "home" / ".skills-mcp"
    with receiving(lambda _: "accept") as receiver:
        analytics = {"enabled": True, "endpoint": receiver.url, "context": mode}
        # Sent here and not by the server: it may end in the middle of a request, whose
        # events are not sent again before a minute has passed.
        settings = {
            "analytics": analytics,
            "toolsets": ["core", "packages"],
            "sync": {"offline": True},
        }
        home_variables(folder)
        write(ours / "config.yaml", json.dumps(settings))
        with started(folder, SKILLS_DIR=str(SKILLS_CONTENT)) as server:
            for number, canary in enumerate(canaries):
                _mention(server, canary, runs_script=number < scripts)
            server.close_input()
            server.wait()
        # A busy machine may end the server in the middle of its last round, which keeps
        # other processes back for a minute.
        (ours / "spool" / "attempts.json").unlink(missing_ok=True)
        rules = Analytics.model_validate(analytics)
        anyio.run(Publisher(Outbox(ours), lambda: rules).publish)
        sent = b"\n".join(map(_read, receiver.bodies))
    files = (path for path in ours.rglob("*") if path.is_file())
    return sent, b"\n".join(path.read_bytes() for path in files)


def _read(body: bytes) -> bytes:
    """Return a body as it was sent, and as people read it: no escape hides a letter."""
    return body + json.dumps(json.loads(body), ensure_ascii=False).encode()


def _mention(server: ServerProcess, canary: _Canary, *, runs_script: bool) -> None:
    """Put a canary into every argument that an agent can fill."""
    text = f"for {canary.text} please"
    server.call("get_skill", context=f"zebra {text}")
    server.call("get_skill", context=f"add a login in React {text}")
    server.call("search_skills", query=f"zebra {text}")
    server.call("report_usage", skill_path="ui/react/auth", useful=True, comment=text)
    server.call("report_usage", skill_path=text, useful=False)
    if runs_script:
        values = {"client_id": text, "redirect_uri": "https://a.example/cb"}
        script = {"skill_path": "ui/react/auth", "file": _SCRIPT}
        server.call("run_script", **script, args=values)
        server.call("run_script", **script, args={text: "x"})


def _invent_recognisable(folder: Path) -> list[_Canary]:
    """Return texts with a known form: secrets, e-mail addresses, the home."""
    letters, upper = string.ascii_letters + string.digits, string.ascii_uppercase
    prefixes = (
        *(("gh" + kind + "_", 36) for kind in "pousr"),
        ("github_pat_", 60),
        ("glpat-", 24),
        ("xoxb-", 40),
        ("sk_live_", 32),
        ("npm_", 36),
        ("pypi-", 80),
        ("sk-ant-api03-", 60),
        ("sk-proj-", 60),
        ("hf_", 34),
        ("AIza", 35),
    )
    tokens = [prefix + _draw(letters, count) for prefix, count in prefixes]
    tokens.append("AKIA" + _draw(upper, 16))
    canaries = [_Canary(token, f"the key {token}") for token in tokens]
    word = _draw(letters, 24)
    canaries.append(_Canary(word, f"https://ada:{word}@git.example/x"))
    word = _draw(letters, 24)
    canaries.append(_Canary(word, f"Authorization: Bearer {word}"))
    word = _draw(letters, 24)
    canaries.append(_Canary(word, f'password = "{word}"'))
    people = ("ada.lovelace@shop.example", "grace+work@navy.example.org")
    canaries += [_Canary(person, f"write to {person}") for person in people]
    home = str(folder / "redacted" / "home")
    canaries.append(_Canary(home, f"read {home}/secret/plan.md"))
    return canaries


def _invent_unrecognisable() -> list[_Canary]:
    """Return texts that only people know to be private."""
    names = ("Bluebird", "Nightjar", "Kestrel", "Wheatear", "Dunnock", "Siskin")
    texts = [f"the secret project {name}-{_draw(string.digits, 4)}" for name in names]
    texts += [f"customer Müller & Söhne {number}" for number in range(6)]
    texts += [f"the salary of colleague {number} is 81,{number}44" for number in range(6)]
    texts += [f"call +49 30 12345{number}" for number in range(5)]
    texts += [f"日本の顧客{number}様" for number in range(5)]
    return [_Canary(text, text) for text in texts]


def _draw(letters: str, count: int) -> str:
    return "".join(_chance.choice(letters) for _ in range(count))


SCENARIOS: tuple[tuple[str, Scenario], ...] = (("events-privacy", keep_canaries),)
