"""What is entered into forms and chosen from menus, as Slack passes it on."""

from collections.abc import Mapping

from bot.values import Json

_SAID_OF_BUTTONS = {"text", "value", "style"}


def chosen(element: Json, choice: str) -> Json:
    """Return what an action says about an element that was used."""
    match element["type"]:
        case "button" | "icon_button":
            return {key: value for key, value in element.items() if key in _SAID_OF_BUTTONS}
        case "static_select" | "overflow" | "radio_buttons":
            return {"selected_option": _option(element, choice)}
        case "external_select":
            return {"selected_option": _made_up(choice)}
        case "users_select":
            return {"selected_user": choice}
        case "checkboxes" | "multi_static_select":
            return {"selected_options": [_option(element, choice)]}
        case "feedback_buttons":
            return {"value": choice}
        case other:
            return {"value": choice, "type": other}


def state_of(blocks: list[Json], values: Mapping[str, str | list[str]]) -> Json:
    """Return the state of a form that was filled in.

    Args:
        blocks: Of the form.
        values: What is entered, by the action id, block id or label of the field.

    Raises:
        AssertionError: There is no such field, or one that must be filled in is empty.
    """
    left, state = dict(values), {}
    for block in blocks:
        if block["type"] != "input":
            continue
        element = block["element"]
        label = block["label"]["text"]
        name = next((n for n in (element["action_id"], block["block_id"], label) if n in left), "")
        given = left.pop(name) if name else _initial(element)
        assert given or block.get("optional"), f"The field {label!r} must be filled in."
        entry = {"type": element["type"]} | _entered(element, given)
        state[block["block_id"]] = {element["action_id"]: entry}
    assert not left, f"The form has no fields {sorted(left)}."
    return state


def _initial(element: Json) -> str | list[str]:
    option = element.get("initial_option") or {}
    return str(element.get("initial_value") or option.get("value") or "")


def _entered(element: Json, given: str | list[str]) -> Json:
    kind = element["type"]
    if kind in {"checkboxes", "multi_static_select"}:
        picked = [given] if isinstance(given, str) else given
        return {"selected_options": [_option(element, one) for one in picked if one]}
    assert isinstance(given, str), f"A {kind} takes one value."
    if kind in {"static_select", "radio_buttons"}:
        return {"selected_option": _option(element, given) if given else None}
    if kind == "external_select":
        return {"selected_option": _made_up(given) if given else None}
    if kind == "users_select":
        return {"selected_user": given or None}
    most, least = element.get("max_length", 3000), element.get("min_length", 0)
    assert least <= len(given) <= most, f"The field takes {least} to {most} characters."
    return {"value": given or None}


def _option(element: Json, choice: str) -> Json:
    groups = element.get("option_groups") or ()
    options = element.get("options") or [o for group in groups for o in group["options"]]
    for option in options:
        if choice in {option["value"], option["text"]["text"]}:
            found: Json = option
            return found
    there = [option["text"]["text"] for option in options]
    raise AssertionError(f"There is no choice {choice!r}; there is {there}.")


def _made_up(choice: str) -> Json:
    return {"text": {"type": "plain_text", "text": choice}, "value": choice}
