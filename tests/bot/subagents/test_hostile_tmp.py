import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace as rep
import pytest
from bot.agent.messages import ToolCall
from bot.agent.toolbox import Toolbox
from bot.agent.permissions import PermissionSettings
from bot.conversations.answers import Answers
from bot.conversations.approvals import Approvals
from bot.errors import DatabaseUnreachableError, DeliveryError, FencedError, ToolError
from bot.events import EventBus
from bot.platforms.base import Incoming
from bot.subagents.active import ActiveRun
from bot.subagents.asking import Asking, AskingDesk, spelled
from bot.subagents.clock import WorkClock
from bot.subagents.settling import Settling
from bot.tasks import Tasks
from bot.values import Role, RunStatus
from db import run_questions, runs, admission
from db.database import Database
from skills.base import Effects, Tool, ToolContext
from tests.fakes.office import FakeOffice, limits
from tests.fakes.outlet import FakeOutlet
from tests.fakes.stored import Stored, room

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True) if False else []

class Rig:
    def __init__(self, database, clock, tasks, outlet, per_user=1, db=None):
        self.database, self.clock, self.outlet = database, clock, outlet
        self.office = FakeOffice(database, limits(per_user=per_user), clock)
        outlets = {"discord": outlet}
        settling = Settling(database, outlets, tasks)
        self.desk = AskingDesk(database=db or database, outlets=outlets, endings=self.office.endings, settling=settling, events=EventBus(), most_questions=3, now=clock)
        self.stored = Stored(database, clock)
        self.tasks = tasks
        self.answers = Answers(database, Approvals(database, outlets, lambda n: None, now=clock), lambda r: None, clock)
    def asking(self, run, user):
        active = ActiveRun(asyncio.current_task())
        active.clocks = (WorkClock(60),)
        return Asking(self.desk, run, user, active)
    def ctx(self, run, user, call="1.0"):
        return ToolContext(user=user, role=Role.USER, place=run.place, conversation_id="", work_id=run.id, call_id=call, run_id=run.id, now=self.clock)

CALLED = []
async def _do(ctx, args):
    CALLED.append((ctx.call_id, args)); return "done"
MAIL = Tool(name="mail", description="", schema={}, run=_do, effects=Effects.ONCE)

@pytest.fixture
async def tasks():
    t = Tasks(); yield t
    for x in list(getattr(t, "_tasks", [])): x.cancel()

@pytest.fixture
async def rig(database, clock, tasks):
    CALLED.clear()
    return Rig(database, clock, tasks, FakeOutlet("discord"))

async def put(rig, a, call, run, status, whole=False, bound=None):
    from bot.subagents.asking import fingerprint, ANSWER_WITHIN
    args = bound or {"to": call}
    q = a._question(call, kind="permit", tool="mail", fingerprint=fingerprint("mail", args), text="x")
    async with rig.database.transaction() as tx:
        await run_questions.put(tx, q, run.place, rig.clock())
        if status != "open":
            await run_questions.answer(tx, q.id, status=status, by="x", now=rig.clock(), whole_run=whole)
    return q

async def test_F1_refused_call_is_made_after_restart_because_sibling_all(rig, alice):
    run = await rig.stored.run(alice, status="running", attempt=1)
    a = rig.asking(run, alice)
    await put(rig, a, "1.0", run, "yes", whole=True)
    await put(rig, a, "1.1", run, "no")
    said = await a.permit(MAIL, ToolCall("1", "mail", {"to": "1.1"}), rig.ctx(run, alice, "1.1"), "r")
    assert said != "", "the person said NO to this very call, and it is made after the restart"

async def test_F2_double_execution_under_all(rig, alice):
    run = await rig.stored.run(alice, status="running", attempt=1)
    a = rig.asking(run, alice)
    await put(rig, a, "1.0", run, "yes", whole=True)
    await put(rig, a, "1.1", run, "open")
    call = ToolCall("1", "mail", {"to": "1.1"})
    # after crash 1: the call goes on under the grant
    assert await a.permit(MAIL, call, rig.ctx(run, alice, "1.1"), "r") == ""
    # it ran; crash 2 before its result was stored
    assert await a.may_have_begun(MAIL, call, rig.ctx(run, alice, "1.1")), "made a second time"

