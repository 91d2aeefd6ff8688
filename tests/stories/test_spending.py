"""Limits on tokens and money: what a user reads when one is reached, and what work does then."""

from dataclasses import replace
from datetime import time, timedelta

import pytest

from bot.agent.messages import Usage
from bot.conversations.access import AccessSettings
from bot.rights.settings import RolesSettings
from bot.spending.settings import SpendingSettings
from bot.subagents.limits import SubagentSettings
from bot.values import Identity, Place, RunStatus, utc_now
from db.tables import audit, pools
from tests.fakes.anthropic_server import Reply
from tests.stories.stage import ADMIN, ALICE, BOB, ROOM, Play, Stage, call, is_run, stage

pytestmark = pytest.mark.timeout(120)

#: Prices of the models of the stories, in dollars per million tokens.
PRICES = {
    "claude-sonnet-5-5": {"input": 2, "output": 10},
    "claude-haiku-5-5": {"input": 1, "output": 5},
}
ROOT = AccessSettings(admins=("fake:root",))


def spending(**limits: object) -> SpendingSettings:
    return SpendingSettings.model_validate(limits)


def answer(text: str, output: int = 20) -> Reply:
    """Return an answer of which the output costs ten micro-dollars a token."""
    return Reply(text=text, usage=Usage(0, output))


async def replied(it: Stage, count: int) -> str:
    """Return the text of the reply with this number."""
    return (await it.outlet.replied(count)).final or ""


async def test_a_used_limit_is_named_with_its_reset_and_no_model_is_asked(
    database_url: str,
) -> None:
    play = Play(main=[answer("Hens.", 96_000), answer("Hello Bob.")])
    limits, more = spending(user={"day": {"usd": 1}}), {"prices": PRICES}
    async with stage(database_url, play, spending=limits, more_models=more) as it:
        await it.say(ALICE, "Hello")
        first = await replied(it, 1)
        await it.say(ALICE, "And now?")
        refused = await replied(it, 2)
        usage = await it.command(ALICE, "/subagents usage")
        await it.say(BOB, "Hello")
        other = await replied(it, 3)

    assert first == "Hens."
    assert "⚠ The spending limit of your own work today is reached: $0.9600 of $1.00" in refused
    assert "It resets at" in refused
    assert refused.endswith("An operator of the bot can raise it for today.")
    assert [each.failed for each in it.outlet.replies] == [False, True, False]
    assert "**Spending limits**\n- your own work today: $0.9600 of $1.00 (96 %)" in usage.text
    assert other == "Hello Bob."
    assert len(play.asked) == 2


async def test_no_other_place_and_no_deletion_gives_a_user_more(database_url: str) -> None:
    play = Play(main=[answer("Hens.", 96_000)])
    limits, more = spending(user={"day": {"usd": 1}}), {"prices": PRICES}
    async with stage(database_url, play, spending=limits, more_models=more) as it:
        await it.say(ALICE, "Hello")
        await replied(it, 1)
        await it.say(ALICE, "And now?", replace(ROOM, workspace="other", channel="yard"))
        elsewhere = await replied(it, 2)
        forgotten = await it.command(ALICE, "/retinue forget me yes")
        await it.say(ALICE, "And now?")
        after = await replied(it, 3)

    assert not forgotten.failed
    assert "of your own work today is reached: $0.9600 of $1.00" in elsewhere
    assert "of your own work today is reached: $0.9600 of $1.00" in after
    assert len(play.asked) == 1


async def test_a_run_that_reaches_a_limit_reports_what_it_has(database_url: str) -> None:
    zones = ("UTC", "Europe/Paris")
    looks = [replace(call("current_time", zone=each), usage=Usage(0, 18_200)) for each in zones]
    play = Play(
        main=[call("sessions_spawn", task="Look around"), answer("It looks.")],
        runs={"Look": [*looks, answer("Two hens so far.")]},
    )
    limits, more = spending(run={"usd": "0.2"}), {"prices": PRICES}
    roomy = SubagentSettings(default_token_budget=200_000, present_seconds=0)
    async with stage(database_url, play, spending=limits, more_models=more, subagents=roomy) as it:
        await it.say(ALICE, "Look around")
        run = await it.ended("Look", RunStatus.BUDGET_EXCEEDED)
        said = await it.outlet.announced(run.id)

    last = play.asked[-1]
    assert is_run(last)
    assert last["tool_choice"] == {"type": "none"}
    assert run.result == "Two hens so far."
    assert "ran out of budget" in said.title
    assert "The spending limit of this run is reached: $0.1820 of $0.2000 used" in said.text
    assert "Two hens so far." in said.text


