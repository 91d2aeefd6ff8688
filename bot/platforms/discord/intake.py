"""Receives Discord messages, selects those for the bot and passes them to the core."""

import logging
import re
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import discord

from bot.errors import BotError, DatabaseUnreachableError, DeliveryError
from bot.platforms.base import CommandReply, InboundHandler, Incoming
from bot.platforms.discord import answers, registration
from bot.platforms.discord.answers import Recipient
from bot.platforms.discord.attachments import attached
from bot.platforms.discord.client import RetinueClient
from bot.platforms.discord.interactions import UNSENT, outcome, person_of, spot_of
from bot.platforms.discord.people import PLATFORM, DiscordLocation, identity_of, place_of
from bot.platforms.discord.questions import settle_in_words
from bot.platforms.discord.sending import Sender
from bot.platforms.discord.settings import DiscordSettings
from bot.platforms.messages import Attachment, Quoted, message_key
from bot.platforms.messaging.catch_up import CatchUp
from bot.platforms.messaging.intake import (
    AGAIN,
    GIVEN_UP,
    NO_TEXT,
    STORE_PAUSES,
    TROUBLE,
    KeyedQueue,
    retry_until_stored,
)
from bot.tasks import Tasks
from bot.values import Place

log = logging.getLogger(__name__)

#: Grace period for messages in progress after the gateway has closed.
SETTLE_SECONDS = 5.0
KNOWN_CHANNELS = 1_000

OpensCatchUp = Callable[[InboundHandler], CatchUp]

HIDDEN = (
    "Discord does not show me messages that do not mention me, so I cannot read this. Mention me "
    "in each message, or ask the people who run me to switch on the Message Content Intent."
)


@dataclass(frozen=True, slots=True)
class Said:
    """A snapshot of a message on arrival; the library updates its own objects on edits.

    Attributes:
        addressed: Whether the message is certainly for the bot.
        hidden: Whether Discord withholds the text.
    """

    message: discord.Message
    inbound: InboundHandler
    addressed: bool
    hidden: bool
    text: str
    files: tuple[Attachment, ...]
    quoted: tuple[Quoted, ...]


