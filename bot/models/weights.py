"""The price of input read from a prompt cache, relative to new input."""

import re

#: By model, as the vendors list them; gateways write the names with dots or prefixes.
_BY_MODEL = (
    (re.compile(r"(fable|mythos)-5[-.]1(?!\d)"), 0.025),
    (re.compile(r"(opus|sonnet)-5[-.]5(?!\d)"), 0.05),
)
_OTHERS = 0.1


def cached_weight(model: str) -> float:
    """Return the weight of a token that this model reads from a cache; new input weighs 1."""
    return next((weight for name, weight in _BY_MODEL if name.search(model)), _OTHERS)
