"""With foreign content in the prompt, calls that act beyond the place need the user's yes."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from bot.agent.permissions import Permissions, read_rules
from bot.agent.protocols import AskedCall
from bot.agent.toolbox import DESTROYS, FOREIGN, OTHERS, Approved, Toolbox
from bot.errors import BotError
from bot.rights.effective import Rights, RightsLevel
from bot.tasks import Tasks
from bot.values import Json, Place
from skills.base import Audience, Effects, Reach, Tool, ToolContext, tool
from tests.bot.agent.test_toolbox import FakeGate
from tests.bot.agent.things import Office, a_tool, results_shown, texts_of
from tests.fakes.around import caller, surroundings
from tests.fakes.scripted_model import ScriptedModel, asks_for, call, says


class Questions:
    """An approver that records its questions."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.reasons: set[str] = set()

    async def ask(self, asked: Sequence[AskedCall]) -> Sequence[Json | BotError]:
        self.asked.append([each.tool.name for each in asked])
        self.reasons |= {each.reason for each in asked}
        return [{"status": "confirmation_asked"} for _ in asked]


def main_box(
    tasks: Tasks, questions: Questions | None, *tools: Tool, approved: Approved | None = None
) -> Toolbox:
    return Toolbox(
        tools,
        is_subagent=False,
        tasks=tasks,
        timeout_seconds=30,
        approver=questions,
        approved=approved,
    )


POST = a_tool("post", effects=Effects.ONCE, reach=Reach.ACTS_BEYOND)
FOREIGN_CALLER = replace(caller(), foreign=True, call_id="1.0")


@pytest.mark.parametrize(
    ("foreign", "reach", "asks"),
    [
        (foreign, reach, foreign and reach in {Reach.ACTS_BEYOND, Reach.DESTROYS})
        for foreign in (False, True)
        for reach in Reach
    ],
)
async def test_only_a_call_that_acts_beyond_or_destroys_asks_and_only_with_foreign_content(
    tasks: Tasks, foreign: bool, reach: Reach, asks: bool
) -> None:
    questions = Questions()
    box = main_box(tasks, questions, replace(POST, reach=reach))

    result = await box.call(call("post", "id"), replace(caller(), foreign=foreign))

    assert questions.asked == ([["post"]] if asks else [])
    assert ("confirmation_asked" in result.text) is asks
    reason = DESTROYS if reach is Reach.DESTROYS else FOREIGN
    assert questions.reasons == ({reason} if asks else set())


async def test_what_the_user_has_allowed_for_a_day_asks_no_more_unless_it_acts_beyond(
    tasks: Tasks,
) -> None:
    questions = Questions()
    reads = a_tool("reads", effects=Effects.NONE, reach=Reach.READS_BEYOND)
    allowed = replace(FOREIGN_CALLER, others=True, granted=frozenset({"reads", "post"}))
    box = main_box(tasks, questions, reads, POST, replace(reads, name="other"))

    for number, name in enumerate(("reads", "post", "other")):
        await box.call(call(name, name), replace(allowed, call_id=f"{number}.0"))

    assert questions.asked == [["post"], ["other"]]


@pytest.mark.parametrize("audience", Audience)
@pytest.mark.parametrize("others", [False, True])
async def test_a_tool_for_the_user_alone_asks_where_others_have_spoken(
    tasks: Tasks, audience: Audience, others: bool
) -> None:
    questions = Questions()
    reads = a_tool("reads", effects=Effects.NONE, reach=Reach.READS_HERE)
    box = main_box(tasks, questions, replace(reads, audience=audience))

    await box.call(call("reads", "id"), replace(caller(), others=others))

    asks = others and audience is Audience.PERSONAL
    assert questions.reasons == ({OTHERS} if asks else set())


async def test_a_tool_may_narrow_the_reach_of_one_call(tasks: Tasks) -> None:
    async def reach_of(_: ToolContext, arguments: Json) -> Reach:
        return Reach.CHANGES_OWN if arguments["new"] else Reach.ACTS_BEYOND

    questions = Questions()
    box = main_box(tasks, questions, replace(POST, reach_of=reach_of))

    new = await box.call(call("post", "a", new=True), FOREIGN_CALLER)
    old = await box.call(call("post", "b", new=False), replace(FOREIGN_CALLER, call_id="2.0"))

    assert "done" in new.text
    assert "confirmation_asked" in old.text


async def test_a_reach_that_cannot_be_found_out_is_the_farthest(
    tasks: Tasks, caplog: pytest.LogCaptureFixture
) -> None:
    async def reach_of(_: ToolContext, __: Json) -> Reach:
        raise OSError("gone")

    questions = Questions()
    await main_box(tasks, questions, replace(POST, reach_of=reach_of)).call(
        call("post", "a"), FOREIGN_CALLER
    )

    assert questions.asked == [["post"]]
    caplog.clear()


@pytest.mark.parametrize(
    ("reach", "reason"), [(Reach.ACTS_BEYOND, FOREIGN), (Reach.DESTROYS, DESTROYS)]
)
async def test_a_run_without_approvals_is_refused_with_the_reason(
    tasks: Tasks, reach: Reach, reason: str
) -> None:
    tool = replace(POST, reach=reach)
    box = Toolbox([tool], is_subagent=True, tasks=tasks, timeout_seconds=30)

    result = await box.call(call("post", "id"), FOREIGN_CALLER)

    assert result.failed
    assert reason in result.text