class DiscordIntake:
    """Listens to the gateway and passes messages for the bot to the core.

    Later changes have no effect: edits are ignored, and deleted messages are still answered.

    Args:
        client: A logged-in client with its commands and buttons registered.
        tasks: Owns the tasks that handle messages.
        catch_up: Opens the catch-up of missed messages; `None` to skip it.
        pauses: Pauses before the retries of passing a message on, in seconds.
    """

    platform = PLATFORM

    def __init__(
        self,
        client: RetinueClient,
        tasks: Tasks,
        *,
        catch_up: OpensCatchUp | None = None,
        pauses: tuple[float, ...] = STORE_PAUSES,
    ) -> None:
        self._client = client
        self._sender = Sender(client)
        self._tasks = tasks
        self._catch_up = catch_up
        self._pauses = pauses
        self._lines = KeyedQueue(tasks, client.reception)
        self._fetched: OrderedDict[int, object] = OrderedDict()

    async def run(self, inbound: InboundHandler) -> None:
        """Listen until cancelled.

        Raises:
            ConfigError: Discord refuses the connection; the text gives the reason and the fix.
        """
        self._client.event(self.on_message)
        syncing = registration.sync(self._client, inbound.command_table)
        beside = [self._tasks.start(syncing, name="register commands")]
        if self._catch_up is not None:
            catch_up = self._catch_up(inbound)
            self._client.new_session = catch_up.missed
            beside.append(self._tasks.start(catch_up.run(), name="catch up"))
        try:
            await self._client.listen(inbound)
        finally:
            for task in beside:
                task.cancel()
            await self._client.reception.settle(SETTLE_SECONDS)

    async def on_message(self, message: discord.Message) -> None:
        """Queue a message that may be for the bot. Never waits, so that the order is preserved."""
        inbound, me = self._client.inbound, self._client.user
        if inbound is None or me is None or not is_from_user(message):
            return
        addressed = is_addressed(message, me.id)
        if not addressed and not may_go_on(message):
            return
        if not self._client.reception.first(("message", message.id)):
            log.info("The message %s was delivered again", message.id)
            return
        said = Said(
            message,
            inbound,
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
        """Reply to a message.

        A notice before the answer has `first` set and thus a key of its own: with the same key,
        Discord would drop the answer as a repetition.
        """
        recipient = Recipient(
            key=f"waiting {message.id}" if first else f"message {message.id}",
            account=str(message.author.id),
            channel=str(message.channel.id),
            message=str(message.id),
            shared=not isinstance(message.channel, discord.DMChannel),
        )
        try:
            await answers.answer(self._sender, recipient, text, private=private)
        except DeliveryError as error:
            log.warning("The reply to message %s is lost: %s", message.id, error)

    async def _hand_on(self, said: Said) -> CommandReply | None:
        """Pass a message to the core; retry while the database is unreachable."""

        async def waits(number: int, error: DatabaseUnreachableError) -> None:
            if number == 0 and said.addressed:
                await self._reply(said.message, f"{error} {AGAIN}", first=True)

        try:
            return await retry_until_stored(lambda: self._answer(said), waits, pauses=self._pauses)
        except DatabaseUnreachableError as error:
            if said.addressed:
                return CommandReply(text=GIVEN_UP.format(reason=error), failed=True)
            # Lets the next catch-up receive the message as a new one.
            self._client.reception.forget(("message", said.message.id))
            return None

    async def _answer(self, said: Said) -> CommandReply | None:
        """Pass a message to the core; return the immediate reply, if any."""
        message, reception = said.message, self._client.reception
        person, spot = person_of(message.author), await self._spot_of(message)
        if refusal := reception.refusal(person, spot):
            tell = said.addressed and not refusal.silent
            if tell and reception.may_notify(person.account, spot.thread or spot.channel):
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
        return await outcome(said.inbound.receive(incoming), f"message {message.id}", patient=True)

    async def _listens(self, said: Said, spot: DiscordLocation) -> bool:
        if not spot.thread:
            return False
        try:
            return await said.inbound.listens(identity_of(said.message.author.id), place_of(spot))
        except DatabaseUnreachableError:
            raise
        except BotError as error:
            log.warning("Whether message %s is for us is unknown: %s", said.message.id, error)
            return False

    # -- places ----------------------------------------------------------------------------------

    async def _spot_of(self, message: discord.Message) -> DiscordLocation:
        guild_id = message.guild.id if message.guild else getattr(message.channel, "guild_id", None)
        channel: object = message.channel
        if isinstance(channel, discord.PartialMessageable) and guild_id:
            channel = await self._fetch(channel)
        return spot_of(channel, guild_id)

    async def _fetch(self, channel: discord.PartialMessageable) -> object:
        """Return a channel that the library does not know yet, such as an archived thread."""
        if channel.id not in self._fetched:
            try:
                self._fetched[channel.id] = await self._client.fetch_channel(channel.id)
            except UNSENT as error:
                log.info("The channel %s is unknown: %s", channel.id, error)
                return channel
            if len(self._fetched) > KNOWN_CHANNELS:
                self._fetched.popitem(last=False)
        return self._fetched[channel.id]

    def _place_of(self, message: discord.Message, spot: DiscordLocation) -> Place:
        if opens_thread(self._client.settings, message.channel):
            # A thread that is opened for a message has the message's id.
            spot = DiscordLocation(guild=spot.guild, channel=spot.channel, thread=str(message.id))
        return place_of(spot, str(message.id))

    # -- content ---------------------------------------------------------------------------------

    def _is_hidden(self, message: discord.Message) -> bool:
        """Return True if Discord withholds the text, since the bot is not mentioned."""
        seen = message.guild is None or self._client.hears_content
        return not (seen or message.content or self._client.user in message.mentions)


def is_from_user(message: discord.Message) -> bool:
    """Return True if a user wrote the message: not a bot, a webhook or Discord itself."""
    said = message.type in {discord.MessageType.default, discord.MessageType.reply}
    return said and not message.author.bot and message.webhook_id is None


def is_addressed(message: discord.Message, me: int) -> bool:
    """Return True for a direct message, a mention of the bot, or a reply to the bot."""
    if message.guild is None and isinstance(message.channel, discord.DMChannel):
        return True
    if any(user.id == me for user in message.mentions):
        return True
    role = message.guild.self_role if message.guild else None
    return (role is not None and role in message.role_mentions) or _answered(message) == me


def may_go_on(message: discord.Message) -> bool:
    """Return True if a message without a mention may continue a conversation.

    Such a message is in a thread and addresses no other user.
    """
    in_a_thread = isinstance(message.channel, discord.Thread | discord.PartialMessageable)
    to_another = re.match(r"\s*<@!?\d+>", message.content) or _answered(message) is not None
    return in_a_thread and not to_another


def text_of(message: discord.Message, me: discord.ClientUser | None) -> str:
    """Return the message text without mentions of the bot."""
    names = [f"<@{me.id}>", f"<@!{me.id}>"] if me else []
    if message.guild is not None and (role := message.guild.self_role) is not None:
        names.append(f"<@&{role.id}>")
    return without_names(message.content, names, me.display_name if me else "")


def without_names(text: str, names: list[str], own: str) -> str:
    """Return a text without `names` at its ends; names elsewhere become `@own`."""
    if not names:
        return text.strip()
    name = "|".join(map(re.escape, names))
    text = re.sub(rf"\A\s*(?:(?:{name})[\s,:]*)+", "", text)
    text = re.sub(rf"(?:\s*(?:{name}))+\s*\Z", "", text)
    return re.sub(name, lambda _: f"@{own}", text).strip()


def quoted_in(message: discord.Message, me: int, *, whole: bool = False) -> tuple[Quoted, ...]:
    """Return the quotes of a message: forwarded messages, and the message that it replies to.

    A replied-to message of the bot or the author is omitted, since the conversation contains it
    already. `whole` includes it, for a message without text of its own.
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
    """Return the id of the replied-to message's author; `None` if unknown or not a reply."""
    if message.type is not discord.MessageType.reply or message.reference is None:
        return None
    resolved = message.reference.resolved
    return resolved.author.id if isinstance(resolved, discord.Message) else None


def reply_to_of(message: discord.Message) -> str:
    """Return the id of the replied-to message; empty for none."""
    if message.type is not discord.MessageType.reply or message.reference is None:
        return ""
    return str(message.reference.message_id or "")


def files_of(message: discord.Message) -> list[discord.Attachment]:
    """Return the files of a message and of its forwarded messages."""
    forwarded = [file for each in message.message_snapshots for file in each.attachments]
    return [*message.attachments, *forwarded]


def opens_thread(settings: DiscordSettings, channel: object) -> bool:
    """Return True if a message in the channel is answered in a thread of its own."""
    return settings.threads and isinstance(channel, discord.TextChannel) and _lets(channel)


def _lets(channel: discord.TextChannel) -> bool:
    """Return True if the bot may open threads in the channel or its permissions are unknown."""
    me: discord.Member | None = channel.guild.me
    if me is None:
        return True
    permissions = channel.permissions_for(me)
    return permissions.create_public_threads and permissions.send_messages_in_threads
