"""The loop: ask, call tools, repeat, reply; and what it says about itself meanwhile."""

import asyncio

from bot.agent.messages import Answer, ToolResults, Usage, UserMessage, from_json
from bot.tasks import Tasks
from bot.values import RunStatus
from tests.bot.agent.things import Office, a_tool, an_agent, answers_in, told
from tests.fakes.around import FakeBudget, FakeInbox, FakeReporter, MemoryJournal, surroundings
from tests.fakes.scripted_model import (
    Hanging,
    ScriptedModel,
    Streamed,
    asks_for,
    call,
    says,
)


async def test_an_answer_without_calls_ends_the_work(office: Office) -> None:
    model = ScriptedModel(says("Twelve sheep."))

    result = await office.work(model)

    assert (result.status, result.text, result.error) == (RunStatus.COMPLETED, "Twelve sheep.", "")
    assert (result.steps, result.tool_calls) == (1, 0)


async def test_tools_are_called_until_there_is_a_reply(office: Office) -> None:
    model = ScriptedModel(
        asks_for(call("look", where="left"), text="First the left."),
        asks_for(call("look", where="right"), text="Now the right."),
        says("Twelve sheep."),
    )

    result = await office.work(model, a_tool("look"))

    assert (result.status, result.text) == (RunStatus.COMPLETED, "Twelve sheep.")
    assert (result.steps, result.tool_calls) == (3, 2)
    assert result.said == "First the left.\n\nNow the right.\n\nTwelve sheep."


async def test_the_model_sees_prompt_task_tools_and_all_that_was_said(office: Office) -> None:
    model = ScriptedModel(asks_for(call("look"), text="I look."), says("Twelve."))

    await office.work(model, a_tool("look"), a_tool("listen"), max_response_tokens=500)

    first, second = model.requests
    assert (first.prompt, first.model, first.max_tokens) == ("You count.", "some-model", 500)
    assert first.messages == (UserMessage("Count the sheep."),)
    assert [tool.name for tool in first.tools] == ["look", "listen"]
    assert first.tools_allowed
    assert second.messages[0] == UserMessage("Count the sheep.")
    assert isinstance(second.messages[1], Answer)
    assert second.messages[1].text == "I look."
    assert isinstance(second.messages[2], ToolResults)
    assert second.messages[2].results[0].text == "done"


async def test_tokens_of_all_calls_are_added_up_and_charged(office: Office) -> None:
    budget = FakeBudget()
    model = ScriptedModel(
        asks_for(call("look"), usage=Usage(100, 10, 1000, 200)), says("12", usage=Usage(1, 2))
    )

    result = await office.work(model, a_tool("look"), around=surroundings(budget=budget))

    assert result.usage == Usage(101, 12, 1000, 200)
    assert sum(budget.charged, Usage()) == result.usage


async def test_the_model_that_really_answered_is_recorded(office: Office) -> None:
    model = ScriptedModel(Answer("Twelve.", model="some-model-20261121"))

    result = await office.work(model)

    assert result.model == "some-model-20261121"


async def test_the_transcript_holds_every_message_after_the_start(office: Office) -> None:
    model = ScriptedModel(asks_for(call("look"), text="I look."), says("Twelve."))

    result = await office.work(model, a_tool("look"))

    first, results, last = [from_json(row) for row in result.transcript]
    assert isinstance(first, Answer)
    assert (first.text, first.calls) == ("I look.", (call("look"),))
    assert isinstance(results, ToolResults)
    assert results.results[0].text == "done"
    assert isinstance(last, Answer)
    assert last.text == "Twelve."


async def test_each_step_is_stored_before_the_next_question(office: Office) -> None:
    journal = MemoryJournal()
    stored: list[int] = []

    def respond(_: object) -> Answer:
        stored.append(len(journal.shelf.rows))
        return asks_for(call("look", n=len(stored))) if len(stored) < 3 else says("Twelve.")

    model = ScriptedModel(respond=respond)
    await office.work(model, a_tool("look"), around=surroundings(journal=journal))

    assert stored == [0, 1, 2]
    assert [entry.answer.text for entry in answers_in(journal.shelf.entries)] == ["", "", "Twelve."]


