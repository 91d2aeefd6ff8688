"""Publishes the Home tab: a user's runs, usage, and the agents they may name."""

import logging

from slack_sdk.web.async_client import AsyncWebClient

from bot.errors import DeliveryError
from bot.platforms.base import CommandReply
from bot.platforms.messaging.intake import outcome
from bot.platforms.slack import blocks
from bot.platforms.slack.interactions import SlackReceiver
from bot.platforms.slack.people import SlackUser

log = logging.getLogger(__name__)

UNKNOWN = "Your runs cannot be shown at the moment: {reason} Open this tab again in a while."


async def show(receiver: SlackReceiver, person: SlackUser) -> None:
    """Publish the current Home tab of a user. A `DeliveryError` is logged."""
    if refusal := receiver.reception.refusal(person, ""):
        view = blocks.notice_at_home(refusal.text)
    else:
        seen = await outcome(receiver.inbound.overview(person.identity), "the Home tab")
        if isinstance(seen, CommandReply):
            view = blocks.notice_at_home(UNKNOWN.format(reason=seen.text))
        else:
            view = blocks.home(seen)
    try:
        await receiver.outlet.sender.ask(
            person.workspace,
            AsyncWebClient.views_publish,
            user_id=person.account,
            view=view,
        )
    except DeliveryError as error:
        log.info("The Home tab of %s is not shown: %s", person.account, error)