async def test_a_run_that_may_not_even_begin_says_why(database_url: str) -> None:
    play = Play(main=[call("sessions_spawn", task="Look around"), answer("It looks.")])
    limits, more = spending(run={"usd": 0}), {"prices": PRICES}
    async with stage(database_url, play, spending=limits, more_models=more) as it:
        await it.say(ALICE, "Look around")
        run = await it.ended("Look", RunStatus.BUDGET_EXCEEDED)

    assert not any(map(is_run, play.asked))
    assert run.error == (
        "The spending limit of this run is reached: $0.00 of $0.00 used. An operator of the bot "
        "sets it: `spending.run`."
    )


async def test_where_money_is_limited_a_model_without_a_price_is_refused(
    database_url: str,
) -> None:
    play = Play(main=[answer("Hens.")])
    limits = spending(bot={"day": {"usd": 1}})
    anthropic = {"main_model": "house-model"}
    async with stage(database_url, play, spending=limits, more_anthropic=anthropic) as it:
        await it.say(ALICE, "Hello")
        refused = await replied(it, 1)

    assert play.asked == []
    assert "no price" in refused
    assert "`models.prices`" in refused


async def test_near_a_limit_the_provider_counts_the_input(database_url: str) -> None:
    play = Play(main=[answer("Hens."), answer("More hens.")])
    limits = spending(bot={"day": {"tokens": 10_000}})
    async with stage(database_url, play, spending=limits) as it:
        it.server.count = lambda body: 300
        await it.say(ALICE, "Hello")
        await replied(it, 1)
        counted = it.server.counted
        it.server.count = lambda body: 9_000
        await it.say(ALICE, "And now?")
        refused = await replied(it, 2)

    assert counted == 1
    assert len(play.asked) == 1
    # Its estimate by length would have fitted, or not: the count decides.
    assert "The spending limit of the whole bot today is reached" in refused


async def test_an_admin_raises_a_limit_for_today(database_url: str) -> None:
    play = Play(main=[answer("Hens.", 96_000), answer("More hens.")])
    limits, more = spending(bot={"day": {"usd": 1}}), {"prices": PRICES}
    async with stage(database_url, play, spending=limits, more_models=more, access=ROOT) as it:
        await it.say(ALICE, "Hello")
        await replied(it, 1)
        mine = await it.command(ALICE, "/retinue raise bot $1")
        wrong = await it.command(ADMIN, "/retinue raise bot much")
        unknown = await it.command(ADMIN, "/retinue raise moon $1")
        unused = await it.command(ADMIN, "/retinue raise channel $1")
        raised = await it.command(ADMIN, "/retinue raise bot $1")
        usage = await it.command(ALICE, "/subagents usage")
        await it.say(ALICE, "And now?")
        second = await replied(it, 2)
        entries = [row for row in await it.rows(audit) if row["action"] != "configuration"]
        log = [(row["action"], row["user_id"], row["detail"]) for row in entries]

    assert log == [("raise", ADMIN.key, "by $1 until midnight UTC")]
    assert mine.failed
    assert "There is no command /raise" in mine.text
    assert "`/retinue raise channel $5`" in wrong.text or "Write the limit" in wrong.text
    assert "There is no such limit" in unknown.text
    assert unused.failed
    assert "there is no limit “channel” here" in unused.text
    assert "the whole bot" in unused.text
    assert raised.text.startswith("Raised by $1 until midnight UTC.")
    assert "- the whole bot today: $0.9600 of $2.00 (48 %)" in usage.text
    assert second == "More hens."


