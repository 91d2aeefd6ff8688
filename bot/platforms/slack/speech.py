"""Converts Slack's message markup to plain text and classifies messages (pure).

Slack escapes `&`, `<` and `>` in typed text, and puts recognised parts between `<` and `>`: see
"Formatting text for app surfaces" in its documentation.
"""

import re

from bot.platforms.messages import Quoted
from bot.platforms.messaging.texts import short_answer
from bot.values import Json

_MARKUP = re.compile(r"<([^<>\n]*)>")
#: The subtypes of messages by users, with "" for no subtype.
_SAID = frozenset({"", "file_share", "thread_broadcast", "me_message"})
#: Slack's own account, which writes to bots like a user, for instance after a removal from a
#: channel.
_SLACKBOT = "USLACKBOT"
_ALL_THERE = frozenset({"here", "channel", "everyone"})
#: The fields of an attachment with written text.
_WRITTEN = ("pretext", "author_name", "title", "text", "footer")
_COMMAND = re.compile(r"[/!]\w|subagents?\b", re.IGNORECASE)


def is_from_user(event: Json) -> bool:
    """Return True for a new message by a user: no bot, not Slack itself, no edit or deletion."""
    said = str(event.get("subtype") or "") in _SAID and not event.get("hidden")
    somebody = str(event.get("user") or "") not in {"", _SLACKBOT}
    return said and somebody and not event.get("bot_id")


def mentions(text: str, account: str) -> bool:
    """Return True if a text with Slack's markup mentions an account."""
    return re.search(rf"<@{re.escape(account)}(\|[^<>]*)?>", text) is not None


def is_for_us(text: str) -> bool:
    """Return True if a text is a command with a name of this bot."""
    return re.match(r"\s*!(subagents?|retinue)\b", text, re.IGNORECASE) is not None


def bypasses_queue(spoken_text: str) -> bool:
    """Return True for commands and one-word answers, which do not wait for earlier messages."""
    return bool(_COMMAND.match(spoken_text) or short_answer(spoken_text))


def begins_with_another(text: str, me: str) -> bool:
    """Return True if a text with Slack's markup begins with a mention of another account."""
    match = re.match(r"\s*<@([UW][A-Z0-9]+)", text)
    return match is not None and match[1] != me


def spoken(text: str, me: str) -> str:
    """Return a message as plain text, without mentions of the bot at its beginning and end.

    Args:
        text: The text with Slack's markup.
        me: The bot's account.
    """
    name = rf"<@{re.escape(me)}(?:\|[^<>]*)?>"
    text = re.sub(rf"\A\s*(?:{name}[\s,:]*)+", "", text)
    # A `\Z` in the pattern would take seconds for a text full of mentions or white space.
    text = re.sub(
        rf"(?:{name}\s*)+", lambda names: "" if names.end() == len(text) else names[0], text
    )
    text = _MARKUP.sub(lambda match: _meant(match[1]), text)
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&").strip()


def quoted_in(event: Json, me: str) -> tuple[Quoted, ...]:
    """Return the content of a message by other authors: shared messages, link previews."""
    found = []
    for each in event.get("attachments") or ():
        shared = each.get("is_share") or each.get("is_msg_unfurl")
        texts = [str(each.get(key) or "") for key in _WRITTEN]
        texts = texts if any(texts) else [str(each.get("fallback") or "")]
        fields = [
            f"{field.get('title') or ''}: {field.get('value') or ''}"
            for field in each.get("fields") or ()
        ]
        text = spoken("\n".join(part for part in [*texts, *fields] if part), me)
        if text:
            found.append(Quoted("shared" if shared else "link_preview", text))
    return tuple(found)


def _meant(markup: str) -> str:
    """Return the visible text of a piece of markup, still escaped."""
    target, _, label = markup.partition("|")
    if target.startswith("@"):
        return f"@{label.removeprefix('@') or target[1:]}"
    if target.startswith("#"):
        return f"#{label or target[1:]}"
    if target.startswith("!"):
        return _of_slack(target[1:], label)
    address = target.removeprefix("mailto:").removeprefix("tel:")
    return f"{label} ({address})" if label and label not in address else address


def _of_slack(target: str, label: str) -> str:
    """Return the visible text of a special mention, a group or a date."""
    kind, _, rest = target.partition("^")
    if kind in _ALL_THERE:
        return f"@{kind}"
    return label or f"@{rest if kind == 'subteam' else kind}"