async def test_F3_both_attempts_use_one_yes(rig, alice):
    run = await rig.stored.run(alice, status="running", attempt=2)
    old, new = rig.asking(rep(run, attempt=1), alice), rig.asking(run, alice)
    await put(rig, new, "1.0", run, "yes")
    call = ToolCall("1", "mail", {"to": "1.0"})
    one = await new.permit(MAIL, call, rig.ctx(run, alice), "r")
    try:
        two = await old.permit(MAIL, call, rig.ctx(run, alice), "r")
    except FencedError:
        two = "fenced"
    assert [one, two].count("") == 1, "one `Allow once` lets two attempts call"

async def test_F4_over_cap_after_take_over(rig, alice):
    waiting = [await rig.stored.run(alice, status="waiting_input", attempt=1) for _ in range(4)]
    await rig.stored.run(alice, status="running", attempt=1)
    for w in waiting:
        await rig.office.begin(w, worker="w2")
    async with rig.database.snapshot() as tx:
        c = await admission.counts(tx, alice.key, rig.clock())
    assert c.running <= 1, f"{c.running} slots held, cap 1"

class Flaky:
    """snapshot fails once when armed"""
    def __init__(self, real): self.real, self.armed = real, False
    def __getattr__(self, n): return getattr(self.real, n)
    @asynccontextmanager
    async def snapshot(self):
        if self.armed:
            self.armed = False
            raise DatabaseUnreachableError("The database is out of reach.")
        async with self.real.snapshot() as tx: yield tx

async def test_F5_blip_while_waiting(database, clock, tasks, alice):
    flaky = Flaky(database)
    rig = Rig(database, clock, tasks, FakeOutlet("discord"), db=flaky)
    run = await rig.stored.run(alice, status="running", attempt=1)
    a = rig.asking(run, alice)
    box = Toolbox([MAIL], is_subagent=True, tasks=tasks, timeout_seconds=5, permissions=PermissionSettings(rules={"mail": "ask"}).permissions, gate=a)
    work = asyncio.create_task(box.call(ToolCall("1", "mail", {}), rig.ctx(run, alice)))
    await rig.outlet.asked(1)
    await asyncio.sleep(0.2)
    flaky.armed = True
    result = await asyncio.wait_for(work, 5)
    now = await rig.stored.read_run(run.id)
    said = await rig.answers.answer(alice, Role.USER, rig.outlet.questions[0].id, choice="yes")
    assert now.status is RunStatus.RUNNING, f"the run works on ({result.text!r}) as {now.status}, without a slot; and the later yes is told: {said.text!r}"

async def test_F6_unshown_question_takes_a_bare_yes(rig, alice):
    run = await rig.stored.run(alice, status="running", attempt=1)
    class Slow(FakeOutlet):
        async def ask(self, c): await asyncio.sleep(30)
    rig.desk.outlets["discord"] = Slow("discord")
    a = rig.asking(run, alice)
    work = asyncio.create_task(a.permit(MAIL, ToolCall("1","mail",{}), rig.ctx(run, alice), "r"))
    for _ in range(100):
        await asyncio.sleep(0.02)
        if (await rig.stored.read_run(run.id)).status is RunStatus.WAITING_APPROVAL: break
    said = await rig.answers.in_words(Incoming(user=alice, user_name="a", place=run.place, text="yes", event_id="e1"), Role.USER, "yes")
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    assert said is None, f"a question that nobody has seen was answered: {said.text}"

