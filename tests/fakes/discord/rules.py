"""What Discord refuses in a message or a modal, and whom a message pings."""

import re
from collections import Counter

from bot.values import Json
from tests.fakes.discord.refusals import Refusal, invalid, too_long
from tests.fakes.discord.things import (
    BUTTON,
    COMPONENTS_V2,
    TEXT_DISPLAY,
    TEXT_INPUT,
    File,
    Pinged,
    parts,
)

ACTION_ROW, SECTION, LABEL = 1, 9, 18
SELECTS = {3, 5, 6, 7, 8}
#: What may stand at the top of a message of components, and what nowhere else.
TOP_V2 = {ACTION_ROW, SECTION, TEXT_DISPLAY, 12, 13, 14, 17}
MOST_COMPONENTS, MOST_TEXT = 40, 4000


def check_form(payload: Json) -> None:
    """Refuse the parts of a payload that are wrong whatever the message."""
    content = payload.get("content")
    if content is not None and not isinstance(content, str):
        raise invalid("content", "BASE_TYPE_STRING", "Could not interpret value as string.")
    if len(content or "") > 2000:
        raise too_long("content", 2000)
    nonce = payload.get("nonce")
    if isinstance(nonce, str) and len(nonce) > 25:
        raise too_long("nonce", 25)
    if len(payload.get("embeds") or []) > 10:
        raise too_long("embeds", 10)
    check_mentions(payload.get("allowed_mentions"))


def check_mentions(allowed: Json | None) -> None:
    """Refuse rules of mentions that contradict themselves."""
    allowed = allowed or {}
    parse = allowed.get("parse") or []
    if wrong := set(parse) - {"users", "roles", "everyone"}:
        text = f"Value must be one of ('users', 'roles', 'everyone'), not {wrong}."
        raise invalid("allowed_mentions.parse", "BASE_TYPE_CHOICES", text)
    for key in ("users", "roles"):
        named = allowed.get(key) or []
        if len(named) > 100:
            raise too_long(f"allowed_mentions.{key}", 100)
        if named and key in parse:
            text = f'parse:["{key}"] and {key}: [ids...] are mutually exclusive.'
            raise invalid("allowed_mentions", "MESSAGE_ALLOWED_MENTIONS_PARSE_EXCLUSIVE", text)


def check_whole(
    content: str, embeds: list[Json], components: list[Json], files: list[File], flags: int
) -> None:
    """Refuse a message that may not stand like that."""
    if flags & COMPONENTS_V2:
        if content or embeds:
            field = "content" if content else "embeds"
            text = f"The '{field}' field cannot be used when using MessageFlags.IS_COMPONENTS_V2"
            raise invalid(field, "MESSAGE_CANNOT_USE_LEGACY_FIELDS_WITH_COMPONENTS_V2", text)
        check_components(components)
    else:
        check_rows(components)
    if not (content.strip() or embeds or components or files):
        raise Refusal(50006)


def check_rows(components: list[Json]) -> None:
    """Refuse what may not stand below a message of text."""
    if len(components) > 5:
        raise too_long("components", 5)
    for number, component in enumerate(components):
        if component["type"] != ACTION_ROW:
            raise invalid(
                f"components.{number}", "UNION_TYPE_CHOICES", "Value of field type must be one of."
            )
    _check_parts(components)


def check_components(components: list[Json]) -> None:
    """Refuse a message of components that is too large or wrongly nested."""
    for number, component in enumerate(components):
        if component["type"] not in TOP_V2:
            raise invalid(
                f"components.{number}", "UNION_TYPE_CHOICES", "Value of field type must be one of."
            )
    everything = list(parts(components))
    if len(everything) > MOST_COMPONENTS:
        text = f"The maximum number of components allowed in a message is {MOST_COMPONENTS}"
        raise invalid("components", "COMPONENT_MAX_TOTAL_COMPONENTS_EXCEEDED", text)
    texts = [part.get("content", "") for part in everything if part["type"] == TEXT_DISPLAY]
    if sum(map(len, texts)) > MOST_TEXT:
        text = f"The total text in components must be at most {MOST_TEXT} in length."
        raise invalid("components", "COMPONENT_DISPLAYABLE_TEXT_SIZE_EXCEEDED", text)
    _check_parts(components)


def _check_parts(components: list[Json]) -> None:
    everything = list(parts(components))
    for part in everything:
        _check_part(part)
    for key in ("custom_id", "id"):
        count = Counter(part[key] for part in everything if part.get(key))
        if twice := [value for value, times in count.items() if times > 1]:
            text = f"Component {key} cannot be duplicated: {twice}"
            raise invalid("components", f"COMPONENT_{key.upper()}_DUPLICATED", text)


def _check_part(part: Json) -> None:
    inside = part.get("components") or []
    match part["type"]:
        case 2:
            _check_button(part)
        case 1 if not 1 <= len(inside) <= 5:
            raise too_long("components.components", 5, least=1)
        case 9 if not 1 <= len(inside) <= 3 or "accessory" not in part:
            raise too_long("components.components", 3, least=1)
        case 10 if not 1 <= len(part.get("content", "").strip()) <= MOST_TEXT:
            raise too_long("components.content", MOST_TEXT, least=1)
        case 17 if not inside:
            raise too_long("components.components", MOST_COMPONENTS, least=1)
        case kind if kind in SELECTS and not 1 <= len(part.get("custom_id", "")) <= 100:
            raise too_long("components.custom_id", 100, least=1)
        case _:
            return


