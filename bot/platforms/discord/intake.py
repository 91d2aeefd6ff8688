"""Hears what people say on Discord: which messages are meant for the bot, and what they say."""

import logging
import re
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import discord

from bot.errors import BotError, DatabaseUnreachableError, DeliveryError
from bot.platforms.base import CommandReply, Ears, Incoming
from bot.platforms.catch_up import CatchUp
from bot.platforms.discord import answers, registration
from bot.platforms.discord.answers import Asker
from bot.platforms.discord.attachments import attached
from bot.platforms.discord.client import RetinueClient
from bot.platforms.discord.interactions import UNSENT, outcome, person_of, spot_of
from bot.platforms.discord.people import PLATFORM, Spot, identity_of, place_of
from bot.platforms.discord.questions import settle_in_words
from bot.platforms.discord.sending import Sender
from bot.platforms.discord.settings import DiscordSettings
from bot.platforms.past import Attached, Quoted, message_key
from bot.platforms.reception import NO_TEXT, TROUBLE, Lines
from bot.platforms.storing import AGAIN, GIVEN_UP, PAUSES, until_stored
from bot.tasks import Tasks
from bot.values import Place

log = logging.getLogger(__name__)

#: How long what was heard may still be worked on when nothing more is heard.
SETTLE_SECONDS = 5.0
KNOWN_CHANNELS = 1_000

OpensCatchUp = Callable[[Ears], CatchUp]

HIDDEN = (
    "Discord does not show me messages that do not mention me, so I cannot read this. Mention me "
    "in each message, or ask the people who run me to switch on the Message Content Intent."
)


@dataclass(frozen=True, slots=True)
class Said:
    """A message as it was when it came: the library changes its own when people edit theirs.

    Attributes:
        addressed: It is for us without doubt.
        hidden: Discord keeps the text from us.
    """

    message: discord.Message
    ears: Ears
    addressed: bool
    hidden: bool
    text: str
    files: tuple[Attached, ...]
    quoted: tuple[Quoted, ...]


