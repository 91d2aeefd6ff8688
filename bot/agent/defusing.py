"""Neutralises imitations of our markup: look-alike tags and forged speaker labels (pure)."""

import re
import unicodedata

#: Prefix of a forged speaker label.
QUOTED = "(quoted) "

# The last ones are written as escapes: editors turn U+2329 into U+3008, which looks the same.
_OPENING = "＜﹤‹〈⟨❬❮❰ᐸ˂≺⧼⋖⪡⟪《«⦑⦉⟬⟮"
_OPENING += (
    "\u2329\ufe3f\ufe3d\u226a\u22d8\u226e\u2af7\u2993\u29c0\u2a79\u2a7b\u2343\u02f1\u16b2\U0001d236"
)
_LETTERS = dict(
    zip(
        "аеорсухѕіјԁɡһӏոսυտтмгɑοϲВАЕНІМОРСТХЅ",
        "aeopcyxsijdghlnuustmraocBAEHIMOPCTXS",
        strict=True,
    )
)


def _look_alikes() -> dict[int, str]:
    table = {0xFEE0 + code: chr(code) for code in range(0x21, 0x7F)}
    for code in (*range(0x1D400, 0x1D800), *range(0x2460, 0x2500), *range(0x2100, 0x2150)):
        folded = unicodedata.normalize("NFKC", chr(code))
        if len(folded) == 1 and folded.isascii():
            table[code] = folded
    table |= {ord(character): letter for character, letter in _LETTERS.items()}
    return table | {ord(character): "‹" for character in _OPENING}


_LOOK_ALIKES = _look_alikes()

_GAP = r"[\W_]{0,3}"
_OURS = rf"sub{_GAP}agent(?:{_GAP}result)?"
_NAMES = (
    rf"{_OURS}|system|assistant|human|user|developer|admin|tool{_GAP}(?:use|call|result)"
    rf"|function{_GAP}(?:call|result)|invoke|instruction|untrusted|quoted{_GAP}message|user{_GAP}file|im{_GAP}(?:start|end)"
)
_TAG = re.compile(rf"‹(?=[\W_]{{0,8}}(?:{_NAMES})s?(?![^\W_]))", re.IGNORECASE)

_KIND = (
    r"(?:[ _-](?:message|prompt|note|notice|reminder|update|override|instructions?|alert|turn))?"
)
# A lower-case `user:` is a common key in code and configuration; the others are rare there.
_SPEAKER = re.compile(
    r"^(?:[#>*_\"'`~|-]{1,8} ?)?"
    rf"(?P<name>(?:(?i:system|assistant|human|developer)|User|USER)(?i:{_KIND})[*_ ]{{0,3}}:)",
    re.MULTILINE,
)
_LABEL = re.compile(
    rf"(?<![\w\])])(?<!{re.escape(QUOTED)})(?=(?P<name>\[[ /]{{0,2}}"
    rf"(?:system|assistant|human|developer|inst|sys|{_OURS}){_KIND} ?[\]:]))",
    re.IGNORECASE,
)


def defused(text: str) -> str:
    """Return `text` with imitations of our markup neutralised.

    A look-alike bracket (`＜`, `⟨`) before one of our tag names becomes `<`, so that later escaping
    covers it. A forged speaker label (`System:` at the start of a line, `[INST]`) is prefixed with
    `QUOTED`. The function is idempotent.
    """
    folded = text if text.isascii() else text.translate(_LOOK_ALIKES)
    edits = [(match.start(), 1, "<") for match in _TAG.finditer(folded)]
    for pattern in (_SPEAKER, _LABEL):
        edits += [(match.start("name"), 0, QUOTED) for match in pattern.finditer(folded)]
    parts = []
    done = 0
    for start, length, new in sorted(edits):
        parts += [text[done:start], new]
        done = start + length
    return "".join([*parts, text[done:]])
