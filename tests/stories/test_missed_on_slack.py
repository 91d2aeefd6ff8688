"""What was said on Slack while the bot was away is answered once: row 77 of `faults.md`."""

from bot.values import Json
from tests.fakes.anthropic_server import Reply
from tests.stories.on_slack import Way, new_office, on_slack
from tests.stories.stage import said


def echo(body: Json) -> Reply:
    """Answer with the last line of what was said."""
    return Reply(text="Answer to " + said(body["messages"][-1]).strip().splitlines()[-1])


async def test_what_was_said_while_the_bot_was_away_is_answered_once_and_in_order(
    way: Way,
) -> None:
    async with new_office() as office:
        slack, room, alice, bob = office.slack, office.channel, office.alice, office.bob
        private = slack.dm(alice)
        async with on_slack(way, office, echo) as it:
            asked = await slack.say(alice, room, "zero", mention=True)
            await it.reads(asked, "Answer to zero")
            first = await slack.say(alice, private, "one")
            await it.reads(first, "Answer to one")
        await slack.say(alice, private, "two", thread=first)
        await slack.say(alice, private, "three", thread=first)
        await slack.say(bob, room, "four", thread=asked, mention=True)
        await slack.say(alice, room, "for nobody in particular", thread=asked)
        fresh = await slack.say(bob, room, "five", mention=True)
        async with on_slack(way, office, echo) as it:
            await it.reads(first, "Answer to three")
            await it.reads(asked, "Answer to four")
            await it.reads(fresh, "Answer to five")
            again = await slack.say(alice, private, "six")
            await it.reads(again, "Answer to six")

            direct = [each.readable() for each in it.said(first)]
            below = [each.readable() for each in it.said(asked)]
    assert direct == ["Answer to one", "Answer to two", "Answer to three"]
    assert below == ["Answer to zero", "Answer to four"]