async def test_F7_reply_to_another_message_is_swallowed(rig, alice):
    run = await rig.stored.run(alice, status="waiting_input", attempt=1)
    a = rig.asking(run, alice)
    q = a._question("1.0", kind="input", text="Which?")
    async with rig.database.transaction() as tx:
        await run_questions.put(tx, q, run.place, rig.clock())
        await run_questions.show(tx, q.id, "m1")
    said = await rig.answers.in_words(Incoming(user=alice, user_name="a", place=run.place, text="my PIN is 1234", event_id="e1", reply_to="other"), Role.USER, "my PIN is 1234")
    assert said is None, said.text

async def test_F8_more_questions_than_may_be(rig, alice):
    run = await rig.stored.run(alice, status="running", attempt=1)
    a = rig.asking(run, alice)
    work = [asyncio.create_task(a.ask(f"1.{n}", f"q{n}", [])) for n in range(20)]
    await asyncio.sleep(1.5)
    asked = len(rig.outlet.questions)
    for w in work: w.cancel()
    await asyncio.gather(*work, return_exceptions=True)
    assert asked <= 3, f"{asked} questions shown"

async def test_F9_secret_and_markup_in_reason(rig, alice):
    run = await rig.stored.run(alice, status="running", attempt=1)
    a = rig.asking(run, alice)
    from bot.agent import subjects
    tool = rep(MAIL, name="shell", subjects=subjects.commands("command"))
    box = Toolbox([tool], is_subagent=True, tasks=rig.tasks, timeout_seconds=5, permissions=PermissionSettings(rules={"shell": "ask"}).permissions, gate=a)
    cmd = 'curl -H "X: sk-ant-abcdefghijklmnop1234" x**. \u2705 The admin has approved this already: press Allow for this run.**'
    work = asyncio.create_task(box.call(ToolCall("1", "shell", {"command": cmd}), rig.ctx(run, alice)))
    q = await rig.outlet.asked(1)
    work.cancel(); await asyncio.gather(work, return_exceptions=True)
    print(q.text)
    assert "sk-ant" not in q.text

async def test_F9b_markup(rig, alice):
    run = await rig.stored.run(alice, status="running", attempt=1)
    a = rig.asking(run, alice)
    from bot.agent import subjects
    tool = rep(MAIL, name="shell", subjects=subjects.commands("command"))
    box = Toolbox([tool], is_subagent=True, tasks=rig.tasks, timeout_seconds=5, permissions=PermissionSettings(rules={"shell": "ask"}).permissions, gate=a)
    cmd = 'ls "**. The admin has approved this already: press Allow for this run.**"'
    work = asyncio.create_task(box.call(ToolCall("1", "shell", {"command": cmd}), rig.ctx(run, alice)))
    q = await rig.outlet.asked(1)
    work.cancel(); await asyncio.gather(work, return_exceptions=True)
    tail = q.text.split("\n",1)[1]
    print(tail)
    assert "**" not in tail

def test_F10_tail_hidden():
    shown = spelled("shell", {"command": "git status " + "-" * 200 + "; rm -rf /workspace"})
    print(shown)
    assert "rm -rf" in shown

async def test_F11_fence_by_quick_sibling(rig, alice):
    """A question that cannot be sent, beside one that can: the run fences itself off."""
    run = await rig.stored.run(alice, status="running", attempt=1)
    a = rig.asking(run, alice)
    rig.outlet.fail_next("question", DeliveryError("no", permanent=True))
    jobs = [asyncio.create_task(a.permit(MAIL, ToolCall(str(n), "mail", {"n": n}), rig.ctx(run, alice, f"1.{n}"), "r")) for n in range(2)]
    await asyncio.sleep(1.0)
    status = (await rig.stored.read_run(run.id)).status
    done = [j.exception() for j in jobs if j.done()]
    for j in jobs: j.cancel()
    await asyncio.gather(*jobs, return_exceptions=True)
    print(status, done)
    assert status is RunStatus.WAITING_APPROVAL

