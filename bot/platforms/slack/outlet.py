"""Sends messages on Slack: in their place, or else as direct messages."""

import logging
import time
from dataclasses import dataclass
from datetime import datetime
from functools import partial

import aiohttp
from slack_sdk.web.async_client import AsyncWebClient

from bot.errors import DeliveryError
from bot.platforms.base import (
    Announcement,
    Confirmation,
    FileMessage,
    OnBegun,
    RunCard,
    Settlement,
)
from bot.platforms.messages import PastMessage
from bot.platforms.messaging.outlet import MessagingOutlet, RefusedError, Route, Say
from bot.platforms.messaging.texts import KEPT_FOR_USER, decision
from bot.platforms.reading import Membership, ReadRequest
from bot.platforms.slack import blocks, texts
from bot.platforms.slack.answers import PrivateAnswers
from bot.platforms.slack.budget import WorkspaceBudgets
from bot.platforms.slack.clients import Clients
from bot.platforms.slack.live import SlackCard, SlackMessage, SlackReply, Tempo
from bot.platforms.slack.members import SlackMembers
from bot.platforms.slack.messages import History
from bot.platforms.slack.people import Names, SlackAccessPolicy, SlackUser
from bot.platforms.slack.reading import SlackReader
from bot.platforms.slack.sending import Draft, Sender, made_harmless
from bot.platforms.slack.settings import SlackSettings
from bot.platforms.slack.status import Status
from bot.platforms.slack.texts import parts_of
from bot.recent import Recent
from bot.tasks import Tasks
from bot.values import Identity, Live, Place

log = logging.getLogger(__name__)

#: Most questions in the cache of messages that have to be shown as answered.
QUESTIONS_KEPT = 1_000
ABOVE = "Please answer the question above."
NOWHERE = "It cannot be said anywhere on Slack."


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownQuestion:
    """A message that shows a question.

    Attributes:
        mrkdwn: The text of the message, already escaped.
    """

    place: Place
    message_id: str
    mrkdwn: str


