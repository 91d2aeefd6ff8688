"""Channels and the messages in them, as they stand there now."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from bot.values import Json
from tests.fakes.slack.delivery import Delivery
from tests.fakes.slack.shapes import APP_ID, File, Team, User
from tests.fakes.slack.texts import (
    Names,
    Surface,
    masked_links,
    may_see,
    pings,
    read_block,
    shown,
    surfaces,
)

ChannelKind = Literal["channel", "group", "im", "mpim"]


@dataclass(eq=False, slots=True, repr=False)
class Channel:
    """A conversation of any kind.

    Attributes:
        members: Ids of people and bots.
        shared_with: Other teams whose people are in it (Slack Connect).
        gone: Deleted.
    """

    id: str
    name: str
    kind: ChannelKind
    team: Team
    members: set[str]
    archived: bool = False
    gone: bool = False
    shared_with: list[Team] = field(default_factory=list)
    messages: dict[str, "Message"] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<#{self.name} {self.id}>"

    def to_json(self) -> Json:
        """Return it as `conversations.info` does."""
        return {
            "id": self.id,
            "name": self.name,
            "is_channel": self.kind == "channel",
            "is_group": self.kind == "group",
            "is_im": self.kind == "im",
            "is_mpim": self.kind == "mpim",
            "is_private": self.kind != "channel",
            "is_archived": self.archived,
            "is_ext_shared": bool(self.shared_with),
            "context_team_id": self.team.id,
            "topic": {"value": "", "creator": "", "last_set": 0},
        }


@dataclass(slots=True)
class Stream:
    """What makes a message one that is streamed.

    Attributes:
        started: On the monotonic clock.
        chunked: Whether its text comes in chunks; unknown before the first.
        end: Why it takes nothing more; empty while it does.
    """

    started: float
    recipient: str
    chunked: bool | None = None
    end: Literal["", "stopped", "expired", "stopped_by_user"] = ""
    tasks: dict[str, Json] = field(default_factory=dict)
    plan: str = ""


@dataclass(frozen=True, slots=True)
class Button:
    """Something in a message or a view that can be clicked."""

    label: str
    action_id: str
    block_id: str
    element: Json

    @property
    def value(self) -> str:
        return str(self.element.get("value", ""))

    @property
    def confirm(self) -> Json | None:
        """The dialog that Slack shows before it tells the app."""
        found: Json | None = self.element.get("confirm")
        return found


@dataclass(eq=False, slots=True, repr=False)
class Message:
    """A message as it stands there now.

    Attributes:
        thread_ts: The root of its thread, for a reply; empty for a message of the channel.
        markdown: What came as `markdown_text`, or was streamed.
        visible_to: The id of the one user who sees it, when it is ephemeral.
        claimed: It is the answer to something in particular.
        edits: How often it was changed.
        truncated: Slack cut its text.
        unfurl_links: As the sender said; `None` leaves it to Slack, which then unfurls.
        events: What Slack told the app about it.
    """

    channel: Channel
    ts: str
    user: User
    names: Names
    text: str = ""
    thread_ts: str = ""
    blocks: list[Json] = field(default_factory=list)
    markdown: str = ""
    attachments: list[Json] = field(default_factory=list)
    files: list[File] = field(default_factory=list)
    metadata: Json = field(default_factory=dict)
    reactions: dict[str, set[str]] = field(default_factory=dict)
    stream: Stream | None = None
    visible_to: str = ""
    claimed: bool = False
    subtype: str = ""
    edits: int = 0
    edited_ts: str = ""
    deleted: bool = False
    truncated: bool = False
    broadcast: bool = False
    link_names: bool = False
    parse: str = ""
    unfurl_links: bool | None = None
    unfurl_media: bool | None = None
    events: list[Delivery] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"<{self.user.name} in #{self.channel.name} {self.ts}: {self.readable()!r}>"

    @property
    def streaming(self) -> bool:
        """Whether it still grows."""
        return self.stream is not None and not self.stream.end

    @property
    def permalink(self) -> str:
        """The address that “Copy link” gives."""
        address = f"https://{self.channel.team.domain}.slack.com/archives/{self.channel.id}"
        inside = f"?thread_ts={self.thread_ts}&cid={self.channel.id}" if self.thread_ts else ""
        return f"{address}/p{self.ts.replace('.', '')}{inside}"

    @property
    def root_ts(self) -> str:
        """The thread that it is in or would begin."""
        return self.thread_ts or self.ts

    @property
    def surfaces(self) -> Iterator[Surface]:
        """Every text of it, as Slack parses it; titles of files count as parsed."""
        tasks = list(self.stream.tasks.values()) if self.stream else []
        return itertools.chain(
            [Surface("mrkdwn", self.text), Surface("markdown", self.markdown)],
            surfaces(self.blocks),
            surfaces(self.attachments),
            surfaces(tasks),
            [Surface("mrkdwn", self.stream.plan if self.stream else "")],
            (Surface("mrkdwn", part) for file in self.files for part in (file.title, file.name)),
        )

    @property
    def pings(self) -> list[str]:
        """Whom it would notify: `<!channel>`, `<!subteam^S1>`, `<@U1>`, each once."""
        return pings(self.surfaces, self.names, by_name=self.link_names or self.parse == "full")

    @property
    def masked_links(self) -> list[tuple[str, str]]:
        """(label, address) of links whose label is not their address."""
        return masked_links(self.surfaces)

    def readable(self, viewer: User | None = None) -> str:
        """Return what a user reads: the blocks, or else the text, and the names of files."""
        whom = viewer.id if viewer else ""
        parts = [read_block(block, self.names, whom) for block in self.blocks]
        if not self.blocks and not self.markdown:
            parts.append(shown(self.text, self.names))
        parts.insert(0, shown(self.markdown, self.names))
        parts += [f"[file {file.title or file.name}]" for file in self.files]
        return "\n".join(part for part in parts if part)

    def buttons(self, viewer: User | None = None) -> list[Button]:
        """Return what can be clicked here, by this user."""
        found = buttons(self.blocks)
        return [b for b in found if viewer is None or may_see(b.element, viewer.id)]

    def to_json(self) -> Json:
        """Return it as the Web API and events carry it."""
        document: Json = {
            "type": "message",
            "user": self.user.id,
            "ts": self.ts,
            "team": self.user.team.id,
            "text": self.text or self.markdown,
            "blocks": self.blocks,
        }
        optional = {
            "thread_ts": self.thread_ts,
            "subtype": self.subtype,
            "attachments": self.attachments,
            "metadata": self.metadata,
            "files": [file.to_json() for file in self.files],
        }
        document |= {key: value for key, value in optional.items() if value}
        if self.user.is_bot:
            profile = {"id": self.user.bot_id, "app_id": APP_ID, "name": self.user.name}
            document |= {"bot_id": self.user.bot_id, "app_id": APP_ID, "bot_profile": profile}
        if self.edited_ts:
            document["edited"] = {"user": self.user.id, "ts": self.edited_ts}
        if self.reactions:
            document["reactions"] = [
                {"name": name, "users": sorted(users), "count": len(users)}
                for name, users in self.reactions.items()
            ]
        return document


def buttons(blocks: list[Json]) -> list[Button]:
    """Find everything that can be clicked or chosen in blocks."""
    return [
        Button(_label(element), element["action_id"], block["block_id"], element)
        for block in blocks
        for element in (*block.get("elements", ()), block.get("accessory"), block.get("element"))
        if isinstance(element, dict) and "action_id" in element
    ]


def _label(element: Json) -> str:
    text = element.get("text") or element.get("placeholder") or {}
    return str(text.get("text", "")) if isinstance(text, dict) else str(text)
