"""Negations of a task: "do not use X", "X instead of Y", "leave X alone", in seven languages.

Cues are patterns, and the words of their scope are found by its ends. A strong cue takes
its scope out of the task; a weak one ("without", "not") only if the scope names a skill or
a technology, because most are about symptoms and qualities. Of bounded length alone:
not every pattern is linear in a run of blanks.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain, islice
from typing import NamedTuple

_MAX_CHARACTERS = 2_000  # what is longer was pasted
_BLANK = re.compile(r"\s{9}")  # of a table or a drawing; each pattern would try all of it
_MAX_CUES = 20  # a pasted page of rules has more, and is no list of what is not asked

_SCOPE = r"(?P<scope>(?:[^.,;:!?()\n、。，；：！？]|\.(?=\w)){1,60}?)"
_START = r"(?:^|[.,;:!?()\n–—]\s*|\b(?:and|but|so|please|just|also)\s+)"

# What is no request to leave something: "don't forget", "and do not work".
_NO_REQUEST = (
    r"(?!\s+(?:only|just|merely|simply|yet|sure|forget|hesitate|worry|mind|know|understand|see|"
    r"think|remember|have|get|work|run|start|load|appear|show|match|compile|build|render|exist|"
    r"fit|respond|return|receive|find|care|fail|trigger|fire|pass|let|look|seem)\b)"
)
_NO_CONTRAST = (
    r"(?!(?:only|just|merely|simply|yet|sure|all|every|necessarily|be|been|being|more|less)\b)"
)
_NO_QUALITY = (
    r"(?!(?:\w+\s+)?(?:errors?|downtime|breaking|breakage|losing|loss|problems?|issues?|success|"
    r"warnings?|failing|crash\w*|Fehler|Probleme?|Ausfall|erreurs?|problèmes?|errores|problemas?|"
    r"erros|falhas)\b)"
)

# "It is not", "it's not", "why not" tell what is, and not what to leave.
_AUXILIARY = (
    r"is|are|was|were|be|been|am|do|does|did|can|could|will|would|shall|should|may|might|must|has|"
    r"have|had|s|re|m|t|it|why|or|if|whether"
)

_STRONG = (
    # English
    rf"{_START}(?:do\s+not|don['’]?t|never){_NO_REQUEST}\s+",
    r"\b(?:never\s+mind|forget\s+about)\s+",
    (
        r"\b(?:i|we)\s+(?:do\s+not|don['’]?t)\s+(?:want|use|need)\s+"
        r"(?:to\s+(?:use|touch|change)\s+|(?!to\b|[^.,;!?\n]{1,40}\sto\s))"
    ),
    rf"(?:,|\bbut|\band)\s+not\s+{_NO_CONTRAST}",
    r"(?:[.,;]\s*|\b(?:and|but|please)\s+)(?:skip|omit|exclude|leave\s+out)\s+",
    rf"\bleave\s+{_SCOPE}\s+(?:alone|out|untouched|unchanged|as\s+(?:it|they)\s+(?:is|are))\b",
    # German
    r"(?:,|\b(?:aber|und))\s+(?:bitte\s+)?nicht\s+(?!nur\b|mehr\b|sicher\b|immer\b)",
    (
        r"\b(?:benutz|verwend|nutz|nimm|mach|schreib|erstell|änder|veröffentlich)\w*\s+(?:bitte\s+)?"
        r"(?:nicht|kein\w*|nie|niemals)\s+"
    ),
    (
        rf"{_SCOPE}\s+(?:bitte\s+)?(?:nicht\s+(?:anfassen|anrühren|berühren|(?:ver)?ändern|benutzen|"
        r"verwenden|nutzen|erstellen)|in\s+Ruhe\s+lassen|weglassen|auslassen)\b"
    ),
    rf"\blass\w*\s+{_SCOPE}\s+(?:in\s+Ruhe|weg|unverändert|aus)\b",
    rf"\b(?:fass|rühr)\w*\s+{_SCOPE}\s+nicht\s+an\b",
    rf"\b(?:benutz|verwend|nutz|nimm|änder)\w*\s+{_SCOPE}\s+nicht\b",
    # French
    r"(?:,|\b(?:mais|et))\s+pas\s+(?!seulement\b|encore\b|sûr\b|que\b)",
    r"(?:^|[.,;]\s*|\b(?:mais|et|surtout)\s+)n(?:e\s+|['’])\w+\s+(?:pas|jamais|plus)\s+",
    r"\bne\s+(?:pas|jamais)\s+(?=\w+er\b)",
    rf"\blaisse[rz]?\s+{_SCOPE}\s+(?:tranquilles?|de\s+côté|tels?\s+quels?)",
    # Spanish
    r"(?:,|\b(?:pero|y))\s+no\s+(?=(?:en|con|a|de|el|la|los|las|un|una)\s)",
    (
        r"(?:^|[.,;]\s*|\b(?:pero|y|favor)\s+)no\s+(?:us|utilic|toqu|cambi|modifiqu|edit|hag|publiqu|"
        r"enví|escrib|cre|borr|incluy|quier|necesit)(?:es|en|e|as|an|a|o)\s+"
    ),
    rf"\bdej(?:a|ar|e|en)\s+{_SCOPE}\s+(?:en\s+paz|como\s+está|fuera)",
    # Portuguese
    r"(?:,|\b(?:mas|e))\s+não\s+(?=(?:em|com|no|na|o|a|os|as|de|para)\s)",
    (
        r"\bnão\s+(?:use|usa|utilize|mexa|mexe|toque|altere|mude|modifique|edite|faça|publique|envie|"
        r"escreva|crie|inclua|quero|queremos|preciso)m?\s+"
    ),
    rf"\bdeix(?:e|a|ar|em)\s+{_SCOPE}\s+(?:em\s+paz|como\s+está|de\s+(?:fora|lado))",
    # Japanese
    (
        rf"{_SCOPE}(?:ではな[くい]|じゃな[くい]|の代わりに|[をは]使わ[ずな]|[をは]使用せず|[にはを]+触[られ](?:ない|ず)|"
        r"[をは](?:変更し|変え)(?:ない|ず)|は不要|を避けて)"
    ),
    # Chinese
    r"(?:不要|请勿|切勿)(?:再)?(?:使用|用|动|碰|改|管)?",
    r"(?<![特区分类级识个性差])别(?:再)?(?:使用|用|动|碰|改|管|写|发)",
)
_REPLACED = (
    r"\b(?:instead\s+of|rather\s+than|other\s+than|apart\s+from|as\s+opposed\s+to)\s+",
    r"(?<!try)(?<!try[\s/])\bexcept\s+(?:for\s+)?(?!(?:block|clause|exception|that|when|if)\b)",
    r"(?<!\w)(?:statt|anstatt|anstelle(?:\s+von)?|außer|ausser|ausgenommen)\s+",
    r"(?<!\w)(?:au\s+lieu\s+d(?:[eu]s?\s+|['’])|plutôt\s+qu(?:e\s+|['’])|sauf\s+|excepté\s+|hormis\s+)",
    r"\b(?:en\s+(?:vez|lugar)\s+del?|excepto|salvo|todos?\s+menos)\s+",
    r"\b(?:em\s+vez\s+d[eoa]s?|ao\s+invés\s+d[eoa]s?|no\s+lugar\s+d[eoa]s?|exceto|tudo\s+menos)\s+",
    r"(?:而不是|而非|除了(?![^。！？\n]{0,40}[还也]))",
)
_WEAK = (
    rf"\b(?:without|ohne|sans|sin|sem)\s+{_NO_QUALITY}",
    r"(?:^|[.,;]\s*|\b(?:and|but|please)\s+)(?:avoid|ignore)\s+",
    (
        r"(?:^|[.,;]\s*)(?:(?:and|but)\s+)?no\s+(?=(?:[^\s.,;!]+\s+){0,2}[^\s.,;!]+(?:[.,;!]|$))"
        r"(?![^.,;!]{0,60}\byet\b)"
    ),
    rf"(?<!\w)(?!(?:{_AUXILIARY})\s)\w+\s+not\s+{_NO_CONTRAST}",
    r"\b(?:nicht\s+mit|pas\s+avec|no\s+con|não\s+com)\s+",
    rf"{_SCOPE}(?:なしで|以外)",
    r"(?<!什么)(?<!能)(?<!为何)不(?:使用|用|碰|动)",
)

_END = re.compile(
    r"[.,;:!?()\n、。，；：！？](?!\w)|[,;()、。，；：！？\n]|\b(?:but|just|only|instead|then|sondern|aber|mais|pero|"
    r"sino|mas)\b|\b(?:and|und|et|y|e)\s+(?=(?:use|write|create|make|add|update|run|instead|then|"
    r"nimm|schreib\w*|mach\w*|écris|utilise|crée|escribe|usa|crea|escreva|crie)\b)",
    re.IGNORECASE,
)
_REPLACED_END = re.compile(
    r"\s(?:for|to|in|on|when|because|with|für|zu|im|weil|wenn|mit|pour|dans|quand|avec|para|cuando|"
    r"porque|con|quando|com)\s",
    re.IGNORECASE,
)
_LAST_PART = re.compile(
    r".*\b(?:and|but|und|aber|et|mais|y|pero|mas)\s+", re.IGNORECASE | re.DOTALL
)
_MAX_SCOPE = 80
_MAX_CLAUSE = 60
# "It shows X instead of Y", "it works here but not there" report what happens.
_SYMPTOM = re.compile(
    r"\b(?:why|shows?|showing|returns?|returned|gets?|got|sees?|opens?|gives?|renders?|displays?|"
    r"redirects?|works?|runs|builds|passes|loads|starts|throws|logs|warum|pourquoi|por\s+qué)\b"
    r"(?:[^.;!?\n]|\.(?=\w))*$",
    re.IGNORECASE,
)
_CUE = re.compile(
    r"\bnot?\b|n['’]t\b|\bdont\b|\bnever\b|without|avoid|ignore|skip|omit|exclude|forget|\bthan\b|"
    r"instead|apart|opposed|except|\bleave|nicht|\bkein|\bnie|statt|anstelle|außer|ausser|ausgen|"
    r"lassen|\blass|ohne|\bpas\b|jamais|\bplus\b|au\s+lieu|plutôt|sauf|hormis|sans\b|\blaisse|\bsin\b|"
    r"\ben\s+(?:vez|lugar)|salvo|menos|\bdej|não|\bsem\b|\bem\s+vez|invés|no\s+lugar|exceto|\bdeix|"
    r"[不别勿非除]|な[いくし]|[ずな]|以外|代わり|避け",
    re.IGNORECASE,
)


class Negation(NamedTuple):
    """The scope of a negation, as a span of the task."""

    start: int
    end: int
    is_strong: bool


@cache  # late: they take as long as a tenth of a start
def _compile_cues() -> tuple[tuple[re.Pattern[str], bool, bool], ...]:
    """Compile each cue, with whether it is strong and whether a replacement may follow."""
    kinds = ((_STRONG, True, False), (_REPLACED, True, True), (_WEAK, False, True))
    return tuple(
        (re.compile(pattern, re.IGNORECASE), is_strong, is_replaced)
        for patterns, is_strong, is_replaced in kinds
        for pattern in patterns
    )


def find_negations(text: str) -> tuple[Negation, ...]:
    """Find the negated scopes of a task, in its order and without overlaps.

    >>> text = "write release notes but do not touch the announcement"
    >>> [text[each.start : each.end] for each in find_negations(text)]
    ['touch the announcement']
    """
    if len(text) > _MAX_CHARACTERS or not _CUE.search(text) or _BLANK.search(text):
        return ()
    found = chain.from_iterable(
        _find_scopes(text, pattern, is_strong=is_strong, is_replaced=is_replaced)
        for pattern, is_strong, is_replaced in _compile_cues()
    )
    kept: list[Negation] = []
    for each in sorted(found, key=lambda each: (each.start, not each.is_strong)):
        if each.start < each.end and (not kept or kept[-1].end <= each.start):
            kept.append(each)
    return tuple(kept)


def leave_out(text: str, negations: Sequence[Negation]) -> str:
    """Leave the scopes out of a text; a full stop keeps its neighbours apart."""
    ends = (0, *(each.end for each in negations))
    starts = (*(each.start for each in negations), len(text))
    return " . ".join(text[end:start] for end, start in zip(ends, starts, strict=True))


def _find_scopes(
    text: str, pattern: re.Pattern[str], *, is_strong: bool, is_replaced: bool
) -> Iterator[Negation]:
    for cue in islice(pattern.finditer(text), _MAX_CUES):
        if _SYMPTOM.search(text, max(cue.start() - _MAX_CLAUSE, 0), cue.start()):
            continue
        if "scope" in pattern.groupindex:
            start, end = cue.span("scope")
            before = _LAST_PART.match(text, start, end)
            yield Negation(before.end() if before else start, end, is_strong)
            continue
        end = _find_end(text, cue.end(), is_replaced=is_replaced)
        yield Negation(cue.end(), end, is_strong)


def _find_end(text: str, start: int, *, is_replaced: bool) -> int:
    last = min(start + _MAX_SCOPE, len(text))
    ends = [_END.search(text, start, last)]
    if is_replaced:
        ends.append(_REPLACED_END.search(text, start + 1, last))
    return min((end.start() for end in ends if end), default=last)
