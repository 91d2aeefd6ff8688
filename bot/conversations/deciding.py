"""Checks the right to answer questions about calls: of the owner, of a role, of an admin."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from bot.conversations.access import may_reach
from bot.errors import NotAllowedError
from bot.platforms.base import CommandReply
from bot.subagents.requests import Caller
from bot.values import Identity, Place

GONE = "There is nothing to confirm: it was answered already, has expired, or is not yours."
GONE_REPLY = CommandReply(text=GONE, failed=True, refused=True)
TAKES_ROLE = "A rule gives this decision to the role `{role}`. You can only say no."
ONLY_DENY = "Only its owner can allow this. An admin can say no."


@dataclass(frozen=True, slots=True)
class Deciders:
    """Checks the right to answer a question about calls.

    Attributes:
        role_of: Returns the role of a user in a place.
    """

    role_of: Callable[[Identity, Place], Awaitable[str]]

    async def refusal(
        self, answerer: Caller, owner: str, place: Place, *, approver: str, yes: bool
    ) -> CommandReply | None:
        """Return the refusal of an answer; `None` if it counts.

        Args:
            answerer: The user who answers.
            owner: The key of the user whose calls the question is about.
            place: The place of the question.
            approver: The role that decides; empty for the owner.
            yes: Whether the answer allows something.
        """
        if approver and await self._has(approver, answerer.user, place):
            return None
        if answerer.user.key == owner:
            return _refused(TAKES_ROLE.format(role=approver)) if approver and yes else None
        if not may_reach(answerer, owner, place):
            return GONE_REPLY
        return _refused(ONLY_DENY) if yes else None

    async def _has(self, role: str, user: Identity, place: Place) -> bool:
        try:
            return await self.role_of(user, place) == role
        except NotAllowedError:
            return False


def _refused(text: str) -> CommandReply:
    return CommandReply(text=text, failed=True, refused=True)
