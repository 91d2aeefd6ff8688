"""What people say on Slack, as they meant it: without Slack's own markup (pure).

Slack escapes `&`, `<` and `>` in what people type, and puts what it recognises between `<` and `>`:
see "Formatting text for app surfaces" in its documentation.
"""

import re

from bot.platforms.past import Quoted
from bot.platforms.short_answers import short_answer
from bot.values import Json

_MARKUP = re.compile(r"<([^<>\n]*)>")
#: Messages that somebody said, beside those without a subtype.
_SAID = frozenset({"", "file_share", "thread_broadcast", "me_message"})
#: Slack itself, which writes to bots like a person: that they were removed from a channel, say.
_SLACKBOT = "USLACKBOT"
_ALL_THERE = frozenset({"here", "channel", "everyone"})
#: The parts of an attachment that somebody wrote.
_WRITTEN = ("pretext", "author_name", "title", "text", "footer")
_COMMAND = re.compile(r"[/!]\w|subagents?\b", re.IGNORECASE)


def was_said_by_a_person(event: Json) -> bool:
    """Whether somebody said this: no bot, not Slack itself, no change of something older."""
    said = str(event.get("subtype") or "") in _SAID and not event.get("hidden")
    somebody = str(event.get("user") or "") not in {"", _SLACKBOT}
    return said and somebody and not event.get("bot_id")


def mentions(text: str, account: str) -> bool:
    """Whether a text, as Slack gives it, mentions somebody."""
    return re.search(rf"<@{re.escape(account)}(\|[^<>]*)?>", text) is not None


def is_for_us(text: str) -> bool:
    """Whether a text is a command that nobody else is called by."""
    return re.match(r"\s*!(subagents?|retinue)\b", text, re.IGNORECASE) is not None


def waits_for_nothing(spoken_text: str) -> bool:
    """Whether what was said to us has no place in the line of messages: a command, a yes or no."""
    return bool(_COMMAND.match(spoken_text) or short_answer(spoken_text))


def begins_with_another(text: str, me: str) -> bool:
    """Whether a text, as Slack gives it, is addressed to somebody else."""
    match = re.match(r"\s*<@([UW][A-Z0-9]+)", text)
    return match is not None and match[1] != me


def spoken(text: str, me: str) -> str:
    """Return what somebody says to us, less that they say it to us.

    Args:
        text: As Slack gives it.
        me: The bot's account.
    """
    name = rf"<@{re.escape(me)}(?:\|[^<>]*)?>"
    text = re.sub(rf"\A\s*(?:{name}[\s,:]*)+", "", text)
    # Looking for `\Z` in the pattern would take seconds for a text full of names or white space.
    text = re.sub(
        rf"(?:{name}\s*)+", lambda names: "" if names.end() == len(text) else names[0], text
    )
    text = _MARKUP.sub(lambda match: _meant(match[1]), text)
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&").strip()


def quoted_in(event: Json, me: str) -> tuple[Quoted, ...]:
    """Return what came with a message and was written by others: shared messages, link previews."""
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
    """Return what people saw in the place of some markup, still escaped."""
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
    """Return what people saw of a special mention, a group or a date."""
    kind, _, rest = target.partition("^")
    if kind in _ALL_THERE:
        return f"@{kind}"
    return label or f"@{rest if kind == 'subteam' else kind}"
