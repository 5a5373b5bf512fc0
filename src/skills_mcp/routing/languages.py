"""Language identification by function words."""

import re
from collections.abc import Set as AbstractSet

from skills_mcp.routing.tokens import ENGLISH, FRENCH

# Function words, as ENGLISH and FRENCH are: they tell the language, and say nothing.
# fmt: off
_GERMAN = frozenset((
    "aber", "alle", "als", "am", "auch", "auf", "aus", "bei", "beim", "bin", "bis",
    "bitte", "da", "damit", "danach", "dann", "das", "dass", "dem", "den", "denn",
    "der", "des", "die", "dies", "diese", "diesem", "diesen", "dieser", "dieses",
    "doch", "dort", "du", "durch", "ein", "eine", "einem", "einen", "einer", "eines",
    "er", "es", "etwas", "für", "gegen", "gibt", "habe", "haben", "hat", "hier", "ich",
    "ihr", "ihre", "ihren", "im", "immer", "ist", "jede", "jeden", "jeder", "jetzt",
    "kann", "kannst", "kein", "keine", "keinen", "können", "könnte", "man", "mehr",
    "mein", "meine", "meinem", "meinen", "mich", "mir", "mit", "möchte", "muss",
    "müssen", "nach", "nicht", "nichts", "noch", "nun", "nur", "ob", "oder", "ohne",
    "schon", "sein", "seine", "sich", "sie", "sind", "soll", "sollen", "sollte",
    "sowie", "um", "und", "uns", "unser", "unsere", "unserem", "unseren", "unserer",
    "unter", "vom", "von", "vor", "wann", "warum", "weil", "welche", "welcher",
    "welches", "wenn", "werden", "wie", "wir", "wird", "wo", "wurde", "zu", "zum",
    "zur", "zwischen", "über",
))
_SPANISH = frozenset((
    "al", "algo", "antes", "así", "aunque", "cada", "como", "con", "cuando", "cuál",
    "cuándo", "cómo", "de", "del", "desde", "después", "donde", "dónde", "el", "ella",
    "ellos", "en", "entre", "era", "es", "esa", "ese", "eso", "esta", "este", "esto",
    "estos", "está", "están", "favor", "fue", "ha", "hace", "hacer", "hacia", "han",
    "hasta", "hay", "la", "las", "le", "les", "lo", "los", "me", "mi", "mis", "mucho",
    "muy", "más", "nada", "ni", "nos", "nuestra", "nuestras", "nuestro", "nuestros",
    "o", "otra", "otro", "para", "pero", "poco", "poder", "por", "porque", "puede",
    "puedo", "que", "quiero", "qué", "se", "según", "ser", "si", "sin", "sobre",
    "solo", "son", "su", "sus", "sí", "sólo", "también", "tan", "te", "tengo", "tiene",
    "tienen", "toda", "todas", "todo", "todos", "tu", "un", "una", "uno", "unos", "y",
    "ya", "yo",
))
# fmt: on

_FOREIGN_LANGUAGES = (FRENCH, _GERMAN, _SPANISH)

# One word is chance: "die" and "la" stand in English tasks, too.
_MIN_FUNCTION_WORDS = 2

_LETTER_RUN = re.compile(r"[^\W\d_]+")
_NON_LETTERS = bytes(sign for sign in range(128) if not chr(sign).isalpha())
_TO_SPACES = bytes.maketrans(_NON_LETTERS, b" " * len(_NON_LETTERS))


def find_function_words(text: str) -> AbstractSet[str]:
    """Identify the language of a folded text by its function words; none for English.

    Most skills are English, and most words of a German, French or Spanish task are in
    no skill then: no evidence against a skill. A text without function words counts as
    English.

    >>> sorted(find_function_words("wie richte ich expo router ein"))[:3]
    ['aber', 'alle', 'als']
    >>> find_function_words("how do i set up expo router")
    frozenset()
    """
    words = set(_split_letters(text))
    best = max(_FOREIGN_LANGUAGES, key=lambda known: len(words & known))
    found = len(words & best)
    return best if found >= _MIN_FUNCTION_WORDS and found > len(words & ENGLISH) else frozenset()


def _split_letters(text: str) -> list[str]:
    if not text.isascii():
        return _LETTER_RUN.findall(text)
    # Several times as fast, and most texts are English.
    return text.encode().translate(_TO_SPACES).decode().split()
