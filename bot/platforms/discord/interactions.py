"""Commands, clicks and forms: let in, acknowledged in time, and answered for the asker alone."""

import asyncio
import io
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import aiohttp
import discord

from bot.errors import BotError, DatabaseUnreachableError, DeliveryError
from bot.platforms.base import CommandReply, Ears, Incoming
from bot.platforms.discord import answers
from bot.platforms.discord.answers import Asker
from bot.platforms.discord.client import RetinueClient
from bot.platforms.discord.people import Person, Spot, identity_of, place_of
from bot.platforms.discord.sending import Sender
from bot.platforms.discord.texts import IN_FILE
from bot.platforms.reception import DONE_ALREADY, TROUBLE, Refusal
from bot.values import Identity, Place

log = logging.getLogger(__name__)

ALREADY_ACKNOWLEDGED = 40060
#: With these Discord says that an interaction can no longer be answered: not acknowledged within
#: 3 seconds, or older than 15 minutes.
EXPIRED = frozenset({10062, 10015, 50027})

#: Longest wait for the core before Discord is told that an answer follows: it waits 3 seconds.
STORED_SECONDS = 1.0

#: What an answer may fail with; the breaker and the network are among it.
UNSENT = (discord.DiscordException, aiohttp.ClientError, OSError, DeliveryError)

Asked = discord.Interaction[RetinueClient]


@dataclass(slots=True)
class Visit:
    """An interaction of somebody who may.

    Attributes:
        interaction: A command, a click, or a form that was sent.
        ears: Who hears.
        admin: A role makes this person an admin there.
        expired: Discord shows nothing more that is for this person alone.
        shared: Another process, or a first attempt of ours, has acknowledged it.
    """

    interaction: Asked
    ears: Ears
    user: Identity
    place: Place
    admin: bool
    expired: bool = False
    shared: bool = False

    async def hear(self, text: str) -> CommandReply | None:
        """Take this as if it had been said in words."""
        return await self.ears.hear(
            Incoming(
                event_id=f"interaction:{self.interaction.id}",
                user=self.user,
                user_name=self.interaction.user.display_name,
                place=self.place,
                text=text,
                admin=self.admin,
            )
        )


Handle = Callable[[Visit], Awaitable[None]]
#: Makes the buttons that stand below an answer.
Below = Callable[[CommandReply], discord.ui.View | None]


async def attend(interaction: Asked, handle: Handle) -> None:
    """Let somebody in and handle what they did; whatever goes wrong is logged and said."""
    reception = interaction.client.reception
    if not reception.first(("interaction", interaction.id)):
        log.info("The interaction %s was delivered again", interaction.id)
        return
    with reception.attending():
        try:
            match visit_of(interaction):
                case Visit() as visit:
                    await handle(visit)
                case Refusal(text):
                    await say_at_once(interaction, text)
        except UNSENT as error:
            log.warning("The answer to interaction %s is lost: %s", interaction.id, error)
        except Exception:
            log.exception("The interaction %s failed", interaction.id)
            with suppress(*UNSENT):
                await say_at_once(interaction, TROUBLE)


def visit_of(interaction: Asked) -> Visit | Refusal | None:
    """Return an interaction as a visit, or why that person may not; `None` while nobody hears."""
    client = interaction.client
    if client.ears is None:
        log.info("The interaction %s came while nobody hears", interaction.id)
        return None
    person, spot = person_of(interaction.user), spot_of(interaction.channel, interaction.guild_id)
    return client.reception.refusal(person, spot) or Visit(
        interaction,
        client.ears,
        user=identity_of(person.account),
        place=place_of(spot),
        admin=client.reception.is_admin(person),
    )


def person_of(user: discord.abc.User) -> Person:
    """Return somebody with the roles that they have in the server where they are."""
    roles = user.roles if isinstance(user, discord.Member) else []
    return Person(account=str(user.id), roles=frozenset(str(role.id) for role in roles))


def spot_of(channel: object, guild_id: int | None) -> Spot:
    """Return where a channel or thread of Discord is."""
    guild = str(guild_id or "")
    if isinstance(channel, discord.Thread):
        parent = channel.parent
        return Spot(
            guild=guild,
            channel=str(channel.parent_id),
            thread=str(channel.id),
            category=str((parent and parent.category_id) or ""),
        )
    category = getattr(channel, "category_id", None)
    return Spot(guild=guild, channel=str(getattr(channel, "id", "")), category=str(category or ""))


async def carry_out(interaction: Asked, text: str, *, below: Below | None = None) -> None:
    """Carry out a command, and answer so that only the asker sees it.

    Args:
        interaction: Where it comes from.
        text: The command as it is typed, such as `/subagents stop 1a2b`.
        below: Makes the buttons that stand below the answer.
    """

    async def handle(visit: Visit) -> None:
        asked = outcome(visit.hear(text), f"interaction {interaction.id}")
        reply = await heard(visit, asked, thinking=True)
        if reply is not None:
            await show(visit, reply, below=below)
        elif not visit.shared:
            await show(visit, CommandReply(text=DONE_ALREADY))

    await attend(interaction, handle)


