"""How the bot answers commands, clicks and forms."""

from bot.values import Json
from tests.fakes.discord import posting
from tests.fakes.discord.interactions import (
    ANSWER,
    CHOICES,
    COMPLETION,
    COMPONENT,
    LATER,
    MODAL,
    SUBMIT,
    UPDATE,
    UPDATE_LATER,
    Interaction,
    Interactions,
    Modal,
)
from tests.fakes.discord.payloads import message_json
from tests.fakes.discord.refusals import Refusal, invalid
from tests.fakes.discord.rest import Call, Route
from tests.fakes.discord.rules import IN_ANSWERS, check_choices, check_form, check_modal, numbered
from tests.fakes.discord.things import EPHEMERAL, LOADING, Message

#: As many messages may follow where the bot is installed for the user alone.
MOST_FOLLOWUPS_OF_GUESTS = 5


def _world(call: Call) -> Interactions:
    assert isinstance(call.world, Interactions)
    return call.world


def _found(call: Call) -> Interaction:
    """Return the interaction whose answers follow, or refuse."""
    world = _world(call)
    found = world.interactions.get(call.ids["token"])
    if found is None:
        raise Refusal(10015)
    if found.expired or found.age > world.token_seconds:
        raise Refusal(50027)
    if found.response not in {ANSWER, LATER, UPDATE_LATER, UPDATE, MODAL}:
        raise Refusal(10015)
    return found


def _shown(call: Call, message: Message) -> Json:
    return message_json(message, call.world.bot, call.world.files_url)


# -- the first answer ------------------------------------------------------------------------------


def respond(call: Call) -> Json | None:
    world = _world(call)
    found = world.interactions.get(call.ids["token"])
    if found is None or found.id != call.id("interaction") or found.expired:
        raise Refusal(10062)
    if found.response:
        raise Refusal(40060)
    if found.age > world.interaction_seconds:
        raise Refusal(10062)
    kind, data = call.json["type"], call.json.get("data") or {}
    message = _first(call, found, kind, data)
    found.response = kind
    if call.sent.query.get("with_response") not in {"1", "true"}:
        return None
    shown: Json = {"id": str(found.id), "type": found.kind}
    resource: Json = {"type": kind}
    if message:
        shown |= {
            "response_message_id": str(message.id),
            "response_message_loading": message.loading,
            "response_message_ephemeral": message.ephemeral,
        }
        if kind in {ANSWER, UPDATE}:
            resource["message"] = _shown(call, message)
    return {"interaction": shown, "resource": resource}


def _first(call: Call, found: Interaction, kind: int, data: Json) -> Message | None:
    """Do what a first answer says, and return the message that it makes or changes."""
    if (kind == CHOICES) is not (found.kind == COMPLETION):
        raise invalid("type", "INTERACTION_TYPE_INVALID", f"{kind} does not answer {found.kind}.")
    if kind in {UPDATE, UPDATE_LATER} and found.source is None:
        raise invalid("type", "INTERACTION_TYPE_INVALID", "There is no message to update.")
    match kind:
        case 4:
            return _answer(call, found, data)
        case 5:
            if (data.get("flags") or 0) & ~EPHEMERAL:
                raise invalid("data.flags", "BASE_TYPE_BAD_FLAGS", "Only EPHEMERAL can be set.")
            return _answer(call, found, data, flags=LOADING)
        case 6:
            return found.source
        case 7:
            return _update(call, found, data)
        case 8:
            choices = data.get("choices") or []
            check_choices(choices)
            found.choices = [(choice["name"], choice["value"]) for choice in choices]
        case 9 if found.kind != SUBMIT:
            check_modal(data)
            found.modal = Modal(found, data | {"components": numbered(data["components"])})
        case _:
            raise invalid("type", "BASE_TYPE_CHOICES", f"{kind} cannot answer this.")
    return None


def _answer(call: Call, found: Interaction, data: Json, *, flags: int = 0) -> Message:
    """Say something new."""
    flags |= (data.get("flags") or 0) & EPHEMERAL
    letter = posting.Letter(
        call.world.bot, data, call.sent.files, IN_ANSWERS, flags, interaction=found.id
    )
    check_form(data)
    message = posting.make(call.world, found.channel, letter)
    message.kind = message.kind if found.kind in {COMPONENT, SUBMIT} else 20
    found.messages.append(message)
    if not message.ephemeral and found.channel.id in call.world.channels:
        posting.deliver(call.world, message)
    return message


def _update(call: Call, found: Interaction, data: Json) -> Message:
    """Change the message whose button was clicked."""
    assert found.source is not None
    if found.source.deleted:
        raise Refusal(10008)
    posting.amend(call.world, found.source, data, call.sent.files)
    found.updated = True
    return found.source


# -- what follows ----------------------------------------------------------------------------------


def follow_up(call: Call) -> Json | None:
    found = _found(call)
    waiting = [message for message in found.messages if message.loading]
    if waiting:
        # What follows first takes the place of “is thinking”, and is seen by the same people.
        message = waiting[0]
        posting.amend(call.world, message, _without_ephemeral(call.json), call.sent.files)
    else:
        found.followups += 1
        if found.guest and found.followups > MOST_FOLLOWUPS_OF_GUESTS:
            raise Refusal(40094)
        message = _answer(call, found, call.json)
    call.world.touch()
    return _shown(call, message) if call.sent.query.get("wait") in {"1", "true"} else None


def _without_ephemeral(payload: Json) -> Json:
    flags = (payload.get("flags") or 0) & ~EPHEMERAL
    return payload | {"flags": flags} if flags else {**payload, "flags": None}


def _message(call: Call, found: Interaction) -> Message:
    if call.ids["message"] == "@original":
        if found.response in {UPDATE, UPDATE_LATER}:
            message = found.source
        else:
            message = found.messages[0] if found.messages else None
    else:
        known = [*found.messages, *([found.source] if found.source else [])]
        message = next((each for each in known if each.id == call.id("message")), None)
    if message is None or message.deleted:
        raise Refusal(10008)
    return message


def edit(call: Call) -> Json:
    found = _found(call)
    message = _message(call, found)
    posting.amend(call.world, message, call.json, call.sent.files)
    found.updated = found.updated or message is found.source
    call.world.touch()
    return _shown(call, message)


def fetch(call: Call) -> Json:
    return _shown(call, _message(call, _found(call)))


def delete(call: Call) -> None:
    found = _found(call)
    message = _message(call, found)
    posting.remove(call.world, message)
    if message in found.messages:
        found.messages.remove(message)


_WEBHOOK = "/webhooks/{application}/{token}"

ROUTES = [
    Route("POST", "/interactions/{interaction}/{token}/callback", respond, open=True),
    Route("POST", _WEBHOOK, follow_up, open=True),
    Route("GET", _WEBHOOK + "/messages/{message}", fetch, open=True),
    Route("PATCH", _WEBHOOK + "/messages/{message}", edit, open=True),
    Route("DELETE", _WEBHOOK + "/messages/{message}", delete, open=True),
]