async def test_a_raise_in_a_unit_that_the_limit_does_not_have_is_refused(
    database_url: str,
) -> None:
    in_tokens = {"day": {"tokens": 100_000}}
    limits = spending(channel=in_tokens, bot=in_tokens | {"month": {"usd": 9}})
    more = {"prices": PRICES}
    play = Play(main=[answer("Hens.", 10)])
    async with stage(database_url, play, spending=limits, more_models=more, access=ROOT) as it:
        await it.say(ALICE, "Hello")
        await replied(it, 1)
        refused = await it.command(ADMIN, "/retinue raise channel $1")
        raised = await it.command(ADMIN, "/retinue raise bot $1")
        more_of = {row["id"].count("-"): row["extra_cost"] for row in await it.rows(pools)}
        await it.command(ADMIN, "/retinue raise bot $1 500")
        audited = [row["subject"] for row in await it.rows(audit) if row["action"] == "raise"]

    assert refused.failed
    assert "no limit “channel” is in that unit" in refused.text
    assert "- this channel today: 10 of 100,000 weighted tokens" in refused.text
    assert not raised.failed
    # The pools of the day have more hyphens than that of the month.
    assert more_of == {2: 0, 1: 1_000_000}
    assert [each.count("bot|") for each in audited] == [1, 2]


async def test_an_admin_of_a_server_raises_what_is_limited_there_and_nothing_else(
    database_url: str,
) -> None:
    there = replace(ROOM, workspace="other")
    play = Play(main=[answer("Hens.", 10), answer("More hens.", 10)])
    day = {"day": {"usd": 1}}
    limits = spending(user=day, channel=day, workspace=day, bot=day)
    operators = AccessSettings(admins=("fake:bob",))
    # Only names of Discord and Slack pass the check of the configuration.
    access = operators.model_copy(update={"place_admins": {"fake:guild": ("fake:root",)}})
    more = {"prices": PRICES}
    async with stage(database_url, play, spending=limits, more_models=more, access=access) as it:
        for number, place in enumerate((ROOM, there), 1):
            await it.say(ALICE, "Hello", place)
            await replied(it, number)
        ids = [row["id"] for row in await it.rows(pools)]
        of_user = next(each for each in ids if each.startswith("user"))

        async def raises(user: Identity, name: str, place: Place = ROOM) -> bool:
            return not (await it.command(user, f"/retinue raise {name} $1", place)).failed

        own = [await raises(ADMIN, each) for each in ("channel", "server")]
        others = [
            await raises(ADMIN, each)
            for each in ("bot", "me", of_user, *(each for each in ids if ":other" in each))
        ]
        abroad = [await raises(ADMIN, "server", there), await raises(ALICE, "server")]
        by_operator = [await raises(BOB, each) for each in (of_user, "bot")]
        found = {row["id"]: row["extra_cost"] for row in await it.rows(pools)}
        until = {row["extra_until"] for row in await it.rows(pools)} - {None}

    assert own == [True, True]
    assert others == [False] * 5
    assert abroad == [False, False]
    assert by_operator == [True, True]
    assert [each for each, extra in found.items() if not extra] == [
        each for each in found if ":other" in each
    ]
    [midnight] = until
    assert timedelta(0) < midnight - utc_now() < timedelta(days=1)
    assert midnight.time() == time()


async def test_the_limit_of_a_role_is_for_its_members_alone(database_url: str) -> None:
    play = Play(main=[answer("Hens.", 50_000), answer("Hello Bob.", 50_000)])
    limits = spending(roles={"guest": {"each": {"day": {"usd": "0.4"}}}})
    roles = RolesSettings.model_validate({"named": {"guest": {"members": ["fake:alice"]}}})
    more = {"prices": PRICES}
    async with stage(database_url, play, spending=limits, more_models=more, roles=roles) as it:
        await it.say(ALICE, "Hello")
        await replied(it, 1)
        await it.say(ALICE, "And now?")
        refused = await replied(it, 2)
        await it.say(BOB, "Hello")
        other = await replied(it, 3)

    assert "The spending limit of your own work today is reached: $0.5000 of $0.4000" in refused
    assert other == "Hello Bob."


async def test_where_a_limit_is_used_up_no_run_begins(database_url: str) -> None:
    play = Play(main=[answer("Hens.", 96_000)])
    limits, more = spending(channel={"day": {"usd": 1}}), {"prices": PRICES}
    async with stage(database_url, play, spending=limits, more_models=more) as it:
        await it.say(ALICE, "Hello")
        await replied(it, 1)
        refused = await it.command(BOB, "/subagents spawn Look around")
        listed = await it.command(BOB, "/subagents list")

    assert refused.failed
    assert "The spending limit of this channel today is reached: $0.9600 of $1.00" in refused.text
    assert "Look around" not in listed.text
