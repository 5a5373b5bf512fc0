"""A coverage-guided fuzzer against paths and frontmatter: promise 33."""

import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from soak.scenario import Figure, Scale, Scenario, Unavailable

_MAX_BYTES = 4096
"""The longest input: longer ones reach no other code."""

_SEEDS = (
    "---\ndescription: D\nkeywords: [a, b]\nassets:\n- file: x.txt\n---\nText.\n",
    "---\nname: a\nmetadata: {skillhub: {tags: [a]}}\nexamples: [b]\n---\nText.\n",
    "scripts:\n- {file: run.sh, execution: server, args: [{name: a}]}",
    "a/b/c",
    "../a/../canary",
    "up/canary",
)


def fuzz(folder: Path, scale: Scale) -> Iterator[Figure]:
    """Let a fuzzer search for input that raises, escapes, or is dropped silently."""
    if importlib.util.find_spec("atheris") is None:
        raise Unavailable("the fuzzer is not installed; make soak installs it")
    runs = scale.count(full=100_000, quick=400)
    corpus = folder / "corpus"
    corpus.mkdir()
    for number, seed in enumerate(_SEEDS):
        (corpus / str(number)).write_text(seed, "utf-8")
    done = subprocess.run(
        [
            *(
                sys.executable,
                "-m",
                "soak.input.fuzz_target",
                f"-runs={runs}",
                "-seed=1",
            ),
            *(f"-max_len={_MAX_BYTES}", f"-artifact_prefix={folder}/", str(corpus)),
        ],
        check=False,
        capture_output=True,
        cwd=Path(__file__).parent.parent.parent,
    )
    log = done.stderr.decode("utf-8", "replace")
    finished = re.search(r"Done (\d+) runs", log)
    count = int(finished[1]) if finished else 0
    fault = "" if done.returncode == 0 else f" ({_name(log)})"
    crashes = int(done.returncode != 0)
    yield Figure.none(33, f"inputs that raise{fault}", crashes, max(count, crashes))
    yield Figure.every(33, "inputs tried", min(count, runs), runs)


def _name(log: str) -> str:
    """Return the exception, and the input as the fuzzer prints it."""
    raised = re.findall(r"^\w*(?:Error|Exception)\b.*", log, re.MULTILINE)
    given = re.findall(r"^Base64: .*", log, re.MULTILINE)
    return "; ".join((raised or log.splitlines() or ["it ended"])[-1:] + given)


SCENARIOS: tuple[tuple[str, Scenario], ...] = (("fuzzing", fuzz),)
