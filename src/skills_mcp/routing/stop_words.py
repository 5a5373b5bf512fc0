"""Words that say nothing about a task, in English and French.

The list is ours and frozen: a library's update must not change what is found.
Words that are also technical terms stay out of it (`go`, `use`, `case`, `car`).
"""

# fmt: off
ENGLISH = frozenset((
    "a", "about", "after", "again", "all", "also", "am", "an", "and", "any", "are",
    "as", "at", "be", "because", "been", "before", "being", "but", "by", "can",
    "could", "did", "do", "does", "doing", "done", "each", "for", "from", "had",
    "has", "have", "having", "he", "her", "here", "him", "his", "how", "i", "if",
    "in", "into", "is", "it", "its", "just", "let", "may", "me", "might", "more",
    "most", "must", "my", "need", "needs", "no", "nor", "not", "of", "off", "on",
    "once", "only", "or", "other", "our", "ours", "out", "over", "own", "please",
    "same", "shall", "she", "should", "so", "some", "such", "than", "that", "the",
    "their", "them", "then", "there", "these", "they", "this", "those", "to", "too",
    "under", "until", "up", "us", "very", "want", "was", "we", "were", "what",
    "when", "where", "which", "while", "who", "whom", "why", "will", "with",
    "would", "you", "your", "yours",
))

FRENCH = frozenset((
    "afin", "ainsi", "alors", "au", "aucun", "aussi", "autre", "aux", "avait",
    "avec", "avoir", "besoin", "ce", "cela", "celle", "celui", "ces", "cet", "cette",
    "ceux", "chaque", "comme", "comment", "dans", "de", "depuis", "des", "doit",
    "donc", "dont", "du", "elle", "elles", "en", "encore", "entre", "est",
    "et", "été", "être", "eux", "fait", "faut", "ici", "il", "ils", "je", "la",
    "le", "les", "leur", "leurs", "lors", "lui", "ma", "mais", "me", "mes", "moi",
    "mon", "même", "ne", "nos", "notre", "nous", "où", "ou", "par", "parce", "pas",
    "peu", "peut", "plus", "pour", "pourquoi", "quand", "que", "quel", "quelle",
    "quels", "qui", "quoi", "sa", "sans", "se", "si", "son", "sont", "sous",
    "sur", "ta", "te", "tes", "toi", "ton", "tous", "tout", "toute", "toutes",
    "très", "tu", "un", "une", "veux", "vers", "voici", "vos", "votre", "vous",
    "y", "à",
))
# fmt: on

STOP_WORDS = ENGLISH | FRENCH

# As they are typed in a hurry; "id", "ill", "lets" and "well" are words, too.
_WITHOUT_APOSTROPHE = frozenset((
    "arent", "cant", "couldnt", "didnt", "doesnt", "dont", "hadnt", "hasnt", "havent",
    "heres", "hes", "hows", "im", "isnt", "ive", "mustnt", "shes", "shouldnt",
    "thats", "theres", "theyre", "theyve", "wasnt", "werent", "weve", "whats", "wheres",
    "whos", "whys", "wont", "wouldnt", "youd", "youll", "youre", "youve",
))  # fmt: skip

FILLER = _WITHOUT_APOSTROPHE | frozenset((
    "get", "help", "let", "like", "make", "need", "please", "use", "used", "using",
    "want",
))  # fmt: skip
"""What requests are padded with.

Only the ranked algorithm drops them: the list of the keyword algorithm is published,
and an author may well declare `use`.
"""
