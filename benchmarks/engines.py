"""The search libraries that ranking is compared with, each if it is installed.

All of them get the same texts (name, keywords, description and body) and return the
best three of the same tasks; none of them knows about inheritance or explanations.
"""

import sqlite3
import statistics
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import NamedTuple

from benchmarks.content import Library, Text
from benchmarks.figures import SKILLS, Measured, Results
from benchmarks.timing import in_new_process, timed
from skills_mcp.config import Matching
from skills_mcp.routing.decision import score_and_decide
from skills_mcp.routing.inverted_index import TextIndex
from skills_mcp.routing.ranked_matcher import RankedMatcher, to_indexed_document
from skills_mcp.routing.tokenizer import tokenize
from skills_mcp.skills.model import Skill

_HITS = 3

_SLOW = 20
"""One task in so many goes to an engine that scans every skill."""

Search = Callable[[str], object]


class Engine(NamedTuple):
    """A search library."""

    name: str
    module: str
    indexes: str
    """The texts that it indexes, in a few words."""
    build: Callable[[Sequence[Skill]], Search]
    tasks_per_search: int = 1


def measure_engines(text: Text, *, rounds: int, tasks: int) -> tuple[Results, set[str]]:
    """Return the figures, and the names of the engines that are not installed."""
    absent = {each.name for each in COMPARED if find_spec(each.module) is None}
    return in_new_process(_measure, text, rounds, tasks, absent), absent


def _measure(text: Text, rounds: int, tasks: int, absent: set[str]) -> Results:
    skills = Library(text, SKILLS)
    results: Results = {}
    searches: dict[Engine, Search] = {}
    for engine in (_OURS, *COMPARED):
        if engine.name not in absent:
            seconds, searches[engine] = timed(partial(engine.build, skills))
            results[f"engine_{engine.name}_build"] = Measured.of([seconds])
    medians: dict[str, list[float]] = {}
    for _ in range(rounds):
        for engine, search in searches.items():
            prompts = text.prompts[: tasks : engine.tasks_per_search]
            search("what a first task has to load")
            times = [timed(partial(search, prompt))[0] for prompt in prompts]
            found = statistics.median(times) * 1000
            medians.setdefault(engine.name, []).append(found)
    for name, values in medians.items():
        results[f"engine_{name}_p50"] = Measured.of(values)
        if name != _OURS.name:
            pairs = zip(values, medians[_OURS.name], strict=True)
            results[f"engine_{name}"] = Measured.of(x / y for x, y in pairs)
    return results


def _build_ours(skills: Sequence[Skill]) -> Search:
    index = TextIndex.build(map(to_indexed_document, skills))
    matcher, matching = RankedMatcher(index, skills), Matching()
    return lambda prompt: score_and_decide(matcher, prompt, matching)


def _build_bm25s(skills: Sequence[Skill]) -> Search:
    bm25s, stemmer = import_module("bm25s"), import_module("Stemmer").Stemmer("english")
    cut = partial(bm25s.tokenize, stemmer=stemmer, show_progress=False)
    retriever = bm25s.BM25()
    retriever.index(cut(list(map(join_texts, skills))), show_progress=False)
    return lambda prompt: retriever.retrieve(cut([prompt]), k=_HITS, show_progress=False)


def _build_tantivy(skills: Sequence[Skill]) -> Search:
    tantivy = import_module("tantivy")
    schema = tantivy.SchemaBuilder()
    for field in _FIELDS:
        schema.add_text_field(field, tokenizer_name="en_stem")
    index = tantivy.Index(schema.build())
    writer = index.writer(num_threads=1)
    for skill in skills:
        row = dict(zip(_FIELDS, _split(skill), strict=True))
        writer.add_document(tantivy.Document(**row))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    searcher = index.searcher()

    def search(prompt: str) -> object:
        words = " ".join(tokenize(prompt)).replace("+", " ")
        query, _ = index.parse_query_lenient(words, list(_FIELDS))
        return searcher.search(query, _HITS)

    return search


def _build_fts5(skills: Sequence[Skill]) -> Search:
    rows = sqlite3.connect(":memory:")
    columns = ", ".join(_FIELDS)
    rows.execute(f"CREATE VIRTUAL TABLE t USING fts5({columns}, tokenize='porter unicode61')")
    rows.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", map(_split, skills))
    order = f"SELECT rowid FROM t WHERE t MATCH ? ORDER BY rank LIMIT {_HITS}"  # noqa: S608
    rows.execute("INSERT INTO t(t, rank) VALUES('rank', 'bm25(5.0, 2.0, 1.0, 0.1)')")

    def search(prompt: str) -> object:
        words = (f'"{word}"' for word in tokenize(prompt))
        return rows.execute(order, [" OR ".join(words)]).fetchall()

    return search


def _build_rank_bm25(skills: Sequence[Skill]) -> Search:
    numpy = import_module("numpy")
    texts = [list(_words(join_texts(skill))) for skill in skills]
    ranking = import_module("rank_bm25").BM25Okapi(texts)

    def search(prompt: str) -> object:
        scores = ranking.get_scores(list(_words(prompt)))
        return numpy.argpartition(scores, -_HITS)[-_HITS:]

    return search


def _words(text: str) -> Iterator[str]:
    return (word.strip(".,:;()`*\"'") for word in text.lower().split())


def _split(skill: Skill) -> Sequence[str]:
    return skill.name, " ".join(skill.keywords), skill.description, skill.body


def join_texts(skill: Skill) -> str:
    return "\n".join(_split(skill))


_FIELDS = ("name", "keywords", "description", "body")

_OURS = Engine("ours", "skills_mcp", "five fields, with rerank", _build_ours)

COMPARED = (
    Engine("bm25s", "bm25s", "all text as one field, Snowball stemmer", _build_bm25s),
    Engine("tantivy", "tantivy", "four fields, stemmed, in memory", _build_tantivy),
    Engine("SQLite FTS5", "sqlite3", "four weighted fields, Porter", _build_fts5),
    Engine("rank-bm25", "rank_bm25", "all text as one, no stemmer", _build_rank_bm25, _SLOW),
)
"""FTS5 is in the standard library."""
