"""Finds runs within the caller's access and describes them; audits access by admins."""

import html
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from bot.agent.journal import entries_of
from bot.agent.messages import Answer, ToolResults, UserMessage, from_json
from bot.agent.plain import plain
from bot.agent.progress import Progress
from bot.agent.sanitizer import one_line
from bot.conversations.access import RunScope, has_admin_powers, own_scope, scope_of
from bot.errors import AmbiguousError, NotAllowedError, NotFoundError
from bot.run_texts import status_text
from bot.subagents.requests import CONTINUES, Caller, SpendingReport
from bot.subagents.resuming import continuation_id
from bot.subagents.shown_calls import logged
from bot.values import Clock, Json, short
from db import admission, audit, run_messages, run_questions, runs, spending, steps, users
from db.database import Database, Transaction
from db.run_messages import RunMessage
from db.runs import Run
from db.spending import SpendingSum

LINE = 300
#: The action in the audit log when an admin looks at the work of others; its effect names the kind.
VIEW = "view"
#: Most groups of a list of costs.
MOST_GROUPS = 10
REPORT_LINE = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDetails:
    """All details of one run.

    Attributes:
        steps: The number of model answers so far.
        asks: The open question to the owner; empty for none.
        position: The position among the owner's queued runs; `None` for a run that is not queued.
        before: The run that this one continues, or its id if that run is no longer stored.
        after: The run that continues this one.
    """

    run: Run
    steps: int
    messages: Sequence[RunMessage]
    asks: str = ""
    position: int | None = None
    before: Run | str | None = None
    after: Run | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPage:
    """One page of a run's transcript, counted from 1."""

    run: Run
    lines: tuple[str, ...]
    page: int
    pages: int