async def test_what_the_next_call_may_cost_is_stored_with_each_step(office: Office) -> None:
    journal = MemoryJournal()
    model = ScriptedModel(asks_for(call("look")), says("Twelve."))

    await office.work(
        model,
        a_tool("look"),
        around=surroundings(journal=journal, budget=FakeBudget()),
        max_response_tokens=700,
    )

    first, last = journal.shelf.counters
    assert first.reserved > 700
    assert first.tool_calls == 0
    assert last.reserved == 0, "no call follows the last answer"
    assert last.tool_calls == 1
    assert last.usage == Usage(20, 10)


async def test_every_answer_streams_to_the_one_who_listens(office: Office) -> None:
    heard: list[str] = []
    model = ScriptedModel(
        Streamed(["I", "I look."], asks_for(call("look"), text="I look.")),
        Streamed(["Twelve", "Twelve."], says("Twelve.")),
    )

    await office.work(model, a_tool("look"), on_text=heard.append)

    assert heard == ["I", "I look.", "Twelve", "Twelve."]


async def test_what_the_agent_does_is_reported(office: Office) -> None:
    reporter = FakeReporter()
    model = ScriptedModel(
        asks_for(call("look"), call("fly"), text="I look."), says("Twelve sheep.")
    )

    await office.work(model, a_tool("look"), around=surroundings(reporter=reporter))

    assert [(part, tool) for part, _, tool in reporter.heard] == [
        ("step", ""),
        ("tool", "look"),
        ("tool", "fly"),
        ("error", "fly"),
        ("tool_end", "look"),
        ("step", ""),
    ]
    steps = [content for part, content, _ in reporter.heard if part == "step"]
    assert steps == ["I look.", "Twelve sheep."]
    assert [counters.tool_calls for counters in reporter.counters] == [0, 2, 2, 2, 2, 2]
    assert reporter.calls == ["", "1.0", "1.1", "1.1", "1.0", ""]


async def test_a_message_is_read_once_at_the_next_step_and_marked_there(office: Office) -> None:
    journal, inbox = MemoryJournal(), FakeInbox([("m1", "Only the white ones.")])
    model = ScriptedModel(asks_for(call("look")), asks_for(call("look", n=2)), says("Nine."))

    result = await office.work(
        model, a_tool("look"), around=surroundings(journal=journal, inbox=inbox)
    )

    assert result.status is RunStatus.COMPLETED
    shown = [
        sum("Only the white ones." in told_or_said(m) for m in q.messages) for q in model.requests
    ]
    assert shown == [1, 1, 1], "it stays in the history, and is not told again"
    assert "Only the white ones." in told(model.requests[0])
    assert [entry.read for entry in answers_in(journal.shelf.entries)] == [("m1",), (), ()]


async def test_a_message_that_arrives_while_tools_work_comes_with_their_results(
    tasks: Tasks,
) -> None:
    journal, inbox = MemoryJournal(), FakeInbox()
    first = Hanging(asks_for(call("look")))
    model = ScriptedModel(first, says("Nine."))
    around = surroundings(journal=journal, inbox=inbox)
    agent = an_agent(model, a_tool("look"), tasks=tasks, around=around)
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        group.create_task(agent.run([UserMessage("Count.")]))
        await first.asked.wait()
        inbox.waiting += [("m1", "Hurry!"), ("m2", "Please!")]
        first.released.set()

    newest = model.last.messages[-1]
    assert isinstance(newest, ToolResults)
    assert newest.note.index("Hurry!") < newest.note.index("Please!")
    assert answers_in(journal.shelf.entries)[1].read == ("m1", "m2")


def told_or_said(message: object) -> str:
    return message.note if isinstance(message, ToolResults) else str(message)
