"""What stands in the fake Discord: people, servers, channels, messages."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Literal

from discord import Permissions

from bot.values import Json

EPHEMERAL, HAS_THREAD, LOADING, COMPONENTS_V2 = 1 << 6, 1 << 5, 1 << 7, 1 << 15
THREAD_STARTER = 21
BUTTON, TEXT_INPUT, TEXT_DISPLAY = 2, 4, 10

#: What everyone may do in a new server. As in a real one, that is to ping everybody too.
USUAL = (
    "view_channel send_messages send_messages_in_threads create_public_threads embed_links "
    "create_private_threads attach_files add_reactions read_message_history mention_everyone "
    "use_application_commands use_external_emojis change_nickname connect speak"
)

#: A user's id, a role's id, or all of them (`@everyone` and `@here`).
Pinged = int | Literal["everyone"]


def bits(names: str) -> int:
    """Return permissions, as discord.py names them, as a number."""
    return Permissions(**dict.fromkeys(names.split(), True)).value


class Kind(IntEnum):
    """What a channel is."""

    TEXT = 0
    DM = 1
    VOICE = 2
    CATEGORY = 4
    NEWS = 5
    NEWS_THREAD = 10
    THREAD = 11
    PRIVATE_THREAD = 12
    FORUM = 15

    @property
    def is_thread(self) -> bool:
        """Whether it stands below another channel."""
        return self in {Kind.NEWS_THREAD, Kind.THREAD, Kind.PRIVATE_THREAD}


@dataclass(eq=False)
class User:
    """Somebody's account.

    Attributes:
        closed: Direct messages from the bot are refused.
    """

    id: int
    name: str
    bot: bool = False
    closed: bool = False
    opening_refused: bool = False

    @property
    def mention(self) -> str:
        """The text that mentions them."""
        return f"<@{self.id}>"


@dataclass(eq=False)
class Role:
    """A role in a server."""

    id: int
    name: str
    permissions: int = 0
    mentionable: bool = False
    position: int = 1

    @property
    def mention(self) -> str:
        """The text that mentions everybody who has it."""
        return f"<@&{self.id}>"


@dataclass(eq=False)
class Member:
    """Somebody in a server."""

    user: User
    roles: list[Role] = field(default_factory=list)


@dataclass(eq=False)
class Guild:
    """A server.

    Attributes:
        on_change: Told the channel of which, or the role whose, permissions changed.
    """

    id: int
    name: str
    owner: User
    bot: User
    everyone: Role
    on_change: Callable[["Guild", "Channel | Role"], None]
    members: dict[int, Member] = field(default_factory=dict)
    roles: dict[int, Role] = field(default_factory=dict)

    @property
    def has_bot(self) -> bool:
        """Whether the bot is a member."""
        return self.bot.id in self.members

    def deny(self, channel: "Channel | None", names: str) -> None:
        """Forbid the bot something in one channel, or everyone in the whole server."""
        if channel is None:
            self.everyone.permissions &= ~bits(names)
        else:
            channel.denied |= bits(names)
        self.on_change(self, channel or self.everyone)

    def allow(self, channel: "Channel | None", names: str) -> None:
        """Take back what was denied."""
        if channel is None:
            self.everyone.permissions |= bits(names)
        else:
            channel.denied &= ~bits(names)
        self.on_change(self, channel or self.everyone)

    def permissions(self, user: User, channel: "Channel") -> int:
        """Return what somebody may do in a channel of this server."""
        member = self.members.get(user.id)
        if member is None:
            return 0
        if user is self.owner:
            return Permissions.all().value
        found = self.everyone.permissions
        for role in member.roles:
            found |= role.permissions
        if found & bits("administrator"):
            return Permissions.all().value
        if user is self.bot:
            found &= ~channel.room.denied
        return found if found & bits("view_channel") else 0


@dataclass(eq=False)
class Channel:
    """A channel, a thread, a direct message or a category.

    Attributes:
        denied: What the bot may not do in it.
        readers: The only people who may see it, beside the bot; in a private thread its members.
            `None` for everyone.
        shut_out: Ids of those who may not see it, although everyone may.
        typing: How often the bot showed that it types.
    """

    id: int
    kind: Kind
    name: str = ""
    guild: Guild | None = None
    parent: "Channel | None" = None
    recipient: User | None = None
    owner: User | None = None
    denied: int = 0
    readers: set[int] | None = None
    shut_out: set[int] = field(default_factory=set)
    archived: bool = False
    locked: bool = False
    deleted: bool = False
    auto_archive: int = 1440
    typing: int = 0
    position: int = 0
    messages: dict[int, "Message"] = field(default_factory=dict)

    @property
    def mention(self) -> str:
        """The text that mentions it."""
        return f"<#{self.id}>"

    @property
    def room(self) -> "Channel":
        """The channel whose permissions count: for a thread the one above it."""
        return self.parent if self.kind.is_thread and self.parent else self


@dataclass(eq=False)
class File:
    """A file that hangs on a message."""

    id: int
    name: str
    content: bytes
    media_type: str = ""
    description: str = ""


@dataclass(eq=False)
class Message:
    """A message as it stands now.

    Attributes:
        kind: 0 or 19 (a reply) is what somebody says; all others are Discord's own.
        nonce: With which it was sent.
        allowed_mentions: Of the payload that made it; `None` if there was none.
        pings: Who was really notified when it was sent.
        edit_pings: Who would stand in it as mentioned by its edits. (An edit notifies nobody.)
        reference: The id of the message that it answers.
        edits: How often it was edited.
        old: Discord refuses to edit it any more (30046).
        forwards: Texts of messages that it forwards.
        interaction: The id of the interaction whose answer it is; 0 for none.
    """

    id: int
    channel: Channel
    author: User
    content: str = ""
    forwards: tuple[str, ...] = ()
    kind: int = 0
    flags: int = 0
    components: list[Json] = field(default_factory=list)
    embeds: list[Json] = field(default_factory=list)
    attachments: list[File] = field(default_factory=list)
    reactions: dict[str, list[int]] = field(default_factory=dict)
    nonce: str = ""
    allowed_mentions: Json | None = None
    mentions: list[User] = field(default_factory=list)
    pings: set[Pinged] = field(default_factory=set)
    edit_pings: set[Pinged] = field(default_factory=set)
    reference: int = 0
    edits: int = 0
    deleted: bool = False
    old: bool = False
    webhook: bool = False
    interaction: int = 0
    thread: Channel | None = None
    history: list[str] = field(default_factory=list)

    @property
    def author_id(self) -> int:
        """Who said it."""
        return self.author.id

    @property
    def ephemeral(self) -> bool:
        """Whether one user alone sees it."""
        return bool(self.flags & EPHEMERAL)

    @property
    def loading(self) -> bool:
        """Whether it says “… is thinking”."""
        return bool(self.flags & LOADING)

    @property
    def answered(self) -> "Message | None":
        """The message to which it refers, if it is still there."""
        # The first message of a thread refers to the one above it.
        channel = self.channel.parent if self.kind == THREAD_STARTER else self.channel
        return channel.messages.get(self.reference) if channel else None

    @property
    def files(self) -> list[tuple[str, bytes]]:
        """Names and contents of its files."""
        return [(file.name, file.content) for file in self.attachments]

    def texts(self) -> list[str]:
        """Return its content and all its text displays, in order."""
        shown = [part["content"] for part in parts(self.components) if part["type"] == TEXT_DISPLAY]
        return [self.content, *shown] if self.content else shown

    def text(self) -> str:
        """Return all that a user reads in it."""
        return "\n".join(self.texts())

    def button(self, label: str) -> Json:
        """Return a button by its label or custom id.

        Raises:
            AssertionError: There is none.
        """
        for part in parts(self.components):
            if part["type"] == BUTTON and label in {part.get("label"), part.get("custom_id")}:
                return part
        raise AssertionError(f"There is no button {label!r}, only {self.buttons()}.")

    def buttons(self) -> list[str]:
        """Return the labels of its buttons that can be clicked."""
        return [
            part.get("label") or part.get("custom_id", "")
            for part in parts(self.components)
            if part["type"] == BUTTON and not part.get("disabled")
        ]


def parts(components: list[Json]) -> Iterator[Json]:
    """Find all components, those inside others included, in order."""
    for component in components:
        yield component
        yield from parts(component.get("components") or [])
        yield from parts([component[key] for key in ("accessory", "component") if key in component])