@dataclass(frozen=True, slots=True)
class Records:
    """Finds and describes runs. Gives the same answer for another user's run and a missing one."""

    database: Database
    now: Clock

    async def find(self, handle: str, caller: Caller, *, action: str) -> Run:
        """Return the one run that matches a handle.

        Args:
            handle: A unique beginning of the run's id, its label, `#n`, or `last`.
            caller: The caller, whose access limits the search.
            action: The view for the audit log, if an admin sees another user's run; empty for an
                action, which the caller records in the transaction of its effect.

        Raises:
            NotFoundError: No such run exists, or it belongs to another user.
            AmbiguousError: Several runs match; the text lists them.
        """
        typed = plain(handle).strip().strip("\"'“”`")
        own, scope = own_scope(caller), scope_of(caller)
        found: list[Run] = []
        async with self.database.snapshot() as tx:
            if typed:
                found = await runs.find(
                    tx, typed, user_id=own.owner, read_in=own.read_in, parent=caller.run_id
                )
            if typed.lower() not in {"", "last"} and not found and scope != own:
                found = await runs.find(
                    tx,
                    typed,
                    user_id=scope.owner,
                    read_in=scope.read_in,
                    began_in=scope.began_in,
                )
        if not found:
            here = "" if own.read_in is None else " that was started here"
            raise NotFoundError(
                f"You have no run “{one_line(typed, 60)}”{here}. /subagents list shows yours."
            )
        if len(found) > 1:
            states = [status_text(run.status, degraded=run.degraded).words for run in found]
            lines = "\n".join(
                f"- {short(run.id)} “{run.label}” ({words})"
                for run, words in zip(found, states, strict=True)
            )
            raise AmbiguousError(f"“{one_line(typed, 60)}” fits several runs:\n{lines}")
        run = found[0]
        if action and not own.covers(run.user_id, run.place):
            entry = caller.entry(VIEW, self.now(), owner=run.user_id, subject=run.id, effect=action)
            await self.database.write(audit.record, entry)
        return run

    async def record(
        self, tx: Transaction, action: str, run: Run, caller: Caller, effect: str = ""
    ) -> None:
        """Record an action on a run in the audit log, in its transaction.

        It is recorded once for each run, actor, and command or call of a tool.
        """
        parts = (action, run.id, caller.user.key, *(caller.key or ()))
        entry = caller.entry(
            action,
            self.now(),
            owner=run.user_id,
            subject=run.id,
            effect=effect,
            id_=audit.entry_id(*parts) if caller.key else "",
        )
        await audit.record(tx, entry)

    async def _audit_view(self, caller: Caller, what: str, *, subject: str) -> None:
        entry = caller.entry(VIEW, self.now(), subject=subject, effect=what)
        await self.database.write(audit.record, entry)

    async def list(self, caller: Caller, *, everyone: bool = False) -> tuple[list[Run], list[Run]]:
        """Return (active, ended within the last half hour) runs, newest first.

        Args:
            caller: The caller.
            everyone: True for the runs of all users, for an admin those of the server or workspace;
                only for admin commands, and audited.

        Raises:
            NotAllowedError: The runs of all users, and the caller is not an admin using a command.
        """
        if everyone and not has_admin_powers(caller, caller.place):
            raise NotAllowedError("Only admins can list everyone's runs.")
        scope = scope_of(caller) if everyone else own_scope(caller)
        parent, read_in, began_in = caller.run_id, scope.read_in, scope.began_in
        async with self.database.snapshot() as tx:
            active = await runs.active(
                tx, scope.owner, parent=parent, read_in=read_in, began_in=began_in
            )
            since = self.now() - timedelta(minutes=30)
            ended = await runs.ended_since(
                tx,
                scope.owner,
                since,
                limit=8,
                parent=parent,
                read_in=read_in,
                began_in=began_in,
            )
        if everyone:
            await self._audit_view(caller, "list", subject=_all_of(scope))
        return active, ended

    async def spending(self, caller: Caller, *, everyone: bool = False) -> SpendingReport:
        """Return the caller's tokens and costs, for everyone's with the groups that cost most.

        Raises:
            NotAllowedError: Those of all users, and the caller is not an admin using a command.
        """
        today, month = self._periods()
        top: dict[spending.Grouping, Sequence[SpendingSum]] = {}
        names: dict[str, str] = {}
        began_in = (await self._allow_spending(caller)).began_in if everyone else None
        async with self.database.snapshot() as tx:
            mine = caller.user.key
            of_today = await spending.of_user(tx, mine, today)
            of_month = await spending.of_user(tx, mine, month)
            last = await spending.of_last_turn(tx, mine, caller.place)
            for by in spending.GROUPINGS if everyone else ():
                top[by] = await spending.top(tx, by, month, limit=MOST_GROUPS, began_in=began_in)
            for each in top.get("user", ()):
                user = await users.get(tx, each.group[0])
                names[each.group[0]] = one_line(user.name, 60) if user else ""
        return SpendingReport(today=of_today, month=of_month, last=last, top=top, names=names)

    async def spending_table(self, caller: Caller) -> Sequence[SpendingSum]:
        """Return the tokens and costs of this month by user, channel, agent and model.

        Raises:
            NotAllowedError: The caller is not an admin using a command.
        """
        scope = await self._allow_spending(caller)
        _, month = self._periods()
        async with self.database.snapshot() as tx:
            return await spending.table(tx, month, began_in=scope.began_in)

    def _periods(self) -> tuple[datetime, datetime]:
        """Return the begin of this day and of this month, UTC."""
        today = self.now().replace(hour=0, minute=0, second=0, microsecond=0)
        return today, today.replace(day=1)

    async def _allow_spending(self, caller: Caller) -> RunScope:
        if not has_admin_powers(caller, caller.place):
            raise NotAllowedError("Only admins can see everyone's usage.")
        scope = scope_of(caller)
        await self._audit_view(caller, "usage", subject=_all_of(scope))
        return scope

    async def info(self, handle: str, caller: Caller) -> RunDetails:
        """Return all details of one run.

        Raises:
            NotFoundError: No such run exists, or it belongs to another user.
            AmbiguousError: Several runs match.
        """
        run = await self.find(handle, caller, action="info")
        async with self.database.snapshot() as tx:
            position = None
            if run.status == "queued":
                position = await admission.queue_position(tx, run)
            before_id = run.metadata.get(CONTINUES)
            return RunDetails(
                run=run,
                before=before_id and (await runs.get(tx, before_id) or before_id),
                after=await runs.get(tx, continuation_id(run.id)),
                steps=await steps.count(tx, run.id),
                messages=await run_messages.of_run(tx, run.id),
                asks=(await run_questions.open_of_many(tx, [run.id])).get(run.id, ""),
                position=position,
            )

    async def log(
        self, handle: str, caller: Caller, *, page: int = 1, per_page: int = 20
    ) -> LogPage:
        """Return one page of a run's log; the last page for a number beyond it.

        Raises:
            NotFoundError: No such run exists, or it belongs to another user.
            AmbiguousError: Several runs match.
        """
        run = await self.find(handle, caller, action="log")
        async with self.database.snapshot() as tx:
            transcript = await runs.transcript(tx, run.id)
            if not transcript:
                progress = Progress()
                progress.begin([], entries_of(await steps.load(tx, run.id)))
                transcript = list(progress.transcript())
        lines = [f"task: {one_line(run.task, LINE)}"]
        if before_id := run.metadata.get(CONTINUES):
            lines.append(f"continues: the run {short(before_id)}, whose log has what it did")
        for document in transcript:
            lines += _lines(document)
        if summary := run.summary:
            # The caller received a summary instead of the full report.
            lines += [f"shortened to: {one_line(summary, LINE)}", "the whole report:"]
            report = (run.result or "").splitlines()
            lines += [one_line(line, REPORT_LINE) for line in report if line.strip()]
        if run.status.final:
            lines.append(ending_line(run))
        pages = max(1, -(-len(lines) // per_page))
        page = min(max(1, page), pages)
        shown = lines[(page - 1) * per_page : page * per_page]
        return LogPage(run=run, lines=tuple(shown), page=page, pages=pages)


def _all_of(scope: RunScope) -> str:
    """Return the subject of a look at the runs of all users, for the audit log."""
    place = scope.began_in
    return f"all of {place.platform}:{place.workspace}" if place else "all"


def ending_line(run: Run) -> str:
    """Return the outcome of a run, as the last line of its log."""
    words = status_text(run.status, degraded=run.degraded).words
    why = f". {one_line(run.error, LINE)}" if run.error else ""
    return f"ended: {words}{why}"


def _lines(document: Json) -> list[str]:
    """Return a message of the transcript as lines for users."""
    match from_json(document):
        case UserMessage(text):
            return [f"told: {one_line(text, LINE)}"]
        case ToolResults(results, note):
            told = [f"told: {one_line(note, LINE)}"] if note else []
            signs = [("✗" if result.failed else "←") for result in results]
            # Models read results escaped; users read the characters themselves.
            texts = [one_line(html.unescape(result.text), LINE) for result in results]
            return [f"{sign} {text}" for sign, text in zip(signs, texts, strict=True)] + told
        case Answer() as answer:
            said = [f"said: {one_line(answer.text, LINE)}"] if answer.text.strip() else []
            return said + [logged(call) for call in answer.calls]