async def heard(
    visit: Visit, asked: Coroutine[Any, Any, CommandReply | None], *, thinking: bool
) -> CommandReply | None:
    """Return the reply of the core, and acknowledge the visit once it is stored.

    Discord sends an interaction once. If the process dies before anything is stored, nothing was
    acknowledged, and Discord tells the user that it failed.
    """
    async with asyncio.TaskGroup() as group:
        hearing = group.create_task(asked, name="hear an interaction")
        await asyncio.wait({hearing}, timeout=STORED_SECONDS)
        await acknowledge(visit, thinking=thinking)
    return hearing.result()


async def acknowledge(visit: Visit, *, thinking: bool) -> None:
    """Tell Discord within its 3 seconds that an answer follows; when that fails, it follows anyway.

    Args:
        visit: What is acknowledged.
        thinking: Whether the person sees that something is being done; otherwise the message
            that was clicked is going to change.
    """
    if visit.interaction.is_expired():
        visit.expired = True
        return
    try:
        await visit.interaction.response.defer(ephemeral=True, thinking=thinking)
    except discord.HTTPException as error:
        visit.expired = error.code in EXPIRED
        visit.shared = error.code == ALREADY_ACKNOWLEDGED
        log.info("The interaction %s was not acknowledged: %s", visit.interaction.id, error)
    except UNSENT as error:
        log.warning("The interaction %s was not acknowledged: %s", visit.interaction.id, error)


async def outcome(
    asked: Awaitable[CommandReply | None], what: str, *, patient: bool = False
) -> CommandReply | None:
    """Return what the core says, or what is to be said when it could not be asked.

    Args:
        asked: The core's answer.
        what: What it was asked with, for the log.
        patient: Whoever calls it tries again while the database is out of reach.

    Raises:
        DatabaseUnreachableError: It is, and the caller is patient.
    """
    try:
        return await asked
    except BotError as error:
        if patient and isinstance(error, DatabaseUnreachableError):
            raise
        return CommandReply(text=str(error), failed=True, refused=True)
    except Exception:
        log.exception("What was asked with %s failed", what)
        return CommandReply(text=TROUBLE, failed=True, refused=True)


async def show(visit: Visit, reply: CommandReply, *, below: Below | None = None) -> None:
    """Show an answer to its asker; when Discord no longer does, by a message instead.

    Args:
        visit: What is answered.
        reply: The answer.
        below: Makes the buttons that stand below it.
    """
    view = below(reply) if below else None
    text = answers.with_more(reply) if view is None else reply.text
    if visit.expired or visit.interaction.is_expired() or not await _follow_up(visit, text, view):
        await _show_elsewhere(visit, text, private=reply.private)


async def _follow_up(visit: Visit, text: str, view: discord.ui.View | None) -> bool:
    """Show a text below the interaction; return whether Discord still does that."""
    try:
        await _show_all(visit.interaction, text, view)
    except discord.HTTPException as error:
        if error.code not in EXPIRED:
            raise
        log.info("The interaction %s has expired; a message says it", visit.interaction.id)
        return False
    return True


async def _show_all(interaction: Asked, text: str, view: discord.ui.View | None) -> None:
    # Discord knows no repetition among these: a text whose fate is unknown is not sent again.
    paper = await answers.paper_for(text)
    first, *rest = paper.parts
    await _show_one(interaction, first, view=None if rest else view)
    if paper.long:
        file = discord.File(io.BytesIO(paper.whole.encode()), paper.name)
        try:
            await _show_one(interaction, IN_FILE, view=view, file=file)
        except discord.HTTPException as error:
            if error.code in EXPIRED or error.status not in {400, 403, 413}:
                raise
        else:
            return
    for part in rest:
        await _show_one(interaction, part, view=view if part is rest[-1] else None)


async def _show_one(
    interaction: Asked,
    text: str,
    *,
    view: discord.ui.View | None = None,
    file: discord.File | None = None,
) -> None:
    await interaction.followup.send(
        text,
        file=file or discord.utils.MISSING,
        view=view or discord.utils.MISSING,
        ephemeral=True,
        allowed_mentions=discord.AllowedMentions.none(),
        suppress_embeds=True,
    )


async def _show_elsewhere(visit: Visit, text: str, *, private: bool) -> None:
    """Say it by a message.

    Raises:
        DeliveryError: It did not get through.
    """
    interaction = visit.interaction
    asker = Asker(
        key=f"interaction {interaction.id}",
        account=visit.user.account,
        channel=visit.place.thread or visit.place.channel,
        shared=not interaction.context.dm_channel,
    )
    await answers.answer(Sender(interaction.client), asker, text, private=private)


async def say_at_once(interaction: Asked, text: str) -> None:
    """Answer in one go, acknowledged or not.

    Raises:
        discord.DiscordException, aiohttp.ClientError, OSError, DeliveryError: It is lost.
    """
    if interaction.response.is_done():
        await _show_one(interaction, text)
        return
    await interaction.response.send_message(
        text,
        ephemeral=True,
        allowed_mentions=discord.AllowedMentions.none(),
        suppress_embeds=True,
    )
