"""Carries out `/subagents` and the other commands for all platforms, without a model."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from bot.agent.sanitizer import one_line
from bot.catalog.agents import Agents, described
from bot.conversations.access import has_admin_powers
from bot.conversations.agent_lines import agents_text
from bot.conversations.command_lines import (
    ACTIONS,
    NAMES,
    USAGE,
    handle_and_rest,
    help_text,
    needs,
    parse_spawn,
    typed,
)
from bot.conversations.run_lines import info_text, named, run_line, spawned_text, usage_text
from bot.conversations.undo import Undo
from bot.errors import BadRequestError, BotError
from bot.platforms.base import CommandReply, Overview
from bot.run_texts import status_text
from bot.subagents.manager import SubagentManager
from bot.subagents.progress import card_of
from bot.subagents.records import Records
from bot.subagents.requests import Caller
from bot.subagents.wording import report, title
from bot.values import Clock, short
from db import commands as stored
from db import conversations, outbox
from db.database import Database

Handler = Callable[[str, Caller], Awaitable[CommandReply]]

#: Commands whose answers hold nothing of a user's runs. All other answers are private.
PUBLIC = frozenset({"new", "model", "help"})
PUBLIC_ACTIONS = frozenset({"spawn", "agents", "help"})
NOT_WAITING = "That result is not waiting to be delivered."


class ChatCommand(Protocol):
    """A command of a skill, for admins."""

    async def run(self, words: str, caller: Caller) -> CommandReply:
        """Carry out the words after the command.

        Raises:
            BotError: The command cannot be carried out; the text has the reason.
        """
        ...

    def help(self, platform: str) -> str:
        """Return its forms as users of a platform type them, Markdown."""
        ...


class Choosable(Protocol):
    """The models that users may choose."""

    def named(self, name: str) -> str:
        """Return the model of a name as `provider/model`; the default model for an empty name.

        Raises:
            BadRequestError: No such model may be chosen; the text lists the models that may.
        """
        ...

    def kept(self, name: str) -> str:
        """Return a model chosen earlier, or the default if it may no longer be chosen."""
        ...

    def names(self) -> list[str]:
        """Return all models that may be chosen, the default first."""
        ...


@dataclass(frozen=True, slots=True)
class Commands:
    """Carries out commands that users type, click or pick.

    Attributes:
        for_admins: The commands of skills, by name.
        undo: Takes back deletions and replacements; `None` without undo.
    """

    database: Database
    manager: SubagentManager
    records: Records
    agents: Agents
    models: Choosable
    now: Clock
    for_admins: Mapping[str, ChatCommand] = field(default_factory=dict)
    undo: Undo | None = None

    async def run(self, text: str, caller: Caller) -> CommandReply:
        """Carry out a command line such as `/subagents stop 1a2b`.

        A command that cannot be carried out is answered with the reason and a way that works.
        """
        name, _, rest = text.strip().removeprefix("/").partition(" ")
        handlers: dict[str, Handler] = {
            "subagents": self._subagents,
            "subagent": self._subagents,
            "new": self._new,
            "model": self._model,
            "help": self._help,
        }
        if self.undo is not None:
            handlers["undo"] = self.undo.run
        if has_admin_powers(caller):
            handlers |= {each: command.run for each, command in self.for_admins.items()}
        handler = handlers.get(name.lower())
        if handler is None:
            return _unknown(name.lower(), caller.place.platform)
        try:
            reply = await handler(rest.strip(), caller)
        except BotError as error:
            reply = CommandReply(text=str(error), failed=True)
        return replace(reply, private=not _is_public(name.lower(), rest.lower().split()))

    async def _subagents(self, rest: str, caller: Caller) -> CommandReply:
        action, _, words = rest.partition(" ")
        handlers: dict[str, Handler] = {
            "": self._list,
            "list": self._list,
            "ls": self._list,
            "stop": self._stop,
            "kill": self._stop,
            "log": self._log,
            "info": self._info,
            "send": self._send,
            "spawn": self._spawn,
            "resume": self._resume,
            "usage": self._usage,
            "agents": self._agents,
            "read": self._read,
            "retry": self._retry,
            "dismiss": self._dismiss,
            "help": self._help,
        }
        handler = handlers.get(action.lower())
        if handler is None:
            known = ", ".join(ACTIONS)
            return CommandReply(
                text=f"/subagents {one_line(action, 30)} is unknown. There are: {known}.",
                failed=True,
            )
        return await handler(words.strip(), caller)

    async def overview(self, caller: Caller) -> Overview:
        """Return a user's runs, usage and agents at a glance."""
        active, ended = await self.records.list(caller)
        return Overview(
            active=tuple(card_of(run, caller.user) for run in active),
            ended=tuple(card_of(run, caller.user) for run in ended),
            usage=usage_text(await self.manager.usage(caller)),
            agents=tuple(described(self.agents)),
        )

    # -- watching --------------------------------------------------------------------------------

    async def _list(self, words: str, caller: Caller) -> CommandReply:
        active, ended = await self.records.list(caller, everyone=words.lower() == "all")
        async with self.database.snapshot() as tx:
            kept = await outbox.blocked(tx, caller.user.key, limit=8)
        if not active and not ended and not kept:
            return CommandReply(
                text="No runs are going on. Ask me for something that takes a while, or type "
                "`/subagents spawn TASK`."
            )
        lines = [f"**Active runs** ({len(active)})", *(run_line(run, self.now()) for run in active)]
        if ended:
            lines += ["", "**Recently finished**", *(run_line(run, self.now()) for run in ended)]
        if kept:
            lines += ["", "**Could not be delivered** – `/subagents read ID`, `retry` or `dismiss`"]
            lines += [f"- `{item.handle}` {one_line(item.title, 120)}" for item in kept]
        return CommandReply(text="\n".join(lines))

    async def _info(self, words: str, caller: Caller) -> CommandReply:
        needs(words, "info")
        return CommandReply(text=info_text(await self.records.info(words, caller)))

    async def _log(self, words: str, caller: Caller) -> CommandReply:
        needs(words, "log")
        handle, page = words, 1
        head, _, last = words.rpartition(" ")
        if head and last.isdecimal() and not words.endswith(('"', "”")):
            handle, page = head, int(last[:6])
        found = await self.records.log(handle, caller, page=page)
        run = found.run
        title = f"Log of **{run.label}** (`{short(run.id)}`), page {found.page} of {found.pages}"
        body = "\n".join(f"- {line}" for line in found.lines)
        more = ""
        if found.page < found.pages:
            more = f"/subagents log {short(run.id)} {found.page + 1}"
        return CommandReply(text=f"{title}\n{body}", more=more)

    async def _usage(self, _: str, caller: Caller) -> CommandReply:
        return CommandReply(text=usage_text(await self.manager.usage(caller)))

    async def _agents(self, _: str, caller: Caller) -> CommandReply:
        return CommandReply(text=agents_text(self.agents, self.manager.settings))

    # -- steering --------------------------------------------------------------------------------

    async def _stop(self, words: str, caller: Caller) -> CommandReply:
        needs(words, "stop")
        stopped = await self.manager.stop(words, caller)
        if not stopped:
            return CommandReply(text="Nothing to stop: it is over already.")
        names = ", ".join(f"“{run.label}” (`{short(run.id)}`)" for run in stopped)
        began = any(
            run.started_at is not None and run.announce != "silent" and run.mode == "async"
            for run in stopped
        )
        follows = " What it has so far follows." if began else ""
        return CommandReply(text=f"Stopping {names}.{follows}")

    async def _send(self, words: str, caller: Caller) -> CommandReply:
        handle, message = handle_and_rest(words)
        if not handle or not message:
            raise BadRequestError(f"Usage: {USAGE['send']}")
        return CommandReply(text=await self.manager.send(handle, message, caller))

    async def _spawn(self, words: str, caller: Caller) -> CommandReply:
        request = parse_spawn(words)
        spawned = await self.manager.spawn(request, caller)
        run = spawned.run
        text = f"✅ Started “{run.label}” ({named(run)})."
        told = "" if run.announce == "silent" else " The result will be announced here."
        return CommandReply(text=spawned_text(spawned, text, told))

    async def _resume(self, words: str, caller: Caller) -> CommandReply:
        needs(words, "resume")
        spawned = await self.manager.resume(words, caller)
        run = spawned.run
        if not spawned.new:
            text = f"“{run.label}” was resumed before, as {named(run)}: "
            text += f"{status_text(run.status, degraded=run.degraded).words}."
            if run.status.resumable:
                text += f" `/subagents resume {short(run.id)}` resumes that run."
            return CommandReply(text=text)
        text = f"✅ Resumed “{run.label}” as a new run ({named(run)})."
        told = " Its result will be announced where the first run was started."
        return CommandReply(text=spawned_text(spawned, text, told))

    async def _read(self, words: str, caller: Caller) -> CommandReply:
        needs(words, "read")
        reply = await self._late_reply(words, caller)
        if reply is not None:
            return CommandReply(text=f"**{one_line(reply.title, 200)}**\n\n{reply.text}")
        run = await self.records.find(words, caller, action="read")
        if not run.status.final:
            return CommandReply(text="That run is not over: there is no result yet.", failed=True)
        return CommandReply(text=f"**{title(run)}**\n\n{report(run)}")

    async def _retry(self, words: str, caller: Caller) -> CommandReply:
        needs(words, "retry")
        key, owner, name = await self._undelivered(words, caller, action="retry")
        async with self.database.transaction() as tx:
            await stored.apply(tx, caller.command_id, self.now())
            again = await outbox.retry_blocked(tx, key, owner, self.now())
        if not again:
            return CommandReply(text=NOT_WAITING, failed=True)
        return CommandReply(text=f"Trying again to deliver {name}.")

    async def _dismiss(self, words: str, caller: Caller) -> CommandReply:
        needs(words, "dismiss")
        key, owner, name = await self._undelivered(words, caller, action="dismiss")
        async with self.database.transaction() as tx:
            await stored.apply(tx, caller.command_id, self.now())
            done = await outbox.dismiss(tx, key, owner)
        if not done:
            return CommandReply(text=NOT_WAITING, failed=True)
        return CommandReply(text=f"Dismissed {name}. `/subagents read` shows the result of a run.")

    async def _undelivered(
        self, words: str, caller: Caller, *, action: str
    ) -> tuple[str, str, str]:
        """Return key, owner and name of a late reply, or of the result of a run.

        Raises:
            NotFoundError: The words mean neither a reply nor a run in reach.
            AmbiguousError: They mean several runs.
        """
        reply = await self._late_reply(words, caller)
        if reply is not None:
            return reply.key, reply.user.key, f"“{one_line(reply.title, 120)}”"
        run = await self.records.find(words, caller, action=action)
        return run.id, run.user_id, f"the result of “{run.label}”"

    async def _late_reply(self, words: str, caller: Caller) -> outbox.Item | None:
        handle = words.strip("` ").lower()
        async with self.database.snapshot() as tx:
            kept = await outbox.blocked(tx, caller.user.key, limit=100)
        return next((item for item in kept if not item.run_id and item.handle == handle), None)

    # -- chat ------------------------------------------------------------------------------------

    async def _new(self, _: str, caller: Caller) -> CommandReply:
        async with self.database.transaction() as tx:
            await stored.apply(tx, caller.command_id, self.now())
            found = await conversations.find(tx, caller.user, caller.place)
            if found is not None:
                await conversations.close(tx, found, self.now())
        return CommandReply(text="A new conversation. Runs that are going on will report here.")

    async def _model(self, words: str, caller: Caller) -> CommandReply:
        async with self.database.snapshot() as tx:
            kept = await conversations.model_of(tx, caller.conversation_id)
        if not words:
            chosen = self.models.kept(kept)
            lines = [
                f"- `{name}`" + " ← answers here" * (name == chosen) for name in self.models.names()
            ]
            switch = f"`{typed('model NAME', caller.place.platform)}` switches."
            return CommandReply(text="\n".join(["**Models**", *lines, "", switch]))
        default = words.lower() in {"default", "reset"}
        chosen = self.models.named("" if default else words)
        async with self.database.transaction() as tx:
            await stored.apply(tx, caller.command_id, self.now())
            await conversations.choose_model(tx, caller.conversation_id, "" if default else chosen)
        return CommandReply(text=f"From now on `{chosen}` answers here. Runs keep their own model.")

    async def _help(self, _: str, caller: Caller) -> CommandReply:
        agents = "\n".join(f"- {line}" for line in described(self.agents))
        helps = [each.help(caller.place.platform) for each in self.for_admins.values()]
        admin = bool(helps) and has_admin_powers(caller)
        more = "\n\n**For admins**\n" + "\n".join(helps) if admin else ""
        return CommandReply(
            text=f"{help_text(caller.place.platform)}{more}\n\n**Agents**\n{agents}"
        )


def _unknown(name: str, platform: str) -> CommandReply:
    known = ", ".join(f"`{typed(each, platform)}`" for each in NAMES)
    there = f"`/subagents`, {known}"
    return CommandReply(
        text=f"There is no command /{one_line(name, 30)}. There are: {there}.", failed=True
    )


def _is_public(name: str, words: list[str]) -> bool:
    """Return True for a command whose answer everyone in its place may read."""
    if name not in {"subagents", "subagent"}:
        return name in PUBLIC
    return bool(words) and words[0] in PUBLIC_ACTIONS
