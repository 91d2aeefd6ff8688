"""The toolbox: scoped when listed and when called, and a result whatever goes wrong."""

import asyncio
import json
import logging
import time
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.agent.credentials import CredentialLog
from bot.agent.messages import ToolCall, ToolResult, with_unique_ids
from bot.agent.permissions import Decision, Permissions, read_rules
from bot.agent.protocols import AskedCall
from bot.agent.subjects import argument
from bot.agent.toolbox import (
    GRACE_SECONDS,
    MAX_RESULT_CHARACTERS,
    Toolbox,
    may_have_run,
)
from bot.errors import BotError, DatabaseUnreachableError, LimitReachedError, NotAllowedError
from bot.rights.effective import Rights
from bot.rights.settings import RoleSettings
from bot.tasks import Tasks
from bot.values import Identity, Json
from db.audit import Filter, newest
from db.database import Database
from skills.base import Effects, Tool, ToolContext, ToolError, tool
from tests.bot.agent.things import Hung, Run, a_tool
from tests.fakes.around import FakeTimer, caller
from tests.fakes.scripted_model import call

OTHER = Identity("discord", "", "77")


class Box:
    """A toolbox in somebody's hands."""

    def __init__(self, tasks: Tasks, *, is_subagent: bool = True) -> None:
        self.tasks = tasks
        self.is_subagent = is_subagent

    def of(self, *tools: Tool, seconds: float = 30) -> Toolbox:
        return Toolbox(
            tools, is_subagent=self.is_subagent, tasks=self.tasks, timeout_seconds=seconds
        )

    async def result(
        self,
        run: Run,
        *,
        own: float | None = None,
        all_tools: float = 30,
        left: float | None = None,
    ) -> ToolResult:
        """Call a tool that does this."""
        box = self.of(a_tool("look", run, seconds=own), seconds=all_tools)
        async with asyncio.timeout(20):
            timer = FakeTimer(over_at=None if left is None else time.monotonic() + left)
            return await box.call(call("look", "id"), caller(), left=timer.left)


@pytest.fixture
def box(tasks: Tasks) -> Box:
    return Box(tasks)


async def test_a_tool_is_listed_as_the_model_reads_it_and_called(box: Box) -> None:
    @tool()
    async def add(_: ToolContext, a: int, b: int = 1) -> str:
        """Add two numbers."""
        return str(a + b)

    tools = box.of(add)

    (described,) = tools.descriptions
    assert (described.name, described.description) == ("add", "Add two numbers.")
    assert described.schema["required"] == ["a"]
    assert await tools.call(call("add", "id", a=2), caller()) == ToolResult(
        "id", "3", foreign=True, private=True
    )


async def test_the_use_of_a_credential_is_recorded_before_the_call_and_once_for_its_work(
    box: Box, database: Database
) -> None:
    called: list[str] = []

    @tool(credential="rest shop")
    async def order(context: ToolContext) -> str:
        """Order."""
        called.append(context.work_id)
        return "Done."

    tools, record = box.of(order), CredentialLog(database).record
    first = replace(caller(), credential_used=record)
    for _ in range(2):
        await tools.call(call("order", "id"), first)
    again = replace(first, credential_used=CredentialLog(database).record)
    await tools.call(call("order", "id"), again)
    other = replace(
        again, user=OTHER, work_id="another", credential_used=CredentialLog(database).record
    )
    await tools.call(call("order", "id"), other)

    found = await database.read(newest, Filter(), limit=9)
    assert len(called) == 4
    assert {(each.entry.actor, each.entry.action, each.entry.subject) for each in found} == {
        (first.user.key, "credential", "rest shop"),
        (OTHER.key, "credential", "rest shop"),
    }
    assert len(found) == 2


async def test_a_call_whose_credential_cannot_be_recorded_is_not_made(box: Box) -> None:
    called: list[str] = []

    @tool(credential="rest shop")
    async def order(_: ToolContext) -> str:
        """Order."""
        called.append("yes")
        return "Done."

    async def fail(_: ToolContext, __: str) -> None:
        raise DatabaseUnreachableError("no answer")

    with pytest.raises(DatabaseUnreachableError):
        await box.of(order).call(call("order", "id"), replace(caller(), credential_used=fail))
    assert called == []


