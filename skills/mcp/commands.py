"""Carries out `/retinue mcp` for admins: lists servers and waiting tools, and approves tools."""

from dataclasses import dataclass

from bot.agent.sanitizer import one_line
from bot.conversations.command_arguments import Argument
from bot.conversations.command_lines import CommandGroup
from bot.conversations.commands import ChatCommand, CommandCall
from bot.errors import BadRequestError
from bot.platforms.base import CommandReply
from bot.run_texts import counted
from db.mcp_pins import Pin
from skills.mcp import review
from skills.mcp.servers import McpServers

APPROVE = "mcp approve SERVER [TOOL …]"
START = "mcp start SERVER"
_WORDS = Argument(
    "words",
    "approve",
    "What to do",
    required=False,
    choices=(
        (APPROVE.removeprefix("mcp "), "Let changed or new tools be used"),
        (START.removeprefix("mcp "), "Let a server of a file be started"),
    ),
)
MOST_SHOWN = 6
MOST_LINES = 40
MOST_CHARACTERS = 1_500


@dataclass(frozen=True, slots=True)
class McpCommands:
    """Carries out commands about MCP servers; the caller has checked the operator's rights."""

    servers: McpServers

    @property
    def command(self) -> ChatCommand:
        """The command `/retinue mcp`."""
        return ChatCommand(
            (CommandGroup.CHAT,),
            "mcp",
            "MCP servers, and what waits for your approval",
            (_WORDS,),
            handler=self.run,
            admin=True,
            operator=True,
            changes=lambda words: words.lower().split()[:1] in (["approve"], ["start"]),
        )

    async def run(self, call: CommandCall) -> CommandReply:
        """List the servers and what waits, or approve tools.

        Raises:
            BadRequestError: The command cannot be carried out; the text shows a correct form.
        """
        action, *rest = call.get("words").split() or ["list"]
        match action.lower(), rest:
            case "list", []:
                return await self._list(call)
            case "approve", [server, *tools]:
                return await self._approve(server, tools, call)
            case "start", [server]:
                return await self._start(server, call)
        raise BadRequestError(
            f"Usage: {call.typed('mcp')}, {call.typed(START)}, or {call.typed(APPROVE)}"
        )

    async def _list(self, call: CommandCall) -> CommandReply:
        lines = ["**MCP servers**"]
        waiting: list[Pin] = []
        for name, server in self.servers.servers.items():
            tools = counted(len(server.tools), "tool")
            state = f"connected, {tools}" if server.connected else "not connected"
            problem = f" – {one_line(server.problem, 300)}" if server.problem else ""
            lines.append(f"- `{name}`: {state}{problem}")
            start = await self.servers.pins.start_of(name) if server.request else None
            if start is not None and start.waits:
                waiting.append(start)
                continue
            waiting += await self.servers.pins.waiting(name)
        for pin in waiting[:MOST_SHOWN]:
            if pin.tool:
                lines += ["", f"**{_code(pin.tool)}** of {pin.server}: {review.described(pin)}"]
                what = f"approve {pin.server} {review.handle(pin)}"
            else:
                lines += ["", f"**The server {_code(pin.server)}**: {review.described(pin)}"]
                what = f"start {review.handle(pin)}"
            command = call.typed(f"mcp {what}")
            whole = review.difference(pin)
            text = "\n".join(whole[:MOST_LINES])[:MOST_CHARACTERS]
            if text != "\n".join(whole):
                text += "\n… cut here: `python -m bot mcp list` shows all of it"
            # Backticks would close the fence.
            shown = text.replace("```", "'''")
            does = "approve it" if pin.tool else "start it, and see its tools"
            lines += ["```diff", shown, "```", f"To {does}: {_code(command)}"]
        if len(waiting) > MOST_SHOWN:
            lines += ["", f"{len(waiting) - MOST_SHOWN} more wait: `python -m bot mcp list`."]
        return CommandReply(text="\n".join(lines))

    async def _approve(self, name: str, tools: list[str], call: CommandCall) -> CommandReply:
        review.check_known(name, self.servers.servers)
        pins = review.chosen(name, await self.servers.pins.waiting(name), tools)
        caller = call.caller
        done = await self.servers.approve(
            name,
            by=caller.user.key,
            place=caller.place,
            shown=pins,
            command_id=caller.command_id,
        )
        lines = [f"Approved, and used from now on: {_code(tool)} of {name}." for tool in done]
        late = [pin.tool for pin in pins if pin.tool not in done]
        lines += [f"{_code(tool)} has changed again this moment: look anew." for tool in late]
        return CommandReply(text="\n".join(lines), failed=bool(late))

    async def _start(self, given: str, call: CommandCall) -> CommandReply:
        name, caller = given.partition("@")[0], call.caller
        review.check_known(name, self.servers.servers)
        pin = review.chosen_start(await self.servers.pins.start_of(name), given)
        done = await self.servers.approve(
            name, by=caller.user.key, place=caller.place, shown=[pin], command_id=caller.command_id
        )
        if not done:
            text = f"{_code(name)} has changed again this moment: look anew."
            return CommandReply(text=text, failed=True)
        look = _code(call.typed("mcp"))
        return CommandReply(
            text=f"{_code(name)} is started. None of its tools is used yet: {look} shows them in a "
            "few seconds, for your approval."
        )


def _code(text: str) -> str:
    return f"`{one_line(text, 200).replace('`', chr(39))}`"
