"""The notes below an answer about how it was made."""

from bot.agent.progress import AgentResult, Progress
from bot.conversations.turn_reply import OutageNotices, TurnReply
from bot.values import RunStatus

TALK, OTHER = "talk", "other"


def test_a_conversation_is_told_once_of_an_outage_and_again_of_the_next() -> None:
    outages = OutageNotices()
    away = ("calendar",)

    assert outages.new(TALK, away) == away
    # The answer was not given: it is told with the next one.
    assert outages.new(TALK, away) == away
    outages.notified(TALK, away)

    assert outages.new(TALK, away) == ()
    assert outages.new(OTHER, away) == away
    assert outages.new(TALK, ("calendar", "mail")) == ("mail",)
    assert outages.new(OTHER, ()) == ()
    assert outages.new(TALK, away) == away


def test_servers_that_were_away_stand_below_everything_else() -> None:
    reply = TurnReply(Progress(), away=("calendar", "mail"))
    result = AgentResult(status=RunStatus.COMPLETED, text="", fallback="a/b")

    text = reply.whole("It is done.", result)

    assert text == (
        "It is done.\n\n_(`a/b` answered: the usual model was unavailable.)_\n\n"
        "⚠️ Not reachable now: calendar, mail. Their tools were missing."
    )
