"""Makes the catalogue of models: `python -m tests.model_catalogue WHEEL_OF_LITELLM`.

`pip download --no-deps litellm` brings the wheel. It is no dependency, since it weighs 41 MB; its
list of models is under the MIT licence, whose notice stands in the catalogue.
"""

import json
import re
import sys
import zipfile
from pathlib import Path
from typing import Any

FILE = Path(__file__).parents[1] / "bot/models/capabilities.json"
LIST = "litellm/model_prices_and_context_window_backup.json"
#: Our names of the vendors whose models are taken over, by those of the list.
VENDORS = {
    "anthropic": "anthropic",
    "openai": "openai",
    "bedrock": "bedrock",
    "bedrock_converse": "bedrock",
    "vertex_ai-anthropic_models": "vertex",
    "gemini": "gemini",
    "mistral": "mistral",
    "deepseek": "deepseek",
    "groq": "groq",
    "openrouter": "openrouter",
    "together_ai": "together",
    "xai": "xai",
    "ollama": "ollama",
}
#: The flags of an entry, and the fields of the list that set them.
FLAGS = {
    "t": "supports_function_calling",
    "v": "supports_vision",
    "d": "supports_pdf_input",
    "r": "supports_reasoning",
    "a": "supports_adaptive_thinking",
    "e": "supports_output_config",
    "c": "supports_prompt_caching",
}
#: Claude models that load a tool when a result refers to it, which the list does not tell.
LOADS_TOOLS = re.compile(
    r"claude-(opus|sonnet|haiku)-4-([5-9]|\d\d(?!\d))|claude-[a-z]+-[5-9](-|$)"
)


def entry(name: str, given: dict[str, Any]) -> list[Any]:
    """Return an entry: context, most output, flags, least cached tokens, weight of cached ones."""
    flags = "".join(flag for flag, field in FLAGS.items() if given.get(field))
    if LOADS_TOOLS.search(name):
        flags += "l"
    price, cached = given.get("input_cost_per_token"), given.get("cache_read_input_token_cost")
    weight = round(cached / price, 4) if price and cached is not None else None
    found = [
        *(given.get("max_input_tokens"), given.get("max_output_tokens"), flags),
        *(given.get("prompt_cache_min_tokens"), weight),
    ]
    while found[-1] is None:
        found.pop()
    return found


def catalogue(wheel: Path) -> dict[str, Any]:
    """Return the catalogue that the list in a wheel makes."""
    with zipfile.ZipFile(wheel) as packed:
        listed = json.loads(packed.read(LIST))
        [licence] = [each for each in packed.namelist() if each.endswith("licenses/LICENSE")]
        notice = packed.read(licence).decode()
    models: dict[str, list[Any]] = {}
    for name, given in sorted(listed.items()):
        vendor = VENDORS.get(given.get("litellm_provider", ""))
        if vendor is None or given.get("mode") not in {"chat", "responses"}:
            continue
        # `bedrock/REGION/…` repeats a model for each region.
        if name.startswith("bedrock/"):
            continue
        own = name.partition("/")[2] if "/" in name and vendor != "together" else name
        own = own.removeprefix("together_ai/")
        models.setdefault(f"{vendor}/{own}", entry(name, given))
    return {"source": f"{wheel.name.split('-cp')[0]}, {LIST}", "notice": notice, "models": models}


def main() -> None:
    """Write the catalogue."""
    made = catalogue(Path(sys.argv[1]))
    models = made.pop("models")
    lines = ",\n".join(f"{json.dumps(name)}:{json.dumps(each)}" for name, each in models.items())
    head = json.dumps(made, ensure_ascii=False, indent=1).removesuffix("\n}")
    FILE.write_text(f'{head},\n "models": {{\n{lines}\n}}}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
