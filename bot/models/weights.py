"""The price of input tokens read from a prompt cache, relative to new input tokens."""

import re

#: Weights by model, from the vendors' price lists; gateways write names with dots or prefixes.
_BY_MODEL = (
    (re.compile(r"(fable|mythos)-5[-.]1(?!\d)"), 0.025),
    (re.compile(r"(opus|sonnet)-5[-.]5(?!\d)"), 0.05),
)
_OTHERS = 0.1


def cached_weight(model: str) -> float:
    """Return the weight of an input token that the model reads from a cache; a new one weighs 1."""
    return next((weight for name, weight in _BY_MODEL if name.search(model)), _OTHERS)