class DiscordIntake:
    """Listens to the gateway, and hands on what is meant for the bot.

    What changes afterwards changes nothing: an edited message stays as it was heard, a deleted one
    is answered all the same.

    Args:
        client: Logged in; its commands and buttons are registered already.
        tasks: Owns what is worked on while the gateway goes on.
        catch_up: Makes what reads messages that were missed; nothing does if `None`.
        pauses: How long to wait before each further attempt at handing on what was said.
    """

    platform = PLATFORM

    def __init__(
        self,
        client: RetinueClient,
        tasks: Tasks,
        *,
        catch_up: OpensCatchUp | None = None,
        pauses: tuple[float, ...] = PAUSES,
    ) -> None:
        self._client = client
        self._sender = Sender(client)
        self._tasks = tasks
        self._catch_up = catch_up
        self._pauses = pauses
        self._lines = Lines(tasks, client.reception)
        self._fetched: OrderedDict[int, object] = OrderedDict()

    async def run(self, ears: Ears) -> None:
        """Listen until cancelled.

        Raises:
            ConfigError: Discord will not have us; the text says why, and what to do.
        """
        self._client.event(self.on_message)
        beside = [self._tasks.start(registration.sync(self._client), name="register commands")]
        if self._catch_up is not None:
            catch_up = self._catch_up(ears)
            self._client.new_session = catch_up.missed
            beside.append(self._tasks.start(catch_up.run(), name="catch up"))
        try:
            await self._client.listen(ears)
        finally:
            for task in beside:
                task.cancel()
            await self._client.reception.settle(SETTLE_SECONDS)

    async def on_message(self, message: discord.Message) -> None:
        """Take a message if it may be meant for the bot; never waits, so that order is kept."""
        ears, me = self._client.ears, self._client.user
        if ears is None or me is None or not was_said_by_a_person(message):
            return
        addressed = is_addressed(message, me.id)
        if not addressed and not may_go_on(message):
            return
        if not self._client.reception.first(("message", message.id)):
            log.info("The message %s was delivered again", message.id)
            return
        said = Said(
            message,
            ears,
            addressed=addressed,
            hidden=self._is_hidden(message),
            text=text_of(message, me),
            files=attached(files_of(message), self._client.settings.api_url),
            quoted=quoted_in(message, me.id, whole=not text_of(message, me)),
        )
        key = (message.author.id, message.channel.id)
        self._lines.start(key, self._take(said), name=f"message {message.id}")

    async def _take(self, said: Said) -> None:
        try:
            if (reply := await self._hand_on(said)) is not None:
                text = answers.with_more(reply)
                await self._reply(said.message, text, private=reply.private)
                if reply.answered:
                    words = reply.chosen or said.text
                    await settle_in_words(
                        self._sender, said.message, asked=reply.answered, said=words
                    )
        except Exception:
            log.exception("The message %s could not be handled", said.message.id)
            await self._reply(said.message, TROUBLE)

    async def _reply(
        self, message: discord.Message, text: str, *, private: bool = False, first: bool = False
    ) -> None:
        """Answer a message; `first` is said before the answer, which Discord would else drop."""
        asker = Asker(
            key=f"waiting {message.id}" if first else f"message {message.id}",
            account=str(message.author.id),
            channel=str(message.channel.id),
            message=str(message.id),
            shared=not isinstance(message.channel, discord.DMChannel),
        )
        try:
            await answers.answer(self._sender, asker, text, private=private)
        except DeliveryError as error:
            log.warning("The reply to message %s is lost: %s", message.id, error)

    async def _hand_on(self, said: Said) -> CommandReply | None:
        """Hand a message on; while the database is out of reach, again."""

        async def waits(number: int, error: DatabaseUnreachableError) -> None:
            if number == 0 and said.addressed:
                await self._reply(said.message, f"{error} {AGAIN}", first=True)

        try:
            return await until_stored(lambda: self._answer(said), waits, pauses=self._pauses)
        except DatabaseUnreachableError as error:
            if said.addressed:
                return CommandReply(text=GIVEN_UP.format(reason=error), failed=True)
            # What is read after a gap finds it as something new.
            self._client.reception.forget(("message", said.message.id))
            return None

    async def _answer(self, said: Said) -> CommandReply | None:
        """Hand a message on; return what is to be said at once, if anything."""
        message, reception = said.message, self._client.reception
        person, spot = person_of(message.author), await self._spot_of(message)
        if refusal := reception.refusal(person, spot):
            tell = said.addressed and not refusal.silent
            if tell and reception.may_tell(person.account, spot.thread or spot.channel):
                return CommandReply(text=refusal.text, failed=True)
            return None
        if not said.addressed and not await self._listens(said, spot):
            return None
        if said.hidden:
            first = said.addressed or reception.first(("hidden", spot.thread))
            return CommandReply(text=HIDDEN, failed=True) if first else None
        only_mention = bool(message.content.strip()) and not said.hidden
        if not (said.text or said.files or said.quoted or only_mention):
            return CommandReply(text=NO_TEXT, failed=True) if said.addressed else None
        incoming = Incoming(
            event_id=message_key("", str(message.channel.id), str(message.id)),
            user=identity_of(person.account),
            user_name=message.author.display_name,
            place=self._place_of(message, spot),
            text=said.text,
            files=said.files,
            quoted=said.quoted,
            only_mention=only_mention and not said.text,
            admin=reception.is_admin(person),
            reply_to=reply_to_of(message),
        )
        return await outcome(said.ears.hear(incoming), f"message {message.id}", patient=True)

    async def _listens(self, said: Said, spot: Spot) -> bool:
        if not spot.thread:
            return False
        try:
            return await said.ears.listens(identity_of(said.message.author.id), place_of(spot))
        except DatabaseUnreachableError:
            raise
        except BotError as error:
            log.warning("Whether message %s is for us is unknown: %s", said.message.id, error)
            return False

    # -- where -----------------------------------------------------------------------------------

    async def _spot_of(self, message: discord.Message) -> Spot:
        guild_id = message.guild.id if message.guild else getattr(message.channel, "guild_id", None)
        channel: object = message.channel
        if isinstance(channel, discord.PartialMessageable) and guild_id:
            channel = await self._fetch(channel)
        return spot_of(channel, guild_id)

    async def _fetch(self, channel: discord.PartialMessageable) -> object:
        """Return a channel that Discord has not told us about, a thread that slept for instance."""
        if channel.id not in self._fetched:
            try:
                self._fetched[channel.id] = await self._client.fetch_channel(channel.id)
            except UNSENT as error:
                log.info("The channel %s is unknown: %s", channel.id, error)
                return channel
            if len(self._fetched) > KNOWN_CHANNELS:
                self._fetched.popitem(last=False)
        return self._fetched[channel.id]

    def _place_of(self, message: discord.Message, spot: Spot) -> Place:
        if opens_thread(self._client.settings, message.channel):
            # The thread that is opened for a message has its id.
            spot = Spot(guild=spot.guild, channel=spot.channel, thread=str(message.id))
        return place_of(spot, str(message.id))

    # -- what ------------------------------------------------------------------------------------

    def _is_hidden(self, message: discord.Message) -> bool:
        """Whether Discord keeps the text from us: it is only shown where we are mentioned."""
        seen = message.guild is None or self._client.hears_content
        return not (seen or message.content or self._client.user in message.mentions)