class SlackOutlet(MessagingOutlet):
    """Slack's outlet. It needs only tokens: no events and no data from events.

    Args:
        clients: Provide the tokens.
        settings: Everything under `slack:`.
        tasks: Owns the background tasks.
        tempo: Intervals and backoffs; as configured if `None`.
        budgets: The rate limits per workspace; Slack's limits if `None`.
        session: The HTTP session for answers to clicks and commands.

    Attributes:
        sender: Sends messages that are already escaped.
        answers: Answers users in private.
        status: Shows in threads that the bot is working; has to be closed.
        names: Provide the names of users.
        reader: Reads messages and files.
        budgets: The rate limits per workspace; every edit counts.
    """

    platform = "slack"

    def __init__(
        self,
        clients: Clients,
        settings: Live[SlackSettings],
        tasks: Tasks,
        *,
        tempo: Tempo | None = None,
        budgets: WorkspaceBudgets | None = None,
        session: aiohttp.ClientSession | None = None,
    ) -> None:
        self._tempo = tempo = tempo or Tempo(edit_seconds=settings().edit_seconds)
        commands = texts.CommandNames(settings().command, settings().subagents_command)
        self.sender = Sender(clients, commands=commands, pauses=tempo.pauses)
        self.answers = PrivateAnswers(self.sender, session)
        self.budgets = budgets or WorkspaceBudgets()
        #: `None` for a question that is shown as answered already.
        self._questions: Recent[str, ShownQuestion | None] = Recent(QUESTIONS_KEPT)
        self.names = Names(self.sender)
        self.reader = History(clients, self.sender, self.names, settings().api_url)
        self._members = SlackMembers(self.sender, SlackAccessPolicy(settings))
        self._elsewhere = SlackReader(clients, self.sender, self.reader, self.names, settings)
        self.status = Status(self.sender, tasks, refresh_seconds=tempo.refresh_seconds)
        self._tasks = tasks
        super().__init__(NOWHERE)

    async def membership(self, user: Identity, place: Place, *, groups: bool = True) -> Membership:
        """Return the membership of a user in the workspace of a place.

        Raises:
            DeliveryError: Slack does not answer.
        """
        return await self._members.membership(user, place, groups=groups)

    # -- acknowledgements and status -------------------------------------------------------------

    async def _show_receipt(self, place: Place) -> None:
        async def show() -> bool:
            if await self.status.heard(place) or not place.message:
                return False
            await self.sender.react(place, texts.HEARD)
            return True

        await self._receipts.put(place, show)

    async def answered(self, place: Place, *, read: bool = False) -> None:
        """Remove the sign of receipt, or replace it by that of a message read. Never raises."""
        hide = partial(self.sender.react, place, texts.HEARD, away=True)
        reacts = bool(place.message) and not self.status.works(place)
        await self._receipts.take(place, hide, unknown=reacts)
        if read and place.message:
            await self._receipts.show(partial(self.sender.react, place, texts.READ))

    async def _post_text(self, route: Route, text: str) -> tuple[str, ...]:
        parts = parts_of(await made_harmless(text.strip()), name="message.md")
        return await self.sender.post_all(route.place, parts, head=route.head)

    async def _post_files(self, route: Route, message: FileMessage) -> tuple[str, ...]:
        await self.sender.ask(
            route.place.workspace,
            AsyncWebClient.files_upload_v2,
            file_uploads=[
                {"content": each.content, "filename": each.name, "title": each.name}
                for each in message.files
            ],
            channel=route.place.channel,
            thread_ts=route.place.thread or None,
            initial_comment=texts.REPEATED if message.maybe_repeated else None,
        )
        # Slack does not say which message it became.
        return ()

    async def question_answered(
        self,
        confirmation_id: str,
        place: Place,
        outcome: str,
        *,
        shown: ShownQuestion | None = None,
    ) -> None:
        """Show the outcome of an answered question and remove its buttons. Never raises.

        Args:
            confirmation_id: The id of the question.
            place: The place of the answer.
            outcome: The outcome, not yet escaped.
            shown: The message of the question, if the caller knows it. Messages that this process
                sent are cached.
        """
        self.status.answered(confirmation_id, place)
        shown = self._questions.get(confirmation_id, shown)
        if shown is None:
            return
        self._questions[confirmation_id] = None
        draft = Draft(blocks=blocks.answered_blocks(shown.mrkdwn, outcome), mrkdwn=shown.mrkdwn)
        try:
            await self.budgets.edits[shown.place.workspace].wait()
            await self.sender.edit(shown.place, shown.message_id, draft)
        except DeliveryError as error:
            log.info("A question was answered and still has its buttons: %s", error)

    # -- replies and cards -----------------------------------------------------------------------

    def _begin_reply(
        self, place: Place, owner: Identity, message_id: str, begun: OnBegun
    ) -> SlackReply:
        message = SlackMessage(self.sender, place, message_id=message_id, begun=begun)
        return SlackReply(message, owner, self._tasks, self.status, self.budgets, self._tempo)

    def _begin_card(self, card: RunCard) -> SlackCard:
        return SlackCard(self.sender, self.budgets, self._tasks, card, self._tempo)

    # -- announcements, questions and notices ----------------------------------------------------

    async def _announcement(self, announcement: Announcement) -> Say:
        markdown = await made_harmless(announcement.text.strip())
        parts = parts_of(markdown, name="result.md")
        title, tail = texts.title_of(announcement), texts.tail_of(announcement)
        below = blocks.resume_button(announcement)

        async def say(route: Route) -> tuple[str, ...]:
            head = " ".join(part for part in (route.head, title) if part)
            if announcement.buttons:
                text = "\n".join((head, texts.mrkdwn(markdown), tail)).strip()
                shown = (blocks.section(text), *blocks.notice_buttons(announcement))
                return (await self.sender.post(route.place, Draft(blocks=shown, mrkdwn=text)),)
            return await self.sender.post_all(route.place, parts, head=head, tail=tail, below=below)

        return say

    async def _post_notice(self, channel: Place, owner: Identity, key: str) -> None:
        text = f"{texts.mention(owner.account)} {KEPT_FOR_USER}".strip()
        await self.sender.post(channel, Draft(markdown=text))

    async def ask(self, confirmation: Confirmation) -> str:
        """Ask the owner a question, or reuse the message that shows the question already.

        Returns:
            The id of that message; empty if it had to be posted in another place.

        Raises:
            DeliveryError: The owner cannot be asked; the answer is then no.
        """
        if confirmation.message_id:
            self._questions[confirmation.id] = await self._shown(confirmation)
            seconds = confirmation.expires_in_seconds
            self.status.asked(confirmation.place, confirmation.id, seconds)
            return confirmation.message_id
        asked = await super().ask(confirmation)
        shown = self._questions.get(confirmation.id)
        return asked if shown and shown.place == confirmation.place else ""

    async def _question(self, confirmation: Confirmation) -> Say:
        question = await made_harmless(confirmation.text.strip(), links=False)
        tail = texts.question_tail(confirmation, int(time.time() + confirmation.expires_in_seconds))

        async def say(route: Route) -> tuple[str, ...]:
            text = "\n".join(part for part in (route.head, question or texts.EMPTY) if part)
            before: tuple[str, ...] = ()
            if len(text) > texts.MOST_IN_SECTION:
                parts = parts_of(question, name="question.md")
                before = await self.sender.post_all(route.place, parts, head=route.head)
                text = ABOVE
            draft = Draft(
                blocks=blocks.question_blocks(confirmation, mrkdwn=text, tail=tail),
                mrkdwn=texts.question_twin(confirmation, text),
            )
            asked = await self.sender.post(route.place, draft)
            self._questions[confirmation.id] = ShownQuestion(
                place=route.place, message_id=asked, mrkdwn=text
            )
            self.status.asked(route.place, confirmation.id, confirmation.expires_in_seconds)
            return (*before, asked)

        return say

    async def show_settlement(self, question: Confirmation, settlement: Settlement) -> None:
        """Show the outcome of a closed question; skip a question without a known message."""
        shown = await self._shown(question) if question.message_id else None
        outcome = settlement.chosen
        if settlement.by is not None:
            by, workspace = settlement.by, question.place.workspace
            user = SlackUser(account=by.account, home=by.workspace, workspace=workspace)
            name = await self.names.of(user)
            outcome = decision(name, settlement.chosen, settlement.key)
        await self.question_answered(question.id, question.place, outcome, shown=shown)

    async def _shown(self, question: Confirmation) -> ShownQuestion:
        """Return the message of a question that an earlier or another process posted."""
        text = await made_harmless(question.text.strip(), links=False)
        text = "\n".join((texts.mention(question.owner.account), text or texts.EMPTY))
        if len(text) > texts.MOST_IN_SECTION:
            text = ABOVE
        return ShownQuestion(place=question.place, message_id=question.message_id, mrkdwn=text)

    async def tell(self, place: Place, user: Identity, text: str) -> None:
        """Send a short text to one user: as an ephemeral message in the place, or directly.

        Never raises.
        """
        await self.answers.say(place, user.account, text)

    async def history(
        self, place: Place, after: datetime | str, limit: int, *, opening: bool = False
    ) -> list[PastMessage]:
        """Return the newest messages of a place after a given time, oldest first."""
        return await self.reader.read(place, after, limit, opening=opening)

    async def linked(self, link: str, request: ReadRequest) -> list[PastMessage]:
        """Return the message of a link with the messages around it, oldest first."""
        return await self._elsewhere.linked(link, request)

    async def search(self, query: str, request: ReadRequest) -> list[PastMessage]:
        """Return the messages of public channels that fit a query, the best first."""
        return await self._elsewhere.search(query, request)

    async def _usual_route(self, place: Place, owner: Identity) -> Route | None:
        return Route(place=place, head=texts.mention(owner.account)) if place.channel else None

    async def _direct_route(
        self, place: Place, owner: Identity, refused: RefusedError | None
    ) -> Route | None:
        direct = await self.sender.direct(place.workspace, owner.account)
        if direct.channel != place.channel:
            return Route(place=direct, head=texts.ELSEWHERE if place.channel else "")
        if place.thread and refused and refused.thread_gone:
            return Route(place=direct, head=texts.NO_THREAD)
        return None
