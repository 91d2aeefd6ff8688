"""The working memory of a run is kept over its end, and a continuation takes it over."""

from bot.values import RunStatus
from tests.fakes.anthropic_server import Reply
from tests.stories.stage import ALICE, Play, call, said, stage


async def test_a_run_reads_what_it_kept_and_so_does_its_continuation(database_url: str) -> None:
    play = Play(
        main=[Reply(text="Hello.")],
        runs={
            "Dig": [
                call("scratch_set", key="depth", value="two metres"),
                call("scratch_get", key="depth"),
                Reply(status=400, text="The model is gone."),
                call("scratch_list"),
                call("scratch_get", key="depth"),
                Reply(text="Dug."),
            ]
        },
    )
    async with stage(database_url, play) as it:
        await it.command(ALICE, "/subagents spawn --label hole Dig a hole")
        await it.ended("Dig", RunStatus.FAILED)
        assert said(play.asked[2]["messages"][-1]) == "two metres"

        await it.command(ALICE, "/subagents resume hole")
        await it.ended("Dig", RunStatus.COMPLETED)
        assert said(play.asked[4]["messages"][-1]) == '["depth"]'
        assert said(play.asked[5]["messages"][-1]) == "two metres"

        await it.say(ALICE, "Hello")
        await it.outlet.replied()
        assert not [each for each in play.asked[6]["tools"] if each["name"].startswith("scratch")]