def was_said_by_a_person(message: discord.Message) -> bool:
    """Whether somebody said this: no bot, no webhook, not Discord itself."""
    said = message.type in {discord.MessageType.default, discord.MessageType.reply}
    return said and not message.author.bot and message.webhook_id is None


def is_addressed(message: discord.Message, me: int) -> bool:
    """Whether a message is for us: a direct message, or one that mentions or answers us."""
    if message.guild is None and isinstance(message.channel, discord.DMChannel):
        return True
    if any(user.id == me for user in message.mentions):
        return True
    role = message.guild.self_role if message.guild else None
    return (role is not None and role in message.role_mentions) or _answered(message) == me


def may_go_on(message: discord.Message) -> bool:
    """Whether a message without a mention may go on with a talk: in a thread, to nobody else."""
    in_a_thread = isinstance(message.channel, discord.Thread | discord.PartialMessageable)
    to_another = re.match(r"\s*<@!?\d+>", message.content) or _answered(message) is not None
    return in_a_thread and not to_another


def text_of(message: discord.Message, me: discord.ClientUser | None) -> str:
    """Return what a message says to us, less that it says so."""
    names = [f"<@{me.id}>", f"<@!{me.id}>"] if me else []
    if message.guild is not None and (role := message.guild.self_role) is not None:
        names.append(f"<@&{role.id}>")
    return without_names(message.content, names, me.display_name if me else "")


def without_names(text: str, names: list[str], own: str) -> str:
    """Return a text without our names at its ends; elsewhere our own name is put for them."""
    if not names:
        return text.strip()
    name = "|".join(map(re.escape, names))
    text = re.sub(rf"\A\s*(?:(?:{name})[\s,:]*)+", "", text)
    text = re.sub(rf"(?:\s*(?:{name}))+\s*\Z", "", text)
    return re.sub(name, lambda _: f"@{own}", text).strip()


def quoted_in(message: discord.Message, me: int, *, whole: bool = False) -> tuple[Quoted, ...]:
    """Return what came with a message and was written by others: forwards, and what it replies to.

    What the bot or the user wrote is in the conversation already; `whole` quotes it all the same,
    for a message without words of its own.
    """
    found = [Quoted("forwarded", each.content) for each in message.message_snapshots]
    replied_to = message.reference.resolved if message.reference else None
    is_reply = message.type is discord.MessageType.reply
    if is_reply and isinstance(replied_to, discord.Message):
        of_others = whole or replied_to.author.id not in {me, message.author.id}
        forwarded = [each.content for each in replied_to.message_snapshots]
        texts = [replied_to.content, *forwarded] if of_others else forwarded
        found += [Quoted("replied_to", text) for text in texts]
    return tuple(each for each in found if each.text.strip())


def _answered(message: discord.Message) -> int | None:
    """Return whose message this one answers."""
    if message.type is not discord.MessageType.reply or message.reference is None:
        return None
    resolved = message.reference.resolved
    return resolved.author.id if isinstance(resolved, discord.Message) else None


def reply_to_of(message: discord.Message) -> str:
    """Return the id of the message that this one answers; empty for none."""
    if message.type is not discord.MessageType.reply or message.reference is None:
        return ""
    return str(message.reference.message_id or "")


def files_of(message: discord.Message) -> list[discord.Attachment]:
    """Return the files of a message, and of those that it forwards."""
    forwarded = [file for each in message.message_snapshots for file in each.attachments]
    return [*message.attachments, *forwarded]


def opens_thread(settings: DiscordSettings, channel: object) -> bool:
    """Return whether a message there is answered in a thread of its own."""
    return settings.threads and isinstance(channel, discord.TextChannel) and _lets(channel)


def _lets(channel: discord.TextChannel) -> bool:
    """Whether we may open a thread there, as far as we know."""
    me: discord.Member | None = channel.guild.me
    if me is None:
        return True
    permissions = channel.permissions_for(me)
    return permissions.create_public_threads and permissions.send_messages_in_threads
