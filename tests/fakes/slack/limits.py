"""Slack's limits on messages, under its own names for the errors."""

import re
from collections.abc import Callable

from bot.values import Json
from tests.fakes.slack.elements import (
    INTERACTIVE,
    Problems,
    check_element,
    check_plain,
    check_text,
)
from tests.fakes.slack.shapes import SlackError
from tests.fakes.slack.texts import surfaces

MAX_TEXT = 40_000
#: `chat.update` takes less than `chat.postMessage`, and refuses instead of cutting.
MAX_UPDATED_TEXT = 4_000
MAX_MARKDOWN = 12_000
MAX_BLOCKS = 50
#: All blocks of a message together: measured by others, documented nowhere.
MAX_BLOCK_TEXT = 13_200
_TS = re.compile(r"\d{10}\.\d{6}")


def is_ts(text: object) -> bool:
    """Whether this could be the id of a message."""
    return isinstance(text, str) and _TS.fullmatch(text) is not None


def check_ts(thread_ts: object) -> None:
    """Refuse what is no thread, such as the id of a channel."""
    if not is_ts(thread_ts):
        raise SlackError("invalid_thread_ts")


def check_content(args: Json, *, updating: bool = False, retained: bool = False) -> None:
    """Refuse what Slack would not take as the content of a message.

    Args:
        args: Of the call.
        updating: It replaces the content of a message, which knows stricter limits.
        retained: There may be nothing new in it.
    """
    text, markdown = args.get("text") or "", args.get("markdown_text") or ""
    blocks, attachments = args.get("blocks"), args.get("attachments")
    if markdown and (text or blocks):
        raise SlackError("markdown_text_conflict")
    if not (text.strip() or markdown.strip() or blocks or attachments or retained):
        raise SlackError("no_text")
    if len(markdown) > MAX_MARKDOWN or (updating and len(text) > MAX_UPDATED_TEXT):
        raise SlackError("msg_too_long")
    if blocks is not None:
        check_blocks(blocks)
    if attachments and len(attachments) > 100:
        raise SlackError("too_many_attachments")


def check_blocks(blocks: object, *, most: int = MAX_BLOCKS, error: str = "invalid_blocks") -> None:
    """Refuse blocks that Slack would not take.

    Args:
        blocks: As they came.
        most: How many there may be.
        error: What it is called here that a block is wrong.
    """
    if not isinstance(blocks, list) or not all(isinstance(block, dict) for block in blocks):
        raise SlackError("invalid_blocks_format")
    if len(blocks) > most:
        raise SlackError(error, f"no more than {most} items allowed [json-pointer:/blocks]")
    if problems := list(_problems(blocks)):
        raise SlackError(error, *problems)
    if error == "invalid_blocks" and _length(blocks) > MAX_BLOCK_TEXT:
        raise SlackError("msg_blocks_too_long")


def _length(blocks: list[Json]) -> int:
    return sum(len(surface.text) for surface in surfaces(blocks))


def _problems(blocks: list[Json]) -> Problems:
    ids = [block["block_id"] for block in blocks if block.get("block_id")]
    if len(ids) != len(set(ids)):
        yield "`block_id` already exists in the message"
    for index, block in enumerate(blocks):
        for problem in _problems_of(block):
            yield f"{problem} [json-pointer:/blocks/{index}]"


def _problems_of(block: Json) -> Problems:
    if len(str(block.get("block_id", ""))) > 255:
        yield "block_id must be less than 256 characters"
    kind = block.get("type")
    check = _BLOCKS.get(str(kind))
    if check is None:
        yield f"unsupported block: {kind}"
        return
    yield from check(block)
    actions = [e["action_id"] for e in block.get("elements", ()) if e.get("action_id")]
    if len(actions) != len(set(actions)):
        yield "`action_id` already exists in the block"


def _section(block: Json) -> Problems:
    if "text" not in block and "fields" not in block:
        yield "missing required field: text"
    if "text" in block:
        yield from check_text(block["text"], 3000)
    if len(block.get("fields", ())) > 10:
        yield "no more than 10 items allowed"
    for each in block.get("fields", ()):
        yield from check_text(each, 2000)
    if "accessory" in block:
        yield from check_element(block["accessory"])


def _header(block: Json) -> Problems:
    yield from check_plain(block.get("text"), 150)


def _markdown(block: Json) -> Problems:
    text = block.get("text")
    if not isinstance(text, str) or not text:
        yield "must be more than 0 characters"
    elif len(text) > MAX_MARKDOWN:
        yield f"must be less than {MAX_MARKDOWN + 1} characters"


def _elements(most: int, kinds: frozenset[str]) -> Callable[[Json], Problems]:
    def check(block: Json) -> Problems:
        elements = block.get("elements")
        if not isinstance(elements, list) or not 1 <= len(elements) <= most:
            yield f"must have between 1 and {most} elements"
            return
        for element in elements:
            if element.get("type") not in kinds:
                yield f"unsupported element: {element.get('type')}"
            elif element["type"] in {"plain_text", "mrkdwn"}:
                yield from check_text(element, 3000)
            else:
                yield from check_element(element)

    return check


def _input(block: Json) -> Problems:
    yield from check_plain(block.get("label"), 2000)
    if "hint" in block:
        yield from check_plain(block["hint"], 2000)
    yield from check_element(block.get("element", {}))


def _image(block: Json) -> Problems:
    if not (block.get("image_url") or block.get("slack_file")):
        yield "missing required field: image_url"
    if not 1 <= len(str(block.get("alt_text", ""))) <= 2000:
        yield "alt_text must be between 1 and 2000 characters"


def _task_card(block: Json) -> Problems:
    if not block.get("task_id") or not block.get("title"):
        yield "missing required field: task_id or title"
    if block.get("status") not in {"pending", "in_progress", "complete", "error"}:
        yield "status must be a valid enum value"


def _anything(_: Json) -> Problems:
    yield from ()


_BLOCKS: dict[str, Callable[[Json], Problems]] = {
    "section": _section,
    "header": _header,
    "markdown": _markdown,
    "context": _elements(10, frozenset({"plain_text", "mrkdwn", "image"})),
    "actions": _elements(25, INTERACTIVE),
    "context_actions": _elements(5, frozenset({"feedback_buttons", "icon_button"})),
    "input": _input,
    "image": _image,
    "task_card": _task_card,
    **dict.fromkeys(
        (
            "divider",
            "rich_text",
            "table",
            "data_table",
            "data_visualization",
            "plan",
            "alert",
            "card",
            "carousel",
            "container",
            "file",
            "video",
        ),
        _anything,
    ),
}
