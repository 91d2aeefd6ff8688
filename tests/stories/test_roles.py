"""Five users of four roles in two servers and a workspace, and what each may do there."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bot.agent.permissions import PermissionSettings
from bot.conversations import lost_access, rights
from bot.conversations.access import AccessSettings
from bot.rights.settings import RolesSettings
from bot.values import Json, RunStatus
from db import runs
from tests.fakes.anthropic_server import Reply
from tests.fakes.discord.things import Channel, User
from tests.fakes.patience import eventually
from tests.fakes.slack.shapes import User as SlackUser
from tests.stories.asking import PAINT, World, painter
from tests.stories.on_discord import Scene, Server, new_server, on_discord
from tests.stories.on_slack import Way, new_office, on_slack
from tests.stories.stage import Play, call, newest_run

#: One kind of database is enough: the queries have tests of their own.
pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


def waiting() -> Play:
    """Return a play in which every run waits at the gate."""
    return Play(runs={"Dig": [call("wait_here"), call("wait_here"), call("wait_here")]})


@dataclass
class Country:
    """Two Discord servers: Alice leads in one of them, whose admin is Root; Carol is a guest."""

    server: Server
    yard: Channel
    carol: User
    operator: User
    leads: str
    settings: Json
    sections: Json

    @property
    def farm(self) -> Channel:
        """The channel of the first server."""
        return self.server.channel


def country(server: Server) -> Country:
    """Return the servers with their users and the configuration of their roles."""
    discord, farm = server.discord, server.guild
    barn = discord.add_guild("Barn")
    yard = discord.add_channel(barn, "yard")
    carol, operator = discord.add_user("carol"), discord.add_user("operator")
    leads, admins = discord.add_role(farm, "leads"), discord.add_role(farm, "admins")
    for user in (server.alice, server.bob, server.root, carol, operator):
        discord.join(barn, user)
        roles = {server.alice: [leads], server.root: [admins]}.get(user, [])
        discord.join(farm, user, roles=roles)
    named = {
        "lead": {"members": [f"discord-role:{farm.id}:{leads.id}"]},
        "guest": {
            "members": [f"discord:{carol.id}"],
            "agents": [],
            "places": [f"discord:{farm.id}"],
        },
        "helper": {
            "members": [f"discord-channel:{barn.id}:{yard.id}"],
            "limits": {"max_concurrent_per_user": 1, "max_queued_per_user": 0},
        },
        "user": {"denied_tools": ["current_time"]},
    }
    return Country(
        server=server,
        yard=yard,
        carol=carol,
        operator=operator,
        leads=f"discord-role:{farm.id}:{leads.id}",
        settings={"admin_roles": (str(admins.id),)},
        sections={
            "roles": RolesSettings.model_validate({"named": named}),
            "access": AccessSettings(admins=(f"discord:{operator.id}",)),
        },
    )


@asynccontextmanager
async def played(
    database_url: str, play: Play, **more: Any
) -> AsyncIterator[tuple[Country, Scene]]:
    """Open the servers and the bot in them."""
    async with new_server() as server:
        here = country(server)
        given = {**here.sections, **more}
        async with on_discord(database_url, server, play, settings=here.settings, **given) as it:
            yield here, it


async def typed(it: Scene, user: User, channel: Channel, name: str, **options: Any) -> str:
    """Use a slash command and return what the user reads."""
    slash = await it.discord.slash(user, channel, name, **options)
    await slash.done()
    return slash.text()


async def dig(it: Scene, user: User, channel: Channel, label: str = "digging") -> str:
    return await typed(it, user, channel, "subagents spawn", task="Dig", label=label)


async def test_a_role_counts_in_its_server_and_lets_its_members_do_what_it_includes(
    database_url: str,
) -> None:
    async with played(database_url, waiting()) as (here, it):
        alice, bob = here.server.alice, here.server.bob
        guest = await dig(it, here.carol, here.farm)
        elsewhere = await dig(it, here.carol, here.yard)
        lead = [await dig(it, alice, here.farm) for _ in range(2)]
        helper = [await dig(it, bob, here.yard) for _ in range(2)]
        shown = {
            (who, where.name): await typed(it, user, where, "retinue settings")
            for who, user in (("alice", alice), ("bob", bob))
            for where in (here.farm, here.yard)
        }
        it.gate.opened.set()

    assert "The role `guest` does not include the agent `general`" in guest
    assert "an operator of this bot can change that" in guest
    assert "The role `guest` may not use this bot here. Ask an operator of this bot." in elsewhere
    assert all("Started “digging”" in each for each in lead)
    assert "Started “digging”" in helper[0]
    assert "1 of your 1 run" in helper[1]
    roles = {place: text.split("role: `")[1].split("`")[0] for place, text in shown.items()}
    assert roles == {
        ("alice", "general"): "lead",
        ("bob", "general"): "user",
        ("alice", "yard"): "helper",
        ("bob", "yard"): "helper",
    }
    assert "not `current_time` (`roles.named.user.denied_tools`" in shown["bob", "general"]
    assert "max_concurrent_per_user: 1 (`roles.named.helper.limits" in shown["bob", "yard"]


async def test_a_tool_that_the_role_lacks_is_offered_and_refused_with_the_role(
    database_url: str,
) -> None:
    play = Play(
        main=[
            call("current_time", zone="UTC"),
            Reply(text="I may not."),
            call("current_time", zone="UTC"),
            Reply(text="It is late."),
        ]
    )
    async with played(database_url, play) as (here, it):
        for user, answer in ((here.server.bob, "I may not."), (here.server.alice, "It is late.")):
            asked = await it.discord.say(user, here.farm, "What time is it?", mention=True)
            await it.reads(await it.thread_of(asked), answer)

    offers = [[tool["name"] for tool in body["tools"]] for body in play.asked]
    assert "current_time" in offers[0]
    assert offers[0] == offers[2]
    refusal = "the role `user` does not include the tool `current_time`"
    assert [refusal in str(body["messages"]) for body in play.asked] == [False, True, False, False]


async def test_an_admin_of_a_server_sees_and_stops_what_began_there_and_an_operator_everything(
    database_url: str,
) -> None:
    async with played(database_url, waiting()) as (here, it):
        await dig(it, here.server.alice, here.farm, "in the farm")
        await dig(it, here.server.bob, here.yard, "in the yard")
        await it.gate.held(2)
        yard = await newest_run(it.bot, "Dig")
        root, operator = here.server.root, here.operator
        listed = {
            (who, where.name): await typed(it, user, where, "subagents list", everyone=True)
            for who, user in (("root", root), ("operator", operator))
            for where in (here.farm, here.yard)
        }
        stops = [
            await typed(it, root, where, "subagents stop", run=run)
            for where, run in ((here.farm, yard.id), (here.yard, yard.id), (here.farm, "in the f"))
        ]
        last = await typed(it, operator, here.farm, "subagents stop", run=yard.id)

    both = {"in the farm", "in the yard"}
    seen = {where: {each for each in both if each in text} for where, text in listed.items()}
    assert seen == {
        ("root", "general"): {"in the farm"},
        ("root", "yard"): set(),
        ("operator", "general"): both,
        ("operator", "yard"): both,
    }
    assert "Only admins can list everyone's runs." in listed["root", "yard"]
    assert ["You have no run" in each for each in stops] == [True, True, False]
    assert all("Stopping" in each for each in (stops[2], last))


async def test_a_role_decides_about_a_call_and_its_answer_lasts(
    database_url: str, tmp_path: Path
) -> None:
    world = World()
    play = Play(
        runs={"Paint": [PAINT, Reply(text="Painted one.")], "Again": [PAINT, Reply(text="Two.")]}
    )
    rules = PermissionSettings.model_validate({"rules": {"paint": {"ask": "lead"}}})
    kit = painter(tmp_path, world, "approvals: ask")
    async with played(database_url, play, permissions=rules, **kit) as (here, it):
        alice, bob = here.server.alice, here.server.bob
        spawn = {"agent": "painter", "label": "painting"}
        await typed(it, bob, here.farm, "subagents spawn", task="Paint the fence", **spawn)
        question = await it.reads(here.farm, "asks: may it use")
        refused = []
        for user in (bob, here.server.root, here.operator):
            click = await it.discord.click(user, question, "Allow once")
            await click.done()
            refused.append(click.text())
        click = await it.discord.click(alice, question, "Always, for 30 days")
        await click.done()
        await it.reads(here.farm, "Painted one.")
        await typed(it, bob, here.farm, "subagents spawn", task="Again", **spawn)
        await it.reads(here.farm, "Two.")
        grants = await typed(it, bob, here.farm, "retinue grants")
        settled = it.discord.messages(here.farm)
        named = [each.text() for each in settled if "Always, for 30 days" in each.text()]

    assert "It takes the role `lead`'s yes" in question.text()
    assert "A rule gives this decision to the role `lead`." in refused[0]
    assert all("Only its owner can allow this." in each for each in refused[1:])
    assert world.done == ["fence", "fence"]
    assert "- `paint: ask:lead`, on discord" in grants
    assert "allowed by another user" in grants
    assert any(here.server.alice.mention in text for text in named)


async def test_what_a_user_started_in_a_server_ends_soon_after_they_leave_it(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rights, "FRESH", timedelta(0))
    monkeypatch.setattr(lost_access, "CHECK_EVERY", timedelta(0))
    async with played(database_url, waiting()) as (here, it):
        bob = here.server.bob
        await dig(it, bob, here.yard, "in the yard")
        yard = await newest_run(it.bot, "Dig")
        await dig(it, bob, here.farm, "in the farm")
        farm = await newest_run(it.bot, "Dig")
        await it.gate.held(2)

        it.discord.leave(here.server.guild, bob)

        async def ended() -> bool:
            found = await it.bot.database.read(runs.get, farm.id)
            return found is not None and found.status is RunStatus.CANCELLED

        await eventually(ended, "the end of the run in the server that was left")
        still = await it.bot.database.read(runs.get, yard.id)
        it.gate.opened.set()

    assert still is not None
    assert still.status is RunStatus.RUNNING


async def test_in_a_workspace_a_user_group_makes_leads_and_admins_and_ends_with_the_account(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rights, "FRESH", timedelta(0))
    monkeypatch.setattr(lost_access, "CHECK_EVERY", timedelta(0))
    async with new_office() as office:
        team, slack = office.slack.team.id, office.slack
        slack.world.group_members = {
            (team, "S10LEADS"): {office.alice.id},
            (team, "S10ADMINS"): {office.root.id},
        }
        named = {
            "lead": {"members": [f"slack-group:{team}:S10LEADS"]},
            "user": {"agents": []},
        }
        access = AccessSettings(place_admins={f"slack:{team}": (f"slack-group:{team}:S10ADMINS",)})
        given: Json = {"roles": RolesSettings.model_validate({"named": named}), "access": access}
        async with on_slack(Way("socket", database_url), office, waiting(), **given) as it:

            async def say(user: SlackUser, words: str) -> str:
                found = await slack.slash(user, office.channel, "/subagents", words)
                await found.done()
                return found.text()

            lead = await say(office.alice, "spawn --label digging Dig")
            user = await say(office.bob, "spawn Dig")
            await it.gate.held(1)
            run = await newest_run(it.bot, "Dig")
            hidden, seen = await say(office.bob, "list all"), await say(office.root, "list all")
            office.alice.deleted = True

            async def ended() -> bool:
                found = await it.bot.database.read(runs.get, run.id)
                return found is not None and found.status is RunStatus.CANCELLED

            await eventually(ended, "the end of the run of a deactivated account")

    assert "Started “digging”" in lead
    assert "The role `user` does not include the agent `general`" in user
    assert "Only admins can list everyone's runs." in hidden
    assert "digging" in seen