async def test_an_unknown_tool_is_refused_with_the_names_of_those_there_are(
    box: Box, caplog: pytest.LogCaptureFixture
) -> None:
    tools = box.of(a_tool("look"), a_tool("listen"))

    result = await tools.call(call("fly", "id"), caller())

    assert result.failed
    assert result.text == "You have no tool 'fly'. Your tools: look, listen."
    assert "Refused the tool fly" in caplog.text


async def test_control_characters_of_a_made_up_tool_name_never_reach_the_log(
    box: Box, caplog: pytest.LogCaptureFixture
) -> None:
    name = "fly\x1b]0;owned\x07\r\nINFO all is well\x9b31m\u202e\x00"

    await box.of(a_tool("look")).call(call(name, "id"), caller())

    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("Refused the tool fly")
    assert line.isprintable()


async def test_a_subagent_never_has_what_is_for_the_main_agent_only(box: Box) -> None:
    tools = box.of(a_tool("look"), a_tool("boss", main_agent_only=True))

    assert tools.names == ("look",)
    assert [item.name for item in tools.descriptions] == ["look"]
    result = await tools.call(call("boss"), caller())
    assert result.failed
    assert "You have no tool 'boss'" in result.text


async def test_even_from_the_main_agents_box_a_run_cannot_call_it(tasks: Tasks) -> None:
    made: list[str | None] = []

    async def run(context: ToolContext, _: Json) -> str:
        made.append(context.run_id)
        return "done"

    tools = Box(tasks, is_subagent=False).of(a_tool("boss", run, main_agent_only=True))
    assert tools.names == ("boss",)

    refused = await tools.call(call("boss"), caller(run_id="run-1"))
    allowed = await tools.call(call("boss"), caller(run_id=None))

    assert (refused.failed, allowed.failed) == (True, False)
    assert made == [None]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (ToolCall("id", "look", malformed='{"a": '), "no JSON object"),
        (call("look", "id", text=json.loads("[" * 60 + "]" * 60)), "nested too deeply"),
        (call("look", "id", text="x" * 100_001), "too long"),
        (call("look", "id", **{f"a{n}": 1 for n in range(101)}), "too long"),
    ],
)
async def test_arguments_that_make_no_sense_are_refused_and_nothing_is_called(
    box: Box, asked: ToolCall, said: str
) -> None:
    hung = Hung()

    result = await box.of(a_tool("look", hung)).call(asked, caller())

    assert (result.call_id, result.failed) == ("id", True)
    assert said in result.text
    assert not hung.begun.is_set()


@pytest.mark.parametrize(
    "error",
    [ToolError("Give a shorter word."), LimitReachedError("You have 3 of 3 runs.", limit="x")],
)
async def test_what_a_tool_says_about_its_failure_reaches_the_model(
    box: Box, error: Exception
) -> None:
    async def fail(_: ToolContext, __: Json) -> str:
        raise error

    assert await box.result(fail) == ToolResult("id", str(error), failed=True)


async def test_a_call_that_an_outage_has_stopped_is_not_taken_for_work_that_goes_on(
    box: Box,
) -> None:
    async def fail(_: ToolContext, __: Json) -> str:
        raise DatabaseUnreachableError("It cannot be reached. What is under way continues.")

    result = await box.result(fail)

    assert result.failed
    assert result.text.startswith("It cannot be reached.")
    assert "This call is not repeated by itself" in result.text


