"""Publishes the Home tab: a user's runs, usage, and the agents they may name."""

import logging

from bot.errors import DeliveryError
from bot.platforms.base import CommandReply
from bot.platforms.slack import blocks
from bot.platforms.slack.people import SlackUser
from bot.platforms.slack.visits import Desk
from bot.values import Json

log = logging.getLogger(__name__)

UNKNOWN = "Your runs cannot be shown at the moment: {reason} Open this tab again in a while."


async def show(desk: Desk, person: SlackUser) -> None:
    """Publish the current Home tab of a user. A `DeliveryError` is logged."""
    try:
        view = await _view_for(desk, person)
        await desk.outlet.sender.ask(
            person.workspace,
            lambda client: client.views_publish(user_id=person.account, view=view),
        )
    except DeliveryError as error:
        log.info("The Home tab of %s is not shown: %s", person.account, error)


async def _view_for(desk: Desk, person: SlackUser) -> Json:
    if refusal := desk.reception.refusal(person, ""):
        return blocks.notice_at_home(refusal.text)
    seen = await desk.outcome(desk.ears.overview(person.identity), "the Home tab")
    if isinstance(seen, CommandReply):
        return blocks.notice_at_home(UNKNOWN.format(reason=seen.text))
    return blocks.home(seen)
