"""Search libraries and other routers of skills, asked the same tasks, each if it is installed.

Each gets the skills of a set as folders with a `SKILL.md`, or as texts, and is asked
through its own Python API with its defaults. `python -m benchmarks.accuracy --peers`
prints what comes of it.
"""

import asyncio
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, redirect_stderr
from fractions import Fraction
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from io import StringIO
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from benchmarks.engines import join_texts
from skills_mcp.routing.decision import Ambiguous, Decision, NoMatch
from skills_mcp.routing.matcher import Candidate
from skills_mcp.routing.tokenizer import tokenize
from skills_mcp.skills.model import Skill

_HITS = 3  # of an engine that does not decide: as many as a list of ours has at most usually
_RANKED = 10
_MAX_DESCRIPTION = 1024  # of the standard; a longer one is refused


class Answer(NamedTuple):
    """What a peer said to a task: numbers of skills."""

    listed: Sequence[int]
    ranked: Sequence[int]
    kind: str = "ambiguous"
    """`single`, `ambiguous` or `no_match`."""


Ask = Callable[[str], Answer]


class Peer(NamedTuple):
    """Another program that chooses skills."""

    name: str
    module: str
    open: Callable[[Sequence[Skill], Path], Ask]
    """Index skills, with a folder to write to."""


class PeerRouter:
    """A peer with the skills of one set."""

    def __init__(self, peer: Peer, skills: Sequence[Skill], opened: ExitStack) -> None:
        self._skills = skills
        self._ask = peer.open(skills, Path(opened.enter_context(tempfile.TemporaryDirectory())))

    def route(self, task: str) -> tuple[Decision, tuple[Candidate, ...]]:
        """Return the answer to a task and the best skills, as we have them."""
        answer = self._ask(task)
        listed, ranked = map(self._to_candidates, (answer.listed, answer.ranked))
        if answer.kind == "single" and listed:
            return listed[0], ranked
        is_list = answer.kind == "ambiguous" and listed
        return Ambiguous(listed) if is_list else NoMatch(listed), ranked

    def _to_candidates(self, numbers: Iterable[int]) -> tuple[Candidate, ...]:
        found = enumerate(numbers, 1)
        return tuple(Candidate(self._skills[n], Fraction(1, place), ()) for place, n in found)


def _write_packages(skills: Sequence[Skill], top: Path) -> None:
    """Write each skill into a folder of its name, in one of its number."""
    for name, number in _name_apart(skills).items():
        skill, folder = skills[number], top / str(number) / name
        folder.mkdir(parents=True)
        fields: dict[str, Any] = {"name": name, "description": skill.description}
        if skill.keywords:
            fields["metadata"] = {"tags": list(skill.keywords)}
        head = yaml.safe_dump(fields, allow_unicode=True, sort_keys=False)
        (folder / "SKILL.md").write_text(f"---\n{head}---\n{skill.body}", encoding="utf-8")


def _open_bm25s(skills: Sequence[Skill], _: Path) -> Ask:
    bm25s, stemmer = import_module("bm25s"), import_module("Stemmer").Stemmer("english")
    cut = partial(bm25s.tokenize, stemmer=stemmer, stopwords="en", show_progress=False)
    retriever = bm25s.BM25()
    retriever.index(cut(list(map(join_texts, skills))), show_progress=False)
    most = min(_RANKED, len(skills))

    def ask(task: str) -> Answer:
        numbers, scores = retriever.retrieve(cut([task]), k=most, show_progress=False)
        pairs = zip(numbers[0].tolist(), scores[0].tolist(), strict=True)
        ranked = [number for number, score in pairs if score > 0]
        return Answer(ranked[:_HITS], ranked)

    return ask


def _open_tantivy(skills: Sequence[Skill], _: Path) -> Ask:
    tantivy = import_module("tantivy")
    schema = tantivy.SchemaBuilder().add_integer_field("number", stored=True)
    for field in _WEIGHTS:
        schema.add_text_field(field, tokenizer_name="en_stem")
    index = tantivy.Index(schema.build())
    writer = index.writer(num_threads=1)
    for number, skill in enumerate(skills):
        texts = (skill.name, " ".join(skill.keywords), skill.description, skill.body)
        row = dict(zip(_WEIGHTS, texts, strict=True))
        writer.add_document(tantivy.Document(number=number, **row))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    searcher = index.searcher()

    def ask(task: str) -> Answer:
        words = " ".join(tokenize(task)).replace("+", " ")
        query, _ = index.parse_query_lenient(words, list(_WEIGHTS), field_boosts=dict(_WEIGHTS))
        hits = searcher.search(query, _RANKED).hits
        ranked = [searcher.doc(address)["number"][0] for _, address in hits]
        return Answer(ranked[:_HITS], ranked)

    return ask