async def test_a_broken_tool_is_logged_and_its_cause_is_kept_from_the_model(
    box: Box, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(_: ToolContext, __: Json) -> str:
        raise RuntimeError("password is hunter2")

    result = await box.result(fail)

    assert result.failed
    assert "failed on our side" in result.text
    assert "hunter2" not in result.text
    assert "hunter2" in caplog.text


async def test_a_tool_that_returns_no_text_is_a_broken_tool(box: Box) -> None:
    async def forget(_: ToolContext, __: Json) -> str:
        return None  # type: ignore[return-value]

    result = await box.result(forget)

    assert result.failed
    assert "failed on our side" in result.text


async def test_a_tool_whose_own_work_was_cancelled_is_no_cancelled_work(box: Box) -> None:
    async def fail(_: ToolContext, __: Json) -> str:
        raise asyncio.CancelledError

    result = await box.result(fail)

    assert result.failed
    assert "cancelled" in result.text
    assert "seconds" not in result.text


@pytest.mark.parametrize(("own", "all_tools"), [(0.01, 30), (None, 0.01)])
async def test_a_tool_that_hangs_is_stopped_at_its_own_time_or_at_that_of_all(
    box: Box, own: float | None, all_tools: float
) -> None:
    hung = Hung()

    result = await box.result(hung, own=own, all_tools=all_tools)

    assert result.failed
    assert "did not answer within 0.01 seconds" in result.text
    assert hung.cancelled.is_set()
    assert len(box.tasks) == 0


async def test_a_tool_gets_no_more_time_than_the_work_has_left(box: Box) -> None:
    hung = Hung()

    result = await box.result(hung, left=0.3)

    assert result.failed
    assert "the time of this work is up" in result.text
    assert hung.cancelled.is_set()


async def test_a_tool_is_not_begun_when_no_time_is_left(box: Box) -> None:
    hung = Hung()

    result = await box.result(hung, left=-1)

    assert result.failed
    assert "the time of this work is up" in result.text
    assert not hung.begun.is_set()


async def test_a_tool_that_ignores_being_cancelled_is_left_behind_and_reported(
    box: Box, caplog: pytest.LogCaptureFixture
) -> None:
    hung = Hung(ignores=1)

    result = await box.result(hung, own=0.01)

    assert "did not answer" in result.text
    assert (hung.cancelled.is_set(), len(box.tasks)) == (True, 1)
    assert "The tool look ignores being cancelled" in caplog.text
    hung.released.set()
    await box.tasks.wait_idle(5)
    assert len(box.tasks) == 0


async def test_work_that_is_cancelled_does_not_wait_for_a_tool_that_ignores_it(box: Box) -> None:
    hung = Hung(ignores=1)
    async with asyncio.timeout(GRACE_SECONDS + 10), asyncio.TaskGroup() as group:
        work = group.create_task(box.result(hung))
        await hung.begun.wait()
        work.cancel()

    assert work.cancelled()
    assert hung.cancelled.is_set()
    hung.released.set()
    await box.tasks.wait_idle(5)


async def test_results_are_made_plain_and_cut_visibly(box: Box) -> None:
    async def shout(_: ToolContext, __: Json) -> str:
        return "\x1b[31mred\x00 " + "x" * (MAX_RESULT_CHARACTERS + 10)

    result = await box.result(shout)

    assert result.text.startswith("red\ufffd x")
    assert len(result.text) <= MAX_RESULT_CHARACTERS
    assert result.text.endswith("[… cut here]")
    assert not result.failed


class FakeApprover:
    """Asks nobody, and says what it is told to."""

    def __init__(self, error: Exception | None = None) -> None:
        self.asked: list[tuple[str, Json]] = []
        self.questions = 0
        self._error = error

    async def ask(self, asked: Sequence[AskedCall]) -> Sequence[Json | BotError]:
        self.asked += [(each.tool.name, each.call.arguments) for each in asked]
        self.questions += 1
        if self._error is not None:
            raise self._error
        return [{"status": "confirmation_asked"} for _ in asked]


async def confirmed(tasks: Tasks, approver: FakeApprover | None, hung: Hung) -> ToolResult:
    tools = Toolbox(
        [a_tool("stop", hung, needs_confirmation=True)],
        is_subagent=False,
        tasks=tasks,
        timeout_seconds=30,
        approver=approver,
    )
    return await tools.call(call("stop", "id", run="x"), caller(run_id=None))


async def test_what_needs_a_yes_is_asked_for_and_not_done(tasks: Tasks) -> None:
    hung, approver = Hung(), FakeApprover()

    result = await confirmed(tasks, approver, hung)

    assert result == ToolResult("id", '{"status": "confirmation_asked"}')
    assert approver.asked == [("stop", {"run": "x"})]
    assert not hung.begun.is_set()


async def test_with_nobody_to_ask_the_answer_is_no(tasks: Tasks) -> None:
    hung = Hung()

    result = await confirmed(tasks, None, hung)

    assert result.failed
    assert "no one to ask" in result.text
    assert not hung.begun.is_set()


@pytest.mark.parametrize(
    ("error", "said"),
    [(ToolError("There is no such run."), "no such run"), (RuntimeError("secret"), "our side")],
)
async def test_a_question_that_cannot_be_asked_is_told_to_the_model(
    tasks: Tasks, error: Exception, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    hung = Hung()

    result = await confirmed(tasks, FakeApprover(error), hung)

    assert result.failed
    assert said in result.text
    assert "secret" not in result.text
    assert not hung.begun.is_set()


async def test_effects_are_those_of_the_tool_and_an_unknown_one_has_none(box: Box) -> None:
    tools = box.of(a_tool("send", effects=Effects.ONCE), a_tool("look", effects=Effects.NONE))

    assert [tools.effects(name) for name in ("send", "look", "fly")] == [
        Effects.ONCE,
        Effects.NONE,
        Effects.NONE,
    ]


def test_what_may_have_run_is_told_so() -> None:
    result = may_have_run(call("send", "id"))

    assert (result.call_id, result.failed) == ("id", True)
    assert result.text.startswith("send may have run")


ids = st.sampled_from(["", "a", "b", "_0", "_1", "a_1", "a_2", "a_1_2", "b_3"])


@given(st.lists(ids, max_size=12))
def test_every_call_gets_an_id_of_its_own(given_ids: list[str]) -> None:
    calls = tuple(ToolCall(one, "look", {"n": n}) for n, one in enumerate(given_ids))

    unique = with_unique_ids(calls)

    assert all(item.id for item in unique)
    assert len({item.id for item in unique}) == len(calls)
    assert [item.arguments for item in unique] == [item.arguments for item in calls]
    if "" not in given_ids and len(set(given_ids)) == len(given_ids):
        assert unique == calls


# -- permissions -----------------------------------------------------------------------------------


class FakeGate:
    """Asks nobody, and answers as it is told to."""

    def __init__(self, refusal: str = "", *, begun: bool = False) -> None:
        self.asked: list[tuple[str, str]] = []
        self._refusal = refusal
        self._begun = begun

    async def permit(self, asked: Sequence[AskedCall]) -> list[str]:
        self.asked += [(each.tool.name, each.reason) for each in asked]
        return [self._refusal for _ in asked]

    async def begin(self, _: Tool, __: ToolCall, ___: ToolContext) -> str:
        return ""

    async def may_have_begun(self, _: ToolCall, __: ToolContext) -> bool:
        return self._begun


def with_rules(
    tasks: Tasks, rules: Json, gate: FakeGate | None = None, **further: object
) -> Toolbox:
    """Return a toolbox with `look`, which changes something, under these rules."""

    async def look(_: ToolContext, __: Json) -> str:
        return "Seen."

    looks = replace(a_tool("look", look), subjects=argument("what"), **further)  # type: ignore[arg-type]
    return Toolbox(
        [looks],
        is_subagent=True,
        tasks=tasks,
        timeout_seconds=30,
        permissions=Permissions(read_rules(rules)),
        gate=gate,
    )


async def test_a_tool_that_is_denied_is_not_listed_and_not_called(tasks: Tasks) -> None:
    box = with_rules(tasks, {"look": "deny"})
    result = await box.call(call("look", "id"), caller())

    assert box.descriptions == ()
    assert result.failed
    assert "You have no tool 'look'" in result.text


@pytest.mark.parametrize(
    ("effects", "failed"),
    [(Effects.NONE, False), (Effects.REPEATABLE, True), (Effects.ONCE, True)],
)
async def test_the_default_is_about_calls_that_change_something(
    tasks: Tasks, effects: Effects, *, failed: bool
) -> None:
    box = Toolbox(
        [a_tool("look", effects=effects)],
        is_subagent=True,
        tasks=tasks,
        timeout_seconds=30,
        permissions=Permissions(default=Decision.DENY),
    )

    assert (await box.call(call("look", "id"), caller())).failed == failed


async def test_what_is_denied_on_some_things_is_listed_and_refused_on_them(tasks: Tasks) -> None:
    box = with_rules(tasks, {"look:secret*": "deny"})
    refused = await box.call(call("look", "id", what="secrets"), caller())
    seen = await box.call(call("look", "id", what="sea"), caller())

    assert refused.text == (
        "Permission denied: the rule `look:secret*: deny` is about look on `secrets`."
    )
    assert (refused.failed, seen.text) == (True, "Seen.")


async def test_what_must_be_asked_is_refused_where_nobody_is_asked(tasks: Tasks) -> None:
    result = await with_rules(tasks, {"look": "ask"}).call(call("look", "id"), caller())

    assert result.failed
    assert result.text == (
        "Permission required: the rule `look: ask` is about look. "
        "Subagents cannot request user permission."
    )


@pytest.mark.parametrize("refusal", ["", "The user said no."])
async def test_what_must_be_asked_is_asked_and_done_after_a_yes_only(
    tasks: Tasks, refusal: str
) -> None:
    gate = FakeGate(refusal)
    result = await with_rules(tasks, {"look": "ask"}, gate).call(call("look", "id"), caller())

    assert gate.asked == [("look", "the rule `look: ask` is about look")]
    assert (result.text, result.failed) == (refusal or "Seen.", bool(refusal))


@pytest.mark.parametrize(
    ("rules", "gate", "begun"),
    [
        ({}, None, True),
        ({"look:*x*": "deny"}, None, True),
        ({"look": "ask"}, None, True),
        ({}, FakeGate(begun=False), False),
        ({"look": "ask"}, FakeGate(begun=False), False),
        ({"look": "ask"}, FakeGate(begun=True), True),
    ],
)
async def test_only_a_question_tells_that_a_call_was_not_made_before_a_crash(
    tasks: Tasks, rules: Json, gate: FakeGate | None, begun: bool
) -> None:
    box = with_rules(tasks, rules, gate, effects=Effects.ONCE)

    assert await box.may_have_begun(call("look", "id", what="x"), caller()) is begun


async def test_time_that_stands_still_is_not_used_up(tasks: Tasks) -> None:
    done = asyncio.Event()

    async def wait(_: ToolContext, __: Json) -> str:
        await done.wait()
        return "Done."

    looks = 0

    def left() -> float:
        nonlocal looks
        looks += 1
        if looks > 5:
            done.set()
        return 0.01

    box = Toolbox([a_tool("wait", wait)], is_subagent=True, tasks=tasks, timeout_seconds=30)
    async with asyncio.timeout(10):
        result = await box.call(call("wait", "id"), caller(), left=left)

    assert result.text == "Done."


# -- the rights of the user ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("role", "tool_name", "arguments", "refusal"),
    [
        ({"tools": ["look"]}, "look", {}, ""),
        ({"tools": []}, "look", {}, "the role `guest` does not include the tool `look`"),
        ({"denied_tools": ["lo*"]}, "look", {}, "the role `guest` does not include the tool"),
        (
            {"permissions": {"look": "deny"}},
            "look",
            {},
            "the rule `look: deny` of the role",
        ),
        ({"skills": ["forms"]}, "skill_read", {"name": "forms"}, ""),
        ({"skills": []}, "skill_read", {"name": "forms"}, "the skill `forms`"),
        ({"skills": []}, "skill_read", {}, ""),
    ],
)
@pytest.mark.parametrize("is_subagent", [True, False])
async def test_a_call_is_refused_that_the_role_of_the_user_does_not_include(
    tasks: Tasks, role: Json, tool_name: str, arguments: Json, refusal: str, is_subagent: bool
) -> None:
    level = RoleSettings.model_validate(role).level("roles.named.guest", "the role `guest`")
    made = a_tool(tool_name, lambda *_: asyncio.sleep(0, "seen"))
    tools = Box(tasks, is_subagent=is_subagent).of(made)

    async def rights() -> Rights:
        return Rights((level,), "guest")

    result = await tools.call(
        ToolCall("id", tool_name, arguments), replace(caller(), rights=rights)
    )

    assert tools.names == (tool_name,)
    assert result.failed is bool(refusal)
    assert (refusal or "seen") in result.text


@pytest.mark.parametrize(("rule", "reads"), [("allow", 0), ("ask", 1)])
async def test_standing_grants_are_read_for_a_decision_that_they_could_change(
    tasks: Tasks, rule: str, reads: int
) -> None:
    read: list[str] = []

    async def granted() -> frozenset[str]:
        read.append("read")
        return frozenset({"look: ask"})

    async def rights() -> Rights:
        return Rights(always=granted)

    permissions = Permissions(read_rules({"look": rule}))
    tools = Toolbox(
        [a_tool("look", lambda *_: asyncio.sleep(0, "seen"))],
        is_subagent=True,
        tasks=tasks,
        timeout_seconds=30,
        permissions=permissions,
    )

    result = await tools.call(call("look", "id"), replace(caller(), rights=rights))

    assert len(read) == reads
    assert "seen" in result.text


async def test_a_call_is_refused_while_the_role_of_the_user_is_unknown(tasks: Tasks) -> None:
    tools = Box(tasks).of(a_tool("look", lambda *_: asyncio.sleep(0, "seen")))

    async def rights() -> Rights:
        raise NotAllowedError("I cannot check your role here at the moment.")

    result = await tools.call(call("look", "id"), replace(caller(), rights=rights))

    text = "Permission denied: I cannot check your role here at the moment."
    assert (result.failed, result.text) == (True, text)
