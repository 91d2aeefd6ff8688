"""Admits commands, clicks and forms, acknowledges them in time and answers only the user."""

import asyncio
import io
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import aiohttp
import discord

from bot.errors import DeliveryError
from bot.platforms.base import CommandReply, Incoming
from bot.platforms.discord import answers
from bot.platforms.discord.answers import Recipient
from bot.platforms.discord.client import RetinueClient
from bot.platforms.discord.people import identity_of, place_of, user_of
from bot.platforms.discord.sending import Sender
from bot.platforms.discord.texts import IN_FILE
from bot.platforms.handler import InboundHandler
from bot.platforms.messaging.intake import DONE_ALREADY, TROUBLE, AccessRefusal, outcome
from bot.values import Identity, Place

log = logging.getLogger(__name__)

ALREADY_ACKNOWLEDGED = 40060
#: Error codes of an interaction that can no longer be answered: not acknowledged within 3 seconds,
#: or older than 15 minutes.
EXPIRED = frozenset({10062, 10015, 50027})

#: Longest wait for the core before the acknowledgement; Discord waits 3 seconds for that.
STORED_SECONDS = 1.0

#: Exceptions of an answer that was not sent, including those of the breaker and the network.
UNSENT = (discord.DiscordException, aiohttp.ClientError, OSError, DeliveryError)

ClientInteraction = discord.Interaction[RetinueClient]


@dataclass(slots=True)
class AdmittedInteraction:
    """An interaction of an admitted user.

    Attributes:
        interaction: A command, a click or a submitted form.
        inbound: Receives the command or the answer.
        admin: Whether a role makes the user an admin in this place.
        groups: The user's roles, as in `Incoming`.
        expired: Whether Discord no longer accepts answers that only the user sees.
        shared: Whether another process, or an earlier attempt, has acknowledged the interaction.
    """

    interaction: ClientInteraction
    inbound: InboundHandler
    user: Identity
    place: Place
    admin: bool
    groups: frozenset[str] | None = None
    expired: bool = False
    shared: bool = False


Handle = Callable[[AdmittedInteraction], Awaitable[object]]
#: Returns the buttons below an answer.
Below = Callable[[CommandReply], discord.ui.View | None]


async def admit(interaction: ClientInteraction, handle: Handle) -> None:
    """Admit the user and handle the interaction; log errors and notify the user of them."""
    access = interaction.client.access
    if not access.first(("interaction", interaction.id)):
        log.info("The interaction %s was delivered again", interaction.id)
        return
    with access.tracking():
        try:
            match admitted_interaction(interaction):
                case AdmittedInteraction() as admitted:
                    await handle(admitted)
                case AccessRefusal(text):
                    await send_at_once(interaction, text)
        except UNSENT as error:
            log.warning("The answer to interaction %s is lost: %s", interaction.id, error)
        except Exception:
            log.exception("The interaction %s failed", interaction.id)
            with suppress(*UNSENT):
                await send_at_once(interaction, TROUBLE)


def admitted_interaction(
    interaction: ClientInteraction,
) -> AdmittedInteraction | AccessRefusal | None:
    """Return the interaction, or the refusal; `None` while not listening."""
    client = interaction.client
    if client.inbound is None:
        log.info("The interaction %s arrived before the intake was ready", interaction.id)
        return None
    user = user_of(interaction.user)
    place, category = place_of(interaction.channel, interaction.guild_id)
    return client.access.refusal(user, place, category) or AdmittedInteraction(
        interaction,
        client.inbound,
        user=identity_of(user.account),
        place=place,
        admin=client.access.is_admin(user),
        groups=client.access.groups(user, place),
    )