def _check_button(part: Json) -> None:
    if len(part.get("label") or "") > 80:
        raise too_long("components.label", 80)
    if not (part.get("label") or part.get("emoji")):
        raise invalid("components", "BUTTON_COMPONENT_EMPTY", "A label or an emoji is required.")
    if part["style"] == 5:
        if not part.get("url") or part.get("custom_id"):
            text = "A link button has a url and no custom id."
            raise invalid("components", "BUTTON_COMPONENT_INVALID_URL", text)
    elif not 1 <= len(part.get("custom_id") or "") <= 100:
        raise too_long("components.custom_id", 100, least=1)


def numbered(components: list[Json], start: int = 1) -> list[Json]:
    """Give every component without an id one of its own, as Discord does."""
    return _number(components, [start])


def _number(components: list[Json], next_id: list[int]) -> list[Json]:
    found = []
    for component in components:
        copy: Json = {"id": next_id[0]} | component
        next_id[0] += 1
        if "components" in copy:
            copy["components"] = _number(copy["components"], next_id)
        for key in ("accessory", "component"):
            if key in copy:
                copy[key] = _number([copy[key]], next_id)[0]
        found.append(copy)
    return found


def check_modal(modal: Json) -> None:
    """Refuse a modal that Discord would not open."""
    if not 1 <= len(modal.get("custom_id", "")) <= 100:
        raise too_long("data.custom_id", 100, least=1)
    if not 1 <= len(modal.get("title", "")) <= 45:
        raise too_long("data.title", 45, least=1)
    components = modal.get("components") or []
    if not 1 <= len(components) <= 5:
        raise too_long("data.components", 5, least=1)
    for component in components:
        if component["type"] not in {ACTION_ROW, LABEL, TEXT_DISPLAY}:
            text = "Value of field type must be one of (1, 10, 18)."
            raise invalid("data.components", "UNION_TYPE_CHOICES", text)
        if component["type"] == LABEL and not 1 <= len(component.get("label") or "") <= 45:
            raise too_long("data.components.label", 45, least=1)
        if len(component.get("description") or "") > 100:
            raise too_long("data.components.description", 100)
    for part in parts(components):
        if part["type"] == TEXT_INPUT:
            _check_input(part)
        if part["type"] == BUTTON:
            raise invalid("data.components", "UNION_TYPE_CHOICES", "A modal has no buttons.")


def _check_input(part: Json) -> None:
    if not 1 <= len(part.get("custom_id") or "") <= 100:
        raise too_long("data.components.custom_id", 100, least=1)
    if len(part.get("placeholder") or "") > 100:
        raise too_long("data.components.placeholder", 100)
    if len(part.get("value") or "") > 4000:
        raise too_long("data.components.value", 4000)


def check_choices(choices: list[Json]) -> None:
    """Refuse choices of an autocomplete that are too many or too long."""
    if len(choices) > 25:
        raise too_long("data.choices", 25)
    for choice in choices:
        if not 1 <= len(choice["name"]) <= 100:
            raise too_long("data.choices.name", 100, least=1)
        if isinstance(choice["value"], str) and len(choice["value"]) > 100:
            raise too_long("data.choices.value", 100)


# -- mentions --------------------------------------------------------------------------------------

_USER = re.compile(r"<@!?(\d+)>")
_ROLE = re.compile(r"<@&(\d+)>")
_EVERYONE = re.compile(r"@(everyone|here)")

#: What counts when a payload does not say which mentions are meant.
IN_MESSAGES: Json = {"parse": ["users", "roles", "everyone"], "replied_user": True}
IN_ANSWERS: Json = {"parse": ["users"], "replied_user": True}


def pinged(
    texts: list[str], allowed: Json | None, *, usual: Json = IN_MESSAGES, replied_to: int = 0
) -> set[Pinged]:
    """Return whom a message with these texts pings, as far as nobody forbids it.

    That is judged strictly: code blocks and backslashes protect nobody.

    Args:
        texts: The content, and the texts of components, which count as well.
        allowed: The payload's `allowed_mentions`; `None` if there is none.
        usual: What counts then.
        replied_to: Whose message is answered; 0 for nobody's.
    """
    rule = usual if allowed is None else allowed
    parse, text = rule.get("parse") or [], "\n".join(texts)
    found: set[Pinged] = set()
    for key, pattern in (("users", _USER), ("roles", _ROLE)):
        named = {int(each) for each in rule.get(key) or []}
        mentioned = {int(each) for each in pattern.findall(text)}
        found |= mentioned if key in parse else mentioned & named
    if "everyone" in parse and _EVERYONE.search(text):
        found.add("everyone")
    if replied_to and rule.get("replied_user"):
        found.add(replied_to)
    return found
