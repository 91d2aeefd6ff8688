"""Messages from a connection gap on Slack, while the database is away."""

from datetime import UTC, datetime

import pytest

from bot.errors import DatabaseUnreachableError, DeliveryError
from bot.platforms.messages import PastMessage
from bot.platforms.slack.clients import Installed, OneClient, open_session
from bot.values import Identity, Place
from tests.bot.platforms.slack.hearing import counter, installed_in, new_client_of
from tests.fakes.slack.server import FakeSlack


class AwayAtFirst(OneClient):
    """The client of one workspace, whose installation cannot be read the first time."""

    away = True

    async def find(self, *workspaces: str) -> tuple[str, Installed]:
        if self.away:
            self.away = False
            raise DeliveryError("The database is unavailable.")
        return await super().find(*workspaces)


async def test_a_message_whose_workspace_could_not_be_looked_up_is_received_the_next_time(
    slack: FakeSlack,
) -> None:
    async with open_session() as session:
        client = new_client_of(slack, session)
        clients = AwayAtFirst(installed_in(slack, client), slack.team.id)
        async with counter(slack, clients=clients) as at:
            message = PastMessage(
                event_id="message 1",
                place=Place("slack", slack.team.id, at.general.id, message="1.1"),
                author=Identity("slack", slack.team.id, at.alice.id),
                author_name="Alice",
                text="Hello",
                sent_at=datetime(2026, 11, 25, tzinfo=UTC),
                addressed=True,
            )
            # A gap that ends in this error is read again as a whole.
            with pytest.raises(DatabaseUnreachableError):
                await at.listener.receive_missed(message)

            received = await at.listener.receive_missed(message)

    assert received
    assert [each.text for each in at.inbound.heard] == ["Hello"]
