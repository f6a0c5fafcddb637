"""The words of a post by the rules of scholar's preprocessing (Card et al. 2018).

HFVAE's authors prepared 20 Newsgroups with that script. Words are lower case, of at
least three letters, without e-mail addresses, mentions, digits and stop words.
"""

import re
import string

# Snowball's English stop words of at least three letters; apostrophes are dropped.
STOP_WORDS = frozenset(
    """
    myself our ours ourselves you your yours yourself yourselves him his himself she her
    hers herself its itself they them their theirs themselves what which who whom this
    that these those are was were been being have has had having does did doing will
    would shall should can could may might must ought the and but because until while
    for with about against between into through during before after above below from
    down out off over under again further then once here there when where why how all
    any both each few more most other some such nor not only own same than too very
    youre hes shes theyre ive youve weve theyve youd hed shed wed theyd ill youll hell
    shell well theyll isnt arent wasnt werent hasnt havent hadnt doesnt dont didnt wont
    wouldnt shant shouldnt cant cannot couldnt mustnt lets thats whos whats heres theres
    whens wheres whys hows
    """.split()  # noqa: SIM905
)
_ADDRESS = re.compile(r"\S+@\S+|\s@\S+")
# Periods and apostrophes join what they separate; other punctuation separates.
_PUNCTUATION = str.maketrans(
    {mark: "" if mark in ".'" else " " for mark in string.punctuation}
)
_WORD = re.compile(r"[a-z]{3,}")


def words(text: str) -> list[str]:
    """Returns the words of a text, in their order."""
    tokens = _ADDRESS.sub(" ", text.lower()).translate(_PUNCTUATION).split()
    return [
        token for token in tokens if _WORD.fullmatch(token) and token not in STOP_WORDS
    ]
