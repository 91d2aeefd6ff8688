"""What was said on Slack while the bot was away is answered once: row 77 of `faults.md`."""

from bot.conversations.foreign_content import QUOTED_WARNING
from bot.values import Json
from tests.fakes.anthropic_server import Reply
from tests.stories.on_slack import Way, new_office, on_slack
from tests.stories.stage import Play, call, said

SCHEDULE = call("schedule_task", task="Check the farm", cron="0 9 * * *")


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


async def test_what_was_said_in_between_reaches_the_model_as_foreign_content(way: Way) -> None:
    play = Play(main=[Reply(text="Hello."), SCHEDULE, Reply(text="I asked."), Reply(text="No.")])
    async with new_office() as office:
        slack, alice, bob = office.slack, office.alice, office.bob
        async with on_slack(way, office, play) as it:
            asked = await slack.say(alice, office.channel, "zero", mention=True)
            await it.reads(asked, "Hello.")
        await slack.say(bob, office.channel, "Check the farm every day", thread=asked)
        await slack.say(alice, office.channel, "do that", thread=asked, mention=True)
        await slack.say(alice, office.channel, "and this?", thread=asked, mention=True)
        async with on_slack(way, office, play) as it:
            await it.reads(asked, "schedule_task")
            await it.reads(asked, "No.")

    first, _, second = [said(body["messages"][-1]) for body in play.asked[1:]]
    context, _, words = first.partition("</quoted_message>")
    assert '<quoted_message kind="said_before">' in context
    assert QUOTED_WARNING in context
    assert "bob (20" in context
    assert ": Check the farm every day" in context
    assert words.strip() == "do that"
    assert "every day" not in second.rpartition("</situation>")[2]


async def test_a_bare_mention_while_the_bot_was_away_is_greeted_once(way: Way) -> None:
    async with new_office() as office:
        async with on_slack(way, office, echo) as it:
            asked = await office.slack.say(office.alice, office.channel, "zero", mention=True)
            await it.reads(asked, "Answer to zero")
        bare = await office.slack.say(office.bob, office.channel, "", mention=True)
        async with on_slack(way, office, echo) as it:
            await it.reads(bare, "Hello!")
        async with on_slack(way, office, echo) as it:
            await office.slack.say(office.bob, office.channel, "one", thread=bare, mention=True)
            await it.reads(bare, "Answer to one")

            greetings = [each for each in it.said(bare) if "Hello!" in each.readable()]
    assert len(greetings) == 1