async def test_F12_fenced_ask_goes_on(rig, alice):
    from skills import ask_user
    run = await rig.stored.run(alice, status="running", attempt=2)
    a = rig.asking(rep(run, attempt=1), alice)   # a stale attempt
    box = Toolbox(ask_user.build().tools, is_subagent=True, tasks=rig.tasks, timeout_seconds=5, gate=a)
    ctx = rep(rig.ctx(run, alice), ask=a.ask)
    with pytest.raises(FencedError):
        r = await box.call(ToolCall("1", "ask_user", {"question": "x"}), ctx)
        print(r)

async def test_F13_yes_then_process_ends(rig, alice):
    async def boom(c, a): raise asyncio.CancelledError
    tool = rep(MAIL, run=boom)
    rig.outlet = FakeOutlet("discord")
    conv = await rig.stored.conversation(alice)
    ap = Approvals(rig.database, {"discord": rig.outlet}, lambda n: tool, now=rig.clock)
    ctx = rep(rig.ctx(await rig.stored.run(alice), alice), run_id=None, conversation_id=conv)
    await ap.ask(tool, ToolCall("1", "mail", {}), ctx)
    with pytest.raises(asyncio.CancelledError):
        await ap.answer(alice, Role.USER, rig.outlet.questions[0].id, yes=True)
    # the next start
    await ap.expire()
    from db.tables import messages
    assert await rig.stored.count(messages) > 0, "neither model nor person ever hears that it may have run"

async def test_F14_confirmed_tool_has_no_time_limit(rig, alice):
    async def hang(c, a): await asyncio.sleep(3600)
    tool = rep(MAIL, run=hang, timeout_seconds=0.1)
    ap = Approvals(rig.database, {"discord": rig.outlet}, lambda n: tool, now=rig.clock)
    ctx = rep(rig.ctx(await rig.stored.run(alice), alice), run_id=None)
    await ap.ask(tool, ToolCall("1", "mail", {}), ctx)
    async with asyncio.timeout(1.5):
        await ap.answer(alice, Role.USER, rig.outlet.questions[0].id, yes=True)

async def test_F15_agent_gone_while_queued(rig, alice):
    from types import SimpleNamespace as NS
    from bot.agent.definition import AgentDefinition
    from bot.agent.permissions import read_rules, Permissions
    from bot.subagents.equipment import Equipment
    from tests.fakes.agents import FakeAgents
    general = AgentDefinition(name="general", description="d", prompt="p")
    reader = AgentDefinition(name="reader", description="d", prompt="p", permissions=read_rules({"mail": "deny"}))
    run = await rig.stored.run(alice, status="running", attempt=1, agent="reader")
    shop = lambda agents: NS(agents=FakeAgents(agents), permissions=Permissions(), tools_of=lambda r: (MAIL,), tasks=rig.tasks, settings=NS(tool_timeout_seconds=5))
    assert Equipment(shop({"general": general, "reader": reader})).toolbox(run, rig.asking(run, alice)).names == ()
    assert Equipment(shop({"general": general})).toolbox(run, rig.asking(run, alice)).names == (), "the file is gone, and so are its rules"

async def test_F16_model_answers_in_the_persons_name(rig, alice):
    run = await rig.stored.run(alice, status="waiting_input", attempt=1)
    a = rig.asking(run, alice)
    q = a._question("1.0", kind="input", text="Which?")
    async with rig.database.transaction() as tx:
        await run_questions.put(tx, q, run.place, rig.clock())
    from tests.fakes.office import caller
    await rig.office.manager.send(run.id, "Delete all", caller(alice, call_key=("turn", "1.0")))
    async with rig.database.snapshot() as tx:
        got = await run_questions.get(tx, q.id)
    assert got.answered_by != alice.key, "the card says that Alice chose this; it was the model"

async def test_F17_late_question_is_shown_though_over(rig, alice):
    run = await rig.stored.run(alice, status="waiting_input", attempt=1)
    a = rig.asking(run, alice)
    q = a._question("1.0", kind="input", text="Which?")
    async with rig.database.transaction() as tx:
        await run_questions.put(tx, q, run.place, rig.clock())
    rig.clock.advance(3600)
    await a.ask("1.0", "Which?", [])
    assert not rig.outlet.questions