async def carry_out(
    interaction: ClientInteraction, text: str, *, below: Below | None = None
) -> None:
    """Run a command and show the answer only to the user.

    Args:
        interaction: The interaction that runs the command.
        text: The text command, such as `/subagents stop 1a2b`.
        below: Returns the buttons below the answer.
    """

    async def handle(admitted: AdmittedInteraction) -> None:
        incoming = Incoming(
            event_id=f"interaction:{interaction.id}",
            user=admitted.user,
            user_name=interaction.user.display_name,
            place=admitted.place,
            text=text,
            admin=admitted.admin,
            groups=admitted.groups,
        )
        asked = outcome(admitted.inbound.receive(incoming), f"interaction {interaction.id}")
        reply = await stored_reply(admitted, asked, thinking=True)
        if reply is not None:
            await show(admitted, reply, below=below)
        elif not admitted.shared:
            await show(admitted, CommandReply(text=DONE_ALREADY))

    await admit(interaction, handle)


async def stored_reply(
    admitted: AdmittedInteraction,
    asked: Coroutine[Any, Any, CommandReply | None],
    *,
    thinking: bool,
) -> CommandReply | None:
    """Return the core's reply; acknowledge it after it is stored or `STORED_SECONDS`.

    Discord sends an interaction once. If the process dies before the interaction is stored, the
    acknowledgement is missing and Discord shows the user an error.
    """
    async with asyncio.TaskGroup() as group:
        receiving = group.create_task(asked, name="receive an interaction")
        await asyncio.wait({receiving}, timeout=STORED_SECONDS)
        await acknowledge(admitted, thinking=thinking)
    return receiving.result()


async def acknowledge(admitted: AdmittedInteraction, *, thinking: bool) -> None:
    """Acknowledge an interaction within Discord's 3 seconds; failures are logged.

    Args:
        admitted: The interaction.
        thinking: Whether the user sees a progress indicator; `False` if the clicked message will
            change instead.
    """
    if admitted.interaction.is_expired():
        admitted.expired = True
        return
    try:
        await admitted.interaction.response.defer(ephemeral=True, thinking=thinking)
    except discord.HTTPException as error:
        admitted.expired = error.code in EXPIRED
        admitted.shared = error.code == ALREADY_ACKNOWLEDGED
        log.info("The interaction %s was not acknowledged: %s", admitted.interaction.id, error)
    except UNSENT as error:
        log.warning("The interaction %s was not acknowledged: %s", admitted.interaction.id, error)


async def show(
    admitted: AdmittedInteraction, reply: CommandReply, *, below: Below | None = None
) -> None:
    """Show an answer to the user; send it as a message if the interaction has expired.

    Args:
        admitted: The interaction.
        reply: The answer.
        below: Returns the buttons below the answer.
    """
    view = below(reply) if below else None
    text = answers.with_more(reply) if view is None else reply.text
    interaction = admitted.interaction
    if not (admitted.expired or interaction.is_expired()):
        try:
            await _show_all(interaction, text, view)
        except discord.HTTPException as error:
            if error.code not in EXPIRED:
                raise
            log.info("The interaction %s has expired; a message says it", interaction.id)
        else:
            return
    recipient = Recipient(
        key=f"interaction {interaction.id}",
        account=admitted.user.account,
        channel=admitted.place.thread or admitted.place.channel,
        shared=not interaction.context.dm_channel,
    )
    await answers.answer(Sender(interaction.client), recipient, text, private=reply.private)


async def _show_all(
    interaction: ClientInteraction, text: str, view: discord.ui.View | None
) -> None:
    # Discord does not de-duplicate follow-ups, so a text of unknown fate is not sent again.
    parts = await answers.parts_for(text)
    first, *rest = parts.texts
    await _show_one(interaction, first, view=None if rest else view)
    if parts.long:
        file = discord.File(io.BytesIO(parts.whole.encode()), parts.name)
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
    interaction: ClientInteraction,
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


async def send_at_once(interaction: ClientInteraction, text: str) -> None:
    """Answer with a single message, whether or not the interaction was acknowledged.

    Raises:
        discord.DiscordException, aiohttp.ClientError, OSError, DeliveryError: The answer was not
            sent.
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