def _open_agentskills(skills: Sequence[Skill], _: Path) -> Ask:
    core, retrieval = map(import_module, ("agentskills_core", "agentskills_retrieval"))
    ids = _name_apart(skills)

    class Provider(core.SkillProvider):  # type: ignore[name-defined, misc]
        async def get_metadata(self, skill_id: str) -> dict[str, Any]:
            skill = skills[ids[skill_id]]
            description = skill.description[:_MAX_DESCRIPTION] or "-"
            tags = {"tags": list(skill.keywords)}
            return {"name": skill_id, "description": description, "metadata": tags}

        async def get_body(self, skill_id: str) -> str:
            return skills[ids[skill_id]].body or "-"

        async def _get_none(self, *_: object) -> bytes:
            raise FileNotFoundError

        get_script = get_asset = get_reference = _get_none

    registry = core.SkillRegistry()
    provider = Provider()
    asyncio.run(registry.register([(skill_id, provider) for skill_id in ids]))
    selector = retrieval.LexicalSelector(registry)
    asyncio.run(selector.index())

    def ask(task: str) -> Answer:
        found = asyncio.run(selector.select(task)).skill_ids
        listed = [ids[skill_id] for skill_id in found]
        return Answer(listed, listed, "ambiguous" if listed else "no_match")

    return ask


def _name_apart(skills: Sequence[Skill]) -> Mapping[str, int]:
    """Number skills by names of the standard; a second one of a name gets its path."""
    found: dict[str, int] = {}
    for number, skill in enumerate(skills):
        name, path = (
            "-".join("".join(c if c.isalnum() else " " for c in text.lower()).split())
            for text in (skill.name, skill.path)
        )
        found[path[-64:].strip("-") if name in found else name[:64].strip("-")] = number
    return found


def _open_skill_proof(skills: Sequence[Skill], folder: Path) -> Ask:
    core = import_module("skill_proof.core")
    _write_packages(skills, folder)
    engine = core.SkillProofEngine.from_config({"set": folder}, vector_index=None, max_candidates=5)
    turns = count()

    def ask(task: str) -> Answer:
        turn = f"t{next(turns)}"
        ids = dict.fromkeys(("turn_id", "session_id", "task_id"), turn)
        selection = engine.begin_turn(**ids, query=task).selection
        ranked = [int(each.skill.relative_path.split("/")[0]) for each in selection.candidates]
        if selection.selected is None:
            is_list = selection.status == "ambiguous"
            return Answer(ranked, ranked, "ambiguous" if is_list else "no_match")
        best = int(selection.selected.skill.relative_path.split("/")[0])
        return Answer([best], [best, *(n for n in ranked if n != best)], "single")

    return ask


def _open_skillroute(skills: Sequence[Skill], folder: Path) -> Ask:
    catalog = import_module("skillroute.catalog").Catalog(folder / "catalog.db")
    _write_packages(skills, folder / "skills")
    with redirect_stderr(StringIO()):  # what it does not like about them
        records = catalog.index_root(folder / "skills")
    numbers = {record.id: int(Path(record.bundle_path).parent.name) for record in records}
    router = import_module("skillroute.routing").Router(catalog)

    def ask(task: str) -> Answer:
        found = router.route(task, record_trace=False).candidates
        ranked = [numbers[each.skill_id] for each in found]
        return Answer(ranked, ranked, "ambiguous" if ranked else "no_match")

    return ask


_WEIGHTS: Mapping[str, float] = {"name": 2, "keywords": 1, "description": 1, "body": 1}
"""Fields of tantivy, with the weights that were best on other sets."""

PEERS = (
    Peer("tantivy", "tantivy", _open_tantivy),
    Peer("bm25s", "bm25s", _open_bm25s),
    Peer("Skill Proof", "skill_proof", _open_skill_proof),
    Peer("agentskills-retrieval", "agentskills_retrieval", _open_agentskills),
    Peer("SkillRoute", "skillroute", _open_skillroute),
)


def find_installed() -> tuple[list[Peer], list[str]]:
    """Return the peers that are installed, and the names of the others."""
    installed = [peer for peer in PEERS if find_spec(peer.module)]
    return installed, [peer.name for peer in PEERS if peer not in installed]