@pytest.mark.parametrize(
    ("reach", "approved", "gate", "agreed"),
    [
        (Reach.CHANGES_OWN, None, None, False),
        (Reach.CHANGES_OWN, Approved(1), None, True),
        (Reach.DESTROYS, Approved(1), None, True),
        (Reach.DESTROYS, None, FakeGate(), True),
    ],
)
async def test_a_tool_knows_whether_the_user_agreed_to_its_call(
    tasks: Tasks, reach: Reach, approved: Approved | None, gate: FakeGate | None, agreed: bool
) -> None:
    seen: list[ToolContext] = []

    async def run(context: ToolContext, _: Json) -> str:
        seen.append(context)
        return "done"

    tool = replace(POST, reach=reach, run=run)
    box = Toolbox(
        [tool], is_subagent=True, tasks=tasks, timeout_seconds=30, gate=gate, approved=approved
    )

    await box.call(call("post", "id"), FOREIGN_CALLER)

    assert [(context.agreed, context.spares_former) for context in seen] == [(agreed, not agreed)]


async def test_all_calls_of_one_step_that_need_a_yes_are_one_question(
    office: Office, tasks: Tasks
) -> None:
    questions = Questions()
    stop = a_tool("stop", needs_confirmation=True)
    box = main_box(tasks, questions, POST, stop, a_tool("look"))
    calls = [call("post", "a"), call("look", "b"), call("stop", "c"), call("post", "d")]
    around = surroundings()
    around = replace(around, caller=replace(around.caller, run_id=None, foreign=True))
    model = ScriptedModel(asks_for(*calls), says("Asked."))

    await office.with_box(model, box, around)

    assert questions.asked == [["post", "stop", "post"]]
    texts = texts_of(results_shown(model.last).results)
    assert ["confirmation_asked" in text for text in texts] == [True, False, True, True]


@tool(needs_confirmation=True)
async def remove(_: ToolContext, what: str, times: int = 1) -> str:
    """Remove something."""
    return f"Removed {what} {times} times."


async def test_no_user_is_asked_about_arguments_that_cannot_be(tasks: Tasks) -> None:
    questions = Questions()
    box = main_box(tasks, questions, remove)
    around = replace(caller(), run_id=None, call_id="1.0")

    refused = await box.call(call("remove", "a", times="many"), around)

    assert questions.asked == []
    assert refused.failed
    assert "`what` is required" in refused.text
    asked = await box.call(call("remove", "b", what="x"), around)
    assert "confirmation_asked" in asked.text
    assert questions.asked == [["remove"]]


async def test_the_owner_of_a_run_is_not_asked_about_arguments_that_cannot_be(tasks: Tasks) -> None:
    gate = FakeGate()
    box = Toolbox(
        [replace(remove, needs_confirmation=False)],
        is_subagent=True,
        tasks=tasks,
        timeout_seconds=30,
        gate=gate,
        permissions=Permissions(read_rules({"remove": "ask"})),
    )

    refused = await box.call(call("remove", "a"), caller())

    assert gate.asked == []
    assert "`what` is required" in refused.text


@pytest.mark.parametrize(
    ("rule", "done"), [("ask", True), ("allow", True), ("deny", False), ("ask:lead", False)]
)
async def test_after_a_yes_the_rights_are_those_of_that_moment(
    tasks: Tasks, rule: str, done: bool
) -> None:
    class SlowGate(FakeGate):
        async def permit(self, asked: Sequence[AskedCall]) -> list[str]:
            rules.append(rule)
            return await super().permit(asked)

    async def rights() -> Rights:
        level = RightsLevel(key="r", title="a role", rules=read_rules({"post": rules[-1]}))
        return Rights((level,))

    rules, around = ["ask"], replace(caller(), rights=rights, place=Place("discord", "9", "8"))
    box = Toolbox([POST], is_subagent=True, tasks=tasks, timeout_seconds=30, gate=SlowGate())

    result = await box.call(call("post", "a"), around)

    assert result.failed is not done
    assert ("was permitted, but not done: meanwhile this applies" in result.text) is not done


async def test_an_approved_step_asks_no_more_and_later_steps_do(tasks: Tasks) -> None:
    questions = Questions()
    box = main_box(tasks, questions, POST, approved=Approved(1))

    approved = await box.call(call("post", "a"), FOREIGN_CALLER)
    later = await box.call(call("post", "b"), replace(FOREIGN_CALLER, call_id="2.0"))

    assert "done" in approved.text
    assert "confirmation_asked" in later.text


@pytest.mark.parametrize("again", [False, True])
async def test_an_approved_call_may_have_run_only_in_a_later_attempt(
    tasks: Tasks, again: bool
) -> None:
    box = main_box(tasks, Questions(), POST, approved=Approved(1, again=again))

    assert await box.may_have_begun(call("post", "a"), FOREIGN_CALLER) is again