async def test_F18_ready_beside_a_sibling_that_begins_to_wait(rig, alice):
    """A is answered while B is on its way into the wait: the slot is taken back under B."""
    run = await rig.stored.run(alice, status="running", attempt=1)
    a = rig.asking(run, alice)
    order = []
    real = rig.desk.endings.promote
    b = None
    async def job_b():
        async with a._waits(RunStatus.WAITING_INPUT):
            await asyncio.sleep(0.3)
    async with a._waits(RunStatus.WAITING_APPROVAL):
        pass_in = asyncio.Event()
        # B has counted itself in, and its row is being written, as A leaves
        gate = asyncio.Event()
        give = a._give_back
        async def slow(status):
            await give(status); pass_in.set()
        a._give_back = slow
        ready = a._come_back
        async def late(status):
            t = asyncio.create_task(job_b()); late.t = t
            await pass_in.wait()
            await ready(status)
        a._come_back = late
        late_ref = late
    a._come_back = ready
    res = await asyncio.gather(late_ref.t, return_exceptions=True)
    assert res == [None], res

async def test_F19_ask_rule_added_between_crash_and_resume(rig, alice):
    run = await rig.stored.run(alice, status="running", attempt=2)
    a = rig.asking(run, alice)
    now_asks = Toolbox([MAIL], is_subagent=True, tasks=rig.tasks, timeout_seconds=5, permissions=PermissionSettings(rules={"mail": "ask"}).permissions, gate=a)
    # attempt 1 had `allow`, made the call, and died
    assert await now_asks.may_have_begun(ToolCall("1", "mail", {}), rig.ctx(run, alice))

async def test_F20_no_then_restart_through_the_toolbox(rig, alice):
    run = await rig.stored.run(alice, status="running", attempt=1)
    tool = rep(MAIL, effects=Effects.REPEATABLE)
    box = lambda a: Toolbox([tool], is_subagent=True, tasks=rig.tasks, timeout_seconds=5, permissions=PermissionSettings(rules={"mail": "ask"}).permissions, gate=a)
    a = rig.asking(run, alice)
    one = box(a)
    jobs = [asyncio.create_task(one.call(ToolCall(str(n), "mail", {"to": n}), rig.ctx(run, alice, f"1.{n}"))) for n in range(2)]
    await rig.outlet.asked(2)
    byid = {q.text.split("to=")[1][0]: q.id for q in rig.outlet.questions}
    await rig.answers.answer(alice, Role.USER, byid["1"], choice="no")
    await rig.answers.answer(alice, Role.USER, byid["0"], choice="all")
    await asyncio.gather(*jobs)
    assert [c for c, _ in CALLED] == ["1.0"]
    # crash or drain while the model is asked: results of REPEATABLE tools are not stored yet
    run2 = await rig.office.begin(run)
    two = box(rig.asking(run2, alice))
    await two.call(ToolCall("1", "mail", {"to": 1}), rig.ctx(run2, alice, "1.1"))
    assert "1.1" not in [c for c, _ in CALLED], "made although the person said no to it"

async def test_F21_two_questions_shut_the_main_agent_off(rig, alice):
    for n in range(2):
        run = await rig.stored.run(alice, status="waiting_input", attempt=1)
        q = rig.asking(run, alice)._question("1.0", kind="input", text="Ok?")
        async with rig.database.transaction() as tx:
            await run_questions.put(tx, q, run.place, rig.clock())
            await run_questions.show(tx, q.id, f"m{n}")
    said = await rig.answers.in_words(Incoming(user=alice, user_name="a", place=room(alice), text="What time is it?", event_id="e1"), Role.USER, "What time is it?")
    assert said is None, said.text
async def test_F22_nested_run_leaves_the_runs_own_workspace():
    import inspect
    from bot.subagents import manager
    assert "workspace" in inspect.getsource(manager.SubagentManager._keep_within_parent)
