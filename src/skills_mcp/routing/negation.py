"""Negations of a task: "do not use X", "X instead of Y", "leave X alone", in seven languages.

Cues are phrases of words, and the words of their scope are found by its ends. A strong cue
takes its scope out of the task; a weak one ("without", "not") only if the scope names a skill
or a technology, because most are about symptoms and qualities. Each step looks at a bounded
number of words, so that the time is linear in the text.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import chain, islice
from typing import NamedTuple

from skills_mcp.text.unicode import lower_in_place

_MAX_CHARACTERS = 2_000  # what is longer was pasted
_MAX_CUES = 20  # a pasted page of rules has more, and is no list of what is not asked
_MAX_SCOPE = 80
_MAX_CLAUSE = 60  # up to the word that ends a cue around its scope, or back to a symptom

_IDEOGRAPHS = "\u3040-\u30ff\u3400-\u9fff"  # of Japanese and Chinese, which have no blanks
_LETTERS = rf"[^\W{_IDEOGRAPHS}]+"
_TOKEN = re.compile(rf"\.?{_LETTERS}(?:[.:!?]{_LETTERS})*|\n|[^\s]")
"""A word with what is inside of it (`next.js`), an ideograph, or a mark."""

_LINE = re.compile(r"\n?[^\n]+")
"""A line, which no scope leaves, with the break before it."""

_KEY_LETTERS = 2  # of the first word of a phrase; no stem is shorter

_SENTENCE_MARKS = frozenset("\n.;!?。！？")
_MARKS = _SENTENCE_MARKS | frozenset(",:()、，；：")
_CLAUSE_MARKS = _SENTENCE_MARKS | {","}
_START = ""  # the word before the first one


class _Token(NamedTuple):
    word: str
    start: int
    end: int


class _Words(NamedTuple):
    """Words that fit one place: whole ones, stems (`benutz*`) and endings (`*er`)."""

    whole: frozenset[str] = frozenset()
    stems: tuple[str, ...] = ()
    endings: tuple[str, ...] = ()

    def fit(self, word: str) -> bool:
        return word in self.whole or word.startswith(self.stems) or word.endswith(self.endings)


def _parse_words(text: str) -> _Words:
    words = text.split("/")
    stems = tuple(word[:-1] for word in words if word.endswith("*"))
    endings = tuple(word[1:] for word in words if len(word) > 1 and word.startswith("*"))
    return _Words(frozenset(word for word in words if "*" not in word), stems, endings)


_Phrase = tuple[_Words, ...]


class _Cue(NamedTuple):
    """Phrases that negate a scope, which follows them unless `is_before`.

    A phrase has words with blanks between; `/` parts words that fit the same place.
    """

    phrases: Sequence[str]
    after: frozenset[str] = frozenset()
    """Words before, one of which is required."""
    not_after: frozenset[str] = frozenset()
    unless: str = ""
    """Words that follow, if the cue is none."""
    within: int = 1
    """How many words `unless` is about, up to the end of the clause."""
    only: str = ""
    """Words that follow, one of which is required."""
    until: Sequence[str] = ()
    """Phrases that end the scope, one of which is required."""
    max_words: int = 0
    """Of the whole clause after the cue; 0 for any."""
    is_before: bool = False
    is_strong: bool = True
    is_replaced: bool = False
    """Whether a preposition ends the scope: "instead of X for Y"."""


_BREAK = frozenset((_START, *"\n.,;:!?()–—", *"、。，；：！？"))
_SHORT_BREAK = frozenset((_START, *".,;"))
_NOT = ("do not", "don't", "dont")

# What is no request to leave something: "don't forget", "and do not work".
_NO_REQUEST = (
    "only/just/merely/simply/yet/sure/forget/hesitate/worry/mind/know/understand/see/think/"
    "remember/have/get/work/run/start/load/appear/show/match/compile/build/render/exist/fit/"
    "respond/return/receive/find/care/fail/trigger/fire/pass/let/look/seem"
)
_NO_CONTRAST = "only/just/merely/simply/yet/sure/all/every/necessarily/be/been/being/more/less"
_NO_QUALITY = (
    "error/errors/downtime/breaking/breakage/losing/loss/problem/problems/issue/issues/success/"
    "warning/warnings/failing/crash*/fehler/probleme/ausfall/erreur/erreurs/problème/problèmes/"
    "errores/problema/problemas/erros/falhas"
)

# "It is not", "it's not", "why not" tell what is, and not what to leave.
_AUXILIARY = _parse_words(
    "is/are/was/were/be/been/am/do/does/did/can/could/will/would/shall/should/may/"
    "might/must/has/have/had/s/re/m/t/it/why/or/if/whether"
).whole

_OF_SPANISH_REQUESTS = "/".join(
    stem + ending
    for stem in _parse_words(
        "us/utilic/toqu/cambi/modifiqu/edit/hag/publiqu/enví/escrib/cre/borr/incluy/quier/necesit"
    ).whole
    for ending in ("es", "en", "e", "as", "an", "a", "o")
)
_OF_PORTUGUESE_REQUESTS = "/".join(
    word + plural
    for word in _parse_words(
        "use/usa/utilize/mexa/mexe/toque/altere/mude/modifique/edite/faça/publique/"
        "envie/escreva/crie/inclua/quero/queremos/preciso"
    ).whole
    for plural in ("", "m")
)

_STRONG = (
    # English
    _Cue(
        (*_NOT, "never"),
        after=_BREAK | {"and", "but", "so", "please", "just", "also"},
        unless=_NO_REQUEST,
    ),
    _Cue(("never mind", "forget about")),
    _Cue([f"i/we {negated} want/use/need to use/touch/change" for negated in _NOT]),
    _Cue([f"i/we {negated} want/use/need" for negated in _NOT], unless="to", within=8),
    _Cue(("not",), after=frozenset((",", "but", "and")), unless=_NO_CONTRAST),
    _Cue(
        ("skip/omit/exclude", "leave out"),
        after=frozenset((".", ",", ";", "and", "but", "please")),
    ),
    _Cue(("leave",), until=("alone/out/untouched/unchanged", "as it/they is/are")),
    # German
    _Cue(
        ("nicht", "bitte nicht"),
        after=frozenset((",", "aber", "und")),
        unless="nur/mehr/sicher/immer",
    ),
    _Cue(
        [
            "benutz*/verwend*/nutz*/nimm*/mach*/schreib*/erstell*/änder*/veröffentlich* "
            f"{please}nicht/kein*/nie/niemals"
            for please in ("", "bitte ")
        ]
    ),
    _Cue(
        [
            please + phrase
            for please in ("", "bitte ")
            for phrase in (
                "nicht anfassen/anrühren/berühren/verändern/ändern/erstellen",
                "nicht benutzen/verwenden/nutzen",
                "in ruhe lassen",
                "weglassen/auslassen",
            )
        ],
        is_before=True,
    ),
    _Cue(("lass*",), until=("in ruhe", "weg/unverändert/aus")),
    _Cue(("fass*/rühr*",), until=("nicht an",)),
    _Cue(("benutz*/verwend*/nutz*/nimm*/änder*",), until=("nicht",)),
    # French
    _Cue(("pas",), after=frozenset((",", "mais", "et")), unless="seulement/encore/sûr/que"),
    _Cue(
        ("ne * pas/jamais/plus", "n'* pas/jamais/plus"),
        after=_SHORT_BREAK | {"mais", "et", "surtout"},
    ),
    _Cue(("ne pas/jamais",), only="*er"),
    _Cue(
        ("laisse/laissez/laisser",),
        until=("tranquille/tranquilles", "de côté", "tel/tels quel/quels"),
    ),
    # Spanish
    _Cue(
        ("no",),
        after=frozenset((",", "pero", "y")),
        only="en/con/a/de/el/la/los/las/un/una",
    ),
    _Cue((f"no {_OF_SPANISH_REQUESTS}",), after=_SHORT_BREAK | {"pero", "y", "favor"}),
    _Cue(("deja/dejar/deje/dejen",), until=("en paz", "como está", "fuera")),
    # Portuguese
    _Cue(("não",), after=frozenset((",", "mas", "e")), only="em/com/no/na/o/a/os/as/de/para"),
    _Cue((f"não {_OF_PORTUGUESE_REQUESTS}",)),
    _Cue(("deixe/deixa/deixar/deixem",), until=("em paz", "como está", "de fora/lado")),
    # Japanese
    _Cue(
        (
            *("で は な く/い", "じ ゃ な く/い", "の 代 わ り に", "を 避 け て", "は 不 要"),
            *(
                "を/は 使 わ ず/な",
                "を/は 使 用 せ ず",
                "を/は 変 更 し な い",
                "を/は 変 更 せ ず",
            ),
            *(
                "を/は 変 え な い",
                "を/は 変 え ず",
                "に/は/を 触 ら/れ な い",
                "に/は/を 触 ら/れ ず",
            ),
            *("に は 触 ら/れ な い", "に は 触 ら/れ ず"),
        ),
        is_before=True,
    ),
    # Chinese
    _Cue(
        [
            negated + again + used
            for negated in ("不 要", "请 勿", "切 勿")
            for again in ("", " 再")
            for used in (" 使 用", " 用/动/碰/改/管", "")
        ]
    ),
    _Cue(
        [
            f"别{again}{used}"
            for again in ("", " 再")
            for used in (" 使 用", " 用/动/碰/改/管/写/发", "")
        ],
        not_after=frozenset("特区分类级识个性差"),
    ),
)
_REPLACED = (
    _Cue(("instead of", "rather/other than", "apart from", "as opposed to")),
    _Cue(
        ("except", "except for"),
        not_after=frozenset(("try", "/")),
        unless="block/clause/exception/that/when/if",
    ),
    _Cue(("statt/anstatt/anstelle/außer/ausser/ausgenommen", "anstelle von")),
    _Cue(
        (
            *("au lieu de/du/des", "au lieu d'", "plutôt que", "plutôt qu'"),
            "sauf/excepté/hormis",
        )
    ),
    _Cue(("en vez/lugar de/del", "excepto/salvo", "todo/todos menos")),
    _Cue(
        (
            "em vez de/des/do/dos/da/das",
            "ao invés de/des/do/dos/da/das",
            "no lugar de/des/do/dos/da/das",
            *("exceto", "tudo menos"),
        )
    ),
    _Cue(("而 不 是", "而 非")),
    _Cue(("除 了",), unless="还/也", within=40),
)
_WEAK = (
    _Cue(("without/ohne/sans/sin/sem",), unless=_NO_QUALITY, within=2),
    _Cue(("avoid/ignore",), after=_SHORT_BREAK | {"and", "but", "please"}),
    _Cue(("no", "and/but no"), after=_SHORT_BREAK, unless="yet", within=3, max_words=3),
    _Cue(("not",), not_after=_BREAK | _AUXILIARY, unless=_NO_CONTRAST),
    _Cue(("nicht mit", "pas avec", "no con", "não com")),
    _Cue(("な し で", "以 外"), is_before=True),
    _Cue(("不 使 用", "不 用/碰/动"), not_after=frozenset("么能何")),
)

_END_WORDS = _parse_words("but/just/only/instead/then/sondern/aber/mais/pero/sino/mas").whole
_AND = frozenset(("and", "und", "et", "y", "e"))
_ACTIONS = _Words(
    _parse_words(
        "use/write/create/make/add/update/run/instead/then/nimm/écris/utilise/crée/"
        "escribe/usa/crea/escreva/crie"
    ).whole,
    ("schreib", "mach"),
)
_PART_WORDS = _parse_words("and/but/und/aber/et/mais/y/pero/mas").whole
_PREPOSITIONS = _parse_words(
    "for/to/in/on/when/because/with/für/zu/im/weil/wenn/mit/pour/dans/quand/avec/"
    "para/cuando/porque/con/quando/com"
).whole
# "It shows X instead of Y", "it works here but not there" report what happens.
_SYMPTOMS = _parse_words(
    "why/show/shows/showing/return/returns/returned/get/gets/got/see/sees/open/"
    "opens/give/gives/render/renders/display/displays/redirect/redirects/work/works/"
    "runs/builds/passes/loads/starts/throws/logs/warum/pourquoi/qué"
).whole


class Negation(NamedTuple):
    """The scope of a negation, as a span of the task."""

    start: int
    end: int
    is_strong: bool
    whole: tuple[int, int]
    """The span with its cue."""


def find_negations(text: str) -> tuple[Negation, ...]:
    """Find the negated scopes of a task, in its order and without overlaps.

    >>> text = "write release notes but do not touch the announcement"
    >>> [text[each.start : each.end] for each in find_negations(text)]
    ['touch the announcement']
    """
    if len(text) > _MAX_CHARACTERS:
        return ()
    folded = lower_in_place(text).replace("’", "'")
    # In most lines no word begins a cue, and words alone are read in a third of the time.
    lines = (line for line in _LINE.finditer(folded) if _has_cue(_TOKEN.findall(line[0])))
    tokens = (_TOKEN.finditer(folded, *line.span()) for line in lines)
    found = islice(chain.from_iterable(map(_find_scopes, tokens)), _MAX_CUES)
    kept: list[Negation] = []
    for each in sorted(found, key=lambda each: (each.start, not each.is_strong)):
        if not kept or kept[-1].end <= each.start:
            kept.append(each)
    return tuple(kept)


def leave_out(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """Leave spans out of a text; a full stop keeps their neighbours apart."""
    ends = (0, *(end for _, end in spans))
    starts = (*(start for start, _ in spans), len(text))
    return " . ".join(text[end:start] for end, start in zip(ends, starts, strict=True))


def _parse_phrase(text: str) -> _Phrase:
    return tuple(map(_parse_words, text.replace("'", " ' ").split()))


class _Rule(NamedTuple):
    """A phrase of a cue, parsed."""

    phrase: _Phrase
    cue: _Cue
    unless: _Words
    only: _Words
    until: Sequence[_Phrase]


@cache
def _index_rules() -> Mapping[str, Sequence[_Rule]]:
    """Rules by the first letters of their phrase, the strong and long ones first."""
    replaced = (cue._replace(is_replaced=True) for cue in _REPLACED)
    weak = (cue._replace(is_strong=False, is_replaced=True) for cue in _WEAK)
    rules = [
        _Rule(
            _parse_phrase(phrase),
            cue,
            _parse_words(cue.unless),
            _parse_words(cue.only),
            tuple(map(_parse_phrase, cue.until)),
        )
        for cue in (*_STRONG, *replaced, *weak)
        for phrase in cue.phrases
    ]
    index: dict[str, list[_Rule]] = defaultdict(list)
    for rule in sorted(rules, key=lambda each: (not each.cue.is_strong, -len(each.phrase))):
        first = rule.phrase[0]
        for key in {word[:_KEY_LETTERS] for word in (*first.whole, *first.stems)}:
            index[key].append(rule)
    return index


@lru_cache(maxsize=4096)  # texts share their words, and nearly all begin no cue
def _find_rules(word: str) -> Sequence[_Rule]:
    found = _index_rules().get(word[:_KEY_LETTERS], ())
    return tuple(rule for rule in found if rule.phrase[0].fit(word))


@cache
def _index_first_words() -> _Words:
    """The words of all rules that begin a phrase."""
    first = [rule.phrase[0] for rules in _index_rules().values() for rule in rules]
    whole = frozenset(chain.from_iterable(words.whole for words in first))
    return _Words(whole, tuple(set(chain.from_iterable(words.stems for words in first))))


def _has_cue(words: Sequence[str]) -> bool:
    whole, stems, _ = _index_first_words()
    return not whole.isdisjoint(words) or any(word.startswith(stems) for word in words)


def _find_scopes(found: Iterable[re.Match[str]]) -> Iterator[Negation]:
    tokens = [_Token(each[0], *each.span()) for each in found]
    for index, token in enumerate(tokens):
        for rule in _find_rules(token.word):
            if scope := _read_scope(tokens, index, rule):
                start, end = scope[0].start, scope[-1].end
                cue_end = tokens[index + len(rule.phrase) - 1].end
                whole = min(start, token.start), max(end, cue_end)
                yield Negation(start, end, rule.cue.is_strong, whole)
                break


def _read_scope(tokens: Sequence[_Token], index: int, rule: _Rule) -> Sequence[_Token]:
    """The scope of a rule whose phrase begins there; empty if it does not."""
    if not _fits(tokens, index, rule.phrase) or not _is_allowed(tokens, index, rule):
        return ()
    end = index + len(rule.phrase)
    if rule.cue.is_before:
        first = _find_part(tokens, index)
        return () if _is_symptom(tokens, first) else tokens[first:index]
    last = _find_closing(tokens, end, rule.until) if rule.until else _find_end(tokens, end, rule)
    return () if _is_symptom(tokens, index) else tokens[end:last]


def _fits(tokens: Sequence[_Token], index: int, phrase: _Phrase) -> bool:
    if index + len(phrase) > len(tokens):
        return False
    return all(words.fit(tokens[place].word) for place, words in enumerate(phrase, index))


def _is_allowed(tokens: Sequence[_Token], index: int, rule: _Rule) -> bool:
    cue = rule.cue
    before = tokens[index - 1].word if index else _START
    if (cue.after and before not in cue.after) or before in cue.not_after:
        return False
    end = index + len(rule.phrase)
    clause = []
    for token in tokens[end : end + max(cue.within, cue.max_words + 1)]:
        if token.word in _CLAUSE_MARKS:
            break
        clause.append(token.word)
    if (cue.only and not any(map(rule.only.fit, clause[:1]))) or (
        cue.max_words and not 0 < len(clause) <= cue.max_words
    ):
        return False
    return not (cue.unless and any(map(rule.unless.fit, clause[: cue.within])))


def _find_end(tokens: Sequence[_Token], first: int, rule: _Rule) -> int:
    for index in range(first, len(tokens)):
        word, start, _ = tokens[index]
        following = tokens[index + 1].word if index + 1 < len(tokens) else ""
        if (
            word in _MARKS
            or word in _END_WORDS
            or start - tokens[first].start >= _MAX_SCOPE
            or (word in _AND and _ACTIONS.fit(following))
            or (rule.cue.is_replaced and index > first and _is_preposition(tokens, index))
        ):
            return index
    return len(tokens)


def _is_preposition(tokens: Sequence[_Token], index: int) -> bool:
    """Whether a word is one, and no part of a compound such as "opt-in"."""
    return tokens[index].word in _PREPOSITIONS and tokens[index - 1].end < tokens[index].start


def _find_closing(tokens: Sequence[_Token], first: int, phrases: Sequence[_Phrase]) -> int:
    """Find the phrase that ends a scope; `first` if the clause has none."""
    for index in range(first, len(tokens)):
        word, start, _ = tokens[index]
        if word in _MARKS or start - tokens[first].start > _MAX_CLAUSE:
            break
        if any(_fits(tokens, index, phrase) for phrase in phrases):
            return index
    return first


def _find_part(tokens: Sequence[_Token], end: int) -> int:
    """Find the start of the part of a clause that ends there."""
    first = end
    while first and tokens[end].start - tokens[first - 1].start <= _MAX_CLAUSE:
        word = tokens[first - 1].word
        if word in _MARKS or word in _PART_WORDS:
            break
        first -= 1
    return first


def _is_symptom(tokens: Sequence[_Token], end: int) -> bool:
    """Whether the sentence reports what happens before that word."""
    for index in range(end - 1, -1, -1):
        word, start, _ = tokens[index]
        if word in _SENTENCE_MARKS or tokens[end].start - start > _MAX_CLAUSE:
            break
        if word in _SYMPTOMS:
            return True
    return False
