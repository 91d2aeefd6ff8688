"""Slack's limits on texts, buttons, menus and fields."""

from collections.abc import Callable, Iterator

from bot.values import Json

Problems = Iterator[str]


def check_text(
    value: object, most: int, *, kinds: tuple[str, ...] = ("plain_text", "mrkdwn")
) -> Problems:
    """Find what is wrong with a text object."""
    if not isinstance(value, dict) or value.get("type") not in kinds:
        yield f"must be a text object of {' or '.join(kinds)}"
        return
    text = value.get("text")
    if not isinstance(text, str) or not text:
        yield "must be more than 0 characters"
    elif len(text) > most:
        yield f"must be less than {most + 1} characters"


def check_plain(value: object, most: int) -> Problems:
    """Find what is wrong with a text that may have no formatting."""
    return check_text(value, most, kinds=("plain_text",))


def check_element(element: Json) -> Problems:
    """Find what is wrong with an element that a user uses."""
    kind = str(element.get("type"))
    check = _ELEMENTS.get(kind)
    if check is None:
        yield f"unsupported element: {kind}"
        return
    if len(str(element.get("action_id", ""))) > 255:
        yield "action_id must be less than 256 characters"
    if "confirm" in element:
        yield from _confirm(element["confirm"])
    if "placeholder" in element:
        yield from check_plain(element["placeholder"], 150)
    yield from check(element)


def _confirm(confirm: Json) -> Problems:
    for key, most in (("title", 100), ("confirm", 30), ("deny", 30)):
        yield from check_plain(confirm.get(key), most)
    yield from check_text(confirm.get("text"), 300)
    if confirm.get("style", "primary") not in {"primary", "danger"}:
        yield "style must be a valid enum value"


def _button(element: Json) -> Problems:
    yield from check_plain(element.get("text"), 75)
    yield from _values(element)
    if element.get("style", "primary") not in {"primary", "danger"}:
        yield "style must be a valid enum value"


def _values(element: Json) -> Problems:
    if len(str(element.get("value", ""))) > 2000:
        yield "value must be less than 2001 characters"
    if len(str(element.get("url", ""))) > 3000:
        yield "url must be less than 3001 characters"
    allowed = element.get("visible_to_user_ids")
    if allowed is not None and not (isinstance(allowed, list) and allowed):
        yield "visible_to_user_ids must have at least one item"


def _options(most: int) -> Callable[[Json], Problems]:
    def check(element: Json) -> Problems:
        options = element.get("options") or [
            option for group in element.get("option_groups", ()) for option in group["options"]
        ]
        if not 1 <= len(options) <= most:
            yield f"must have between 1 and {most} options"
        for option in options:
            yield from check_option(option)

    return check


def check_option(option: Json) -> Problems:
    """Find what is wrong with one choice of a menu."""
    yield from check_text(option.get("text"), 75)
    if not 1 <= len(str(option.get("value", ""))) <= 150:
        yield "value must be between 1 and 150 characters"
    if "description" in option:
        yield from check_text(option["description"], 75)


def _feedback(element: Json) -> Problems:
    for key in ("positive_button", "negative_button"):
        yield from check_plain(element.get(key, {}).get("text"), 75)


def _text_input(element: Json) -> Problems:
    if element.get("max_length", 3000) > 3000:
        yield "max_length must be less than 3001"
    if len(element.get("initial_value", "")) > 3000:
        yield "initial_value must be less than 3001 characters"


def _fine(_: Json) -> Problems:
    yield from ()


_ELEMENTS: dict[str, Callable[[Json], Problems]] = {
    "button": _button,
    "icon_button": _values,
    "feedback_buttons": _feedback,
    "static_select": _options(100),
    "multi_static_select": _options(100),
    "overflow": _options(5),
    "checkboxes": _options(10),
    "radio_buttons": _options(10),
    "plain_text_input": _text_input,
    **dict.fromkeys(
        (
            "external_select",
            "multi_external_select",
            "users_select",
            "multi_users_select",
            "conversations_select",
            "channels_select",
            "datepicker",
            "timepicker",
            "datetimepicker",
            "number_input",
            "email_text_input",
            "url_text_input",
            "rich_text_input",
            "image",
            "workflow_button",
            "file_input",
        ),
        _fine,
    ),
}
#: What an actions block may hold.
INTERACTIVE = frozenset(_ELEMENTS) - {"plain_text_input", "image", "feedback_buttons", "file_input"}
