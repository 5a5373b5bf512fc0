"""The bytes that run are those that were read, and arguments arrive unchanged."""

import hashlib
import multiprocessing
import random
import string
from collections.abc import Iterator, Mapping
from pathlib import Path

import anyio

from skills_mcp.errors import FileError, InvalidArgumentsError
from skills_mcp.library.skill_library import SkillLibrary
from skills_mcp.scripts.policy import ScriptRequest
from soak.scenario import Figure, Scale, Scenario
from tests.support import open_library, write, write_skill

_FILE = "scripts/a.sh"
_VERSIONS = 3
_ARGUMENTS_AT_ONCE = 25
_SEED = 8_4


def run_while_swapping(folder: Path, scale: Scale) -> Iterator[Figure]:
    """Run a script while another process keeps exchanging it."""
    content = folder / "content"
    declared = {"file": _FILE, "description": "A", "execution": "server"}
    write_skill(content, "a.md", scripts=[declared])
    script = write(content / "a" / _FILE, _compose_version(0))
    library = open_library(content)
    count = scale.count(full=1_000, quick=15)
    context = multiprocessing.get_context("spawn")
    swapper = context.Process(target=_swap, args=(script,), daemon=True)
    swapper.start()
    try:
        ran, refused, wrong = anyio.run(_run_often, library, count)
    finally:
        swapper.kill()
        swapper.join()
        library.close()
    yield Figure.none(34, "runs of other bytes than the digest says", wrong, ran)
    what = "runs of a script that is exchanged: run or refused"
    yield Figure.every(34, what, ran + refused, count)


def pass_arguments(folder: Path, scale: Scale) -> Iterator[Figure]:
    """Pass arguments of every kind, and have a shell print them."""
    canary = folder / "canary"
    names = [f"v{number}" for number in range(_ARGUMENTS_AT_ONCE)]
    printing = "".join(f"printf '%s\\0' \"$SKILL_ARG_{name.upper()}\"\n" for name in names)
    content = folder / "content"
    arguments = [{"name": name, "required": True} for name in names]
    declared = {"file": _FILE, "execution": "server", "args": arguments}
    write_skill(content, "a.md", scripts=[{**declared, "description": "Prints"}])
    write(content / "a" / _FILE, printing)
    library = open_library(content)
    values = list(_invent(scale.count(full=10_000, quick=300), str(canary)))
    changed = refused = 0
    for start in range(0, len(values), len(names)):
        given = dict(zip(names, values[start : start + len(names)], strict=True))
        try:
            printed = anyio.run(_print, library, given)
        except InvalidArgumentsError:
            refused += 1
            changed += not any("\0" in v or not _is_text(v) for v in given.values())
        else:
            changed += printed != list(given.values())
    library.close()
    batches = len(values) // len(names)
    yield Figure.none(39, "batches of values that arrived changed", changed, batches)
    what = "batches refused for a NUL or half a character"
    yield Figure(39, what, str(refused), "some", refused > 0)
    touched = len(list(folder.glob("canary*")))
    yield Figure.none(39, "values that were run", touched, len(values))


SCENARIOS: tuple[tuple[str, Scenario], ...] = (
    ("swapped-scripts", run_while_swapping),
    ("arguments", pass_arguments),
)


def _compose_version(number: int) -> str:
    return f"echo version {number}\n"


def _swap(script: Path) -> None:
    """Exchange the script again and again: in place, by renaming, and by a link."""
    other = script.with_name("other")
    for number in range(10**9):
        text = _compose_version(number % _VERSIONS)
        if number % 2:
            script.write_text(text)
        else:
            other.write_text(text)
            other.replace(script)


async def _run_often(library: SkillLibrary, count: int) -> tuple[int, int, int]:
    """Return how often the script ran, was refused, and printed wrong text."""
    ran = refused = wrong = 0
    # A file that is written in place is empty for a moment.
    digests = {"": hashlib.sha256()} | {
        f"version {number}\n": hashlib.sha256(_compose_version(number).encode())
        for number in range(_VERSIONS)
    }
    request = ScriptRequest(skill_path="a", file=_FILE, args={})
    for _ in range(count):
        await anyio.to_thread.run_sync(library.sync)
        try:
            reply = await library.view().run(request)
        except FileError:
            refused += 1
            continue
        ran += 1
        expected = digests.get(reply.result.stdout)
        wrong += expected is None or reply.sha256 != expected.hexdigest()
    return ran, refused, wrong


async def _print(library: SkillLibrary, given: Mapping[str, str]) -> list[str]:
    request = ScriptRequest(skill_path="a", file=_FILE, args=given)
    result = (await library.view().run(request)).result
    return result.stdout.split("\0")[:-1]


def _invent(count: int, canary: str) -> Iterator[str]:
    """Yield values: commands in every kind of quotes, and random text."""
    chosen = random.Random(_SEED)  # noqa: S311 - the same on every machine
    run = f"touch {canary}"
    commands = [
        *(f"; {run}", f"$({run})", f"`{run}`", f"| {run}", f"&& {run}", f"\n{run}\n"),
        *(f"' ; {run} ; '", f'" ; {run} ; "', f"() {{ :;}}; {run}", f"${{IFS}}{run}"),
        *(f"--help; {run}", f"a[$({run})]", "-n", "-e \\x41", "%s%n", "\\", "'", '"'),
        *("", " ", "\t\r\n", "\x1b[2J", "\u202e", "e\u0301", "\U0001f9ea", "~", "*"),
    ]
    yield from commands
    letters = string.printable + "äßéçñ漢字かなहिन्दी🧪\u200b\u2028\ufeff"
    for number in range(count - len(commands)):
        text = "".join(chosen.choices(letters, k=chosen.randrange(60)))
        # Now and then what no process can be given.
        spoilt = {0: "\0", 1: "\ud800"}.get(number % 400, "")
        yield text + spoilt


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
