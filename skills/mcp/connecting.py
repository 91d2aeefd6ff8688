"""Carries out `/retinue connect` and `disconnect`: users sign in to MCP servers, and out."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from bot.agent.sanitizer import one_line
from bot.conversations.command_arguments import Argument
from bot.conversations.command_lines import CommandGroup
from bot.conversations.commands import ChatCommand, CommandCall
from bot.errors import BadRequestError, DeliveryError
from bot.platforms.base import Announcement, CommandReply, Outlet
from bot.values import Place
from skills.base import ToolContext
from skills.mcp.servers import McpServers
from skills.mcp.sign_ins import AskToSignIn, SignIns

log = logging.getLogger(__name__)

_WORDS = Argument("words", "SERVER", "The service to sign in to", required=False)
_SERVER = Argument("server", "SERVER", "The service to sign out of")


@dataclass(frozen=True, slots=True)
class ConnectCommands:
    """Carries out the commands of users about their own access."""

    sign_ins: SignIns
    servers: McpServers

    @property
    def commands(self) -> tuple[ChatCommand, ...]:
        """The commands, for a bot with servers at which users sign in."""
        connect = ChatCommand(
            (CommandGroup.CHAT,),
            "connect",
            "Sign in to a service, so that I can use it for you",
            (_WORDS,),
            handler=self.connect,
            secret=True,
        )
        disconnect = ChatCommand(
            (CommandGroup.CHAT,),
            "disconnect",
            "Sign out of a service, and delete my access to it",
            (_SERVER,),
            handler=self.disconnect,
            changes=lambda _: True,
        )
        return (connect, disconnect)

    async def connect(self, call: CommandCall) -> CommandReply:
        """List the services, begin a sign-in, or end it with what the user pasted.

        Raises:
            BadRequestError: The command cannot be carried out; the text says how.
        """
        name, _, pasted = call.get("words").strip().partition(" ")
        user = call.caller.user
        if not name:
            done = set(await self.sign_ins.connected(user))
            lines = ["**Services to sign in to**"]
            for each in self.sign_ins.servers:
                verb, then = ("signed in", "disconnect") if each in done else ("not yet", "connect")
                lines.append(f"- {each}: {verb} – {_code(call.typed(f'{then} {each}'))}")
            return CommandReply(text="\n".join(lines), private=True)
        self._check(name)
        finishes = _code(call.typed(f"connect {name} ADDRESS"))
        if not pasted.strip():
            link = await self.sign_ins.begin(user, name)
            page = (
                "The last page shows a line to copy."
                if self.sign_ins.settings.public_url
                else "The last page cannot be opened; copy its address from the address bar."
            )
            return CommandReply(
                private=True,
                text=f"Sign in to {name} within 10 minutes:\n{link}\n\n{page} Then send "
                f"{finishes} with it in place of ADDRESS. The link is for you alone.",
            )
        await self.sign_ins.finish(user, call.caller.place, name, pasted)
        await self.servers.look_as(name, user)
        text = f"You are signed in to {name}. I use it with your rights, and only for you."
        return CommandReply(text=text, private=True)

    async def disconnect(self, call: CommandCall) -> CommandReply:
        """Delete the access to a service."""
        name, caller = call.get("server").strip(), call.caller
        self._check(name)
        revoked = await self.sign_ins.disconnect(caller.user, caller.place, name)
        match revoked:
            case None:
                text = f"You were not signed in to {name}."
            case True:
                text = (
                    f"You are signed out of {name}: my access is deleted here, and revoked there."
                )
            case False:
                text = (
                    f"My access to {name} is deleted here. {name} did not confirm that it revoked "
                    "it: you can remove the app Retinue in your account there."
                )
        return CommandReply(text=text, private=True)

    def _check(self, name: str) -> None:
        if name not in self.sign_ins.servers:
            there = ", ".join(self.sign_ins.servers)
            raise BadRequestError(
                f"There is no service “{one_line(name, 40)}” to sign in to. There are: {there}."
            )


def asking_through(outlets: Mapping[str, Outlet]) -> AskToSignIn:
    """Return a function that asks a user in a direct message to sign in, once for each work.

    The message has no link: the user gets one by the command, for a short time, when it is needed.
    """
    asked: set[tuple[str, str]] = set()

    async def ask(context: ToolContext, server: str) -> None:
        if (context.work_id, server) in asked:
            return
        asked.add((context.work_id, server))
        user = context.user
        message = Announcement(
            key=f"sign-in {context.work_id} {server}"[:255],
            place=Place(user.platform, user.workspace),
            owner=user,
            title="",
            text=f"I need your access to {server}: send me `/retinue connect {server}`, and I give "
            "you a link to sign in. Then ask me again.",
        )
        try:
            await outlets[user.platform].announce(message)
        except (DeliveryError, KeyError) as error:
            log.info("A user was not asked to sign in to %s: %s", server, type(error).__name__)

    return ask


def _code(text: str) -> str:
    return f"`{text}`"
