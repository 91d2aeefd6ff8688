"""Commands, buttons and forms of the fake Discord as discord.py sees them."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Literal, Self

import discord
import pytest
from discord import app_commands

from tests.fakes.discord.interactions import Interaction
from tests.fakes.discord.listener import Listener
from tests.fakes.discord.server import FakeDiscord
from tests.fakes.discord.things import Channel, Guild, User

Click = discord.Interaction[Listener]
#: What a test lets the bot do with a click.
Reaction = Callable[[Click], Awaitable[object]]


class Town:
    """A server with a channel, a role and two people."""

    def __init__(self, fake: FakeDiscord) -> None:
        self.guild: Guild = fake.add_guild("Town")
        self.channel: Channel = fake.add_channel(self.guild, "general")
        self.staff = fake.add_role(self.guild, "staff")
        self.alice: User = fake.add_user("alice")
        self.bob: User = fake.add_user("bob")
        for user in (self.alice, self.bob):
            fake.join(self.guild, user, roles=[self.staff])


@pytest.fixture
def town(fake: FakeDiscord) -> Town:
    return Town(fake)


class Form(discord.ui.Modal, title="Send"):
    """Says what was typed into it."""

    text: discord.ui.Label[Any] = discord.ui.Label(
        text="Message", component=discord.ui.TextInput(custom_id="text", max_length=20)
    )

    async def on_submit(self, interaction: discord.Interaction[Any], /) -> None:
        typed = self.text.component
        assert isinstance(typed, discord.ui.TextInput)
        await interaction.response.send_message(f"sent {typed.value}", ephemeral=True)


class Go(discord.ui.DynamicItem[discord.ui.Button[Any]], template=r"go:(?P<name>\w+)"):
    """A button that does what the test wants."""

    reaction: Reaction

    def __init__(self, name: str) -> None:
        super().__init__(discord.ui.Button(label=name, custom_id=f"go:{name}"))
        self.name = name

    @classmethod
    async def from_custom_id(
        cls, interaction: discord.Interaction[Any], item: discord.ui.Item[Any], match: Any
    ) -> Self:
        return cls(match["name"])

    async def callback(self, interaction: discord.Interaction[Any]) -> None:
        await type(self).reaction(interaction)


async def clicked(
    fake: FakeDiscord, town: Town, listener: Listener, reaction: Reaction
) -> Interaction:
    """Let the bot post a card, and bob click it."""
    Go.reaction = staticmethod(reaction)
    listener.add_dynamic_items(Go)
    view = discord.ui.LayoutView()
    view.add_item(
        discord.ui.Container(discord.ui.TextDisplay("card"), discord.ui.ActionRow(Go("on")))
    )
    await listener.get_partial_messageable(town.channel.id).send(view=view)
    return await fake.click(town.bob, fake.answers(town.channel)[-1], "on")


# -- commands --------------------------------------------------------------------------------------


async def add_commands(listener: Listener, guild: Guild | None = None) -> None:
    group = app_commands.Group(name="runs", description="Your runs")

    @group.command(description="Stop one")
    async def stop(
        interaction: Click,
        run: str,
        who: discord.User | None = None,
        role: discord.Role | None = None,
        times: app_commands.Range[int, 1, 3] = 1,
        how: Literal["now", "later"] = "now",
    ) -> None:
        name = f"{who.name if who else None}, {role.name if role else None}"
        place = interaction.guild_id, interaction.is_user_integration()
        await interaction.response.defer(ephemeral=True)
        await interaction.followup.send(f"{run}, {name}, {times}, {how}, {place}")
        await interaction.followup.send("and more", ephemeral=True)

    @stop.autocomplete("run")
    async def complete(_: Click, current: str) -> list[app_commands.Choice[str]]:
        return [app_commands.Choice(name=f"{current} the first", value="1")]

    where = discord.Object(guild.id) if guild else None
    listener.tree.add_command(group, guild=where)
    await listener.tree.sync(guild=where)


async def test_a_command_is_used_with_its_options(
    fake: FakeDiscord, town: Town, listener: Listener
) -> None:
    await add_commands(listener)

    answer = await fake.slash(
        town.alice,
        town.channel,
        "runs stop",
        run="7",
        who=town.bob,
        role=town.staff,
        times=2,
        how="later",
    )
    await answer.acknowledged()
    await fake.until(lambda: len(answer.messages) == 2, "both answers")

    assert answer.deferred
    assert answer.ephemeral
    assert answer.messages[0].text() == (f"7, bob, staff, 2, later, ({town.guild.id}, False)")
    assert answer.text().endswith("\nand more")
    assert fake.messages(town.channel) == []
    assert fake.syncs == 1
    assert [command["name"] for command in fake.commands] == ["runs"]


async def test_what_discord_does_not_offer_cannot_be_typed(
    fake: FakeDiscord, town: Town, listener: Listener
) -> None:
    await add_commands(listener)

    wrong: tuple[tuple[str, dict[str, Any]], ...] = (
        ("run stop", {"run": "1"}),
        ("runs", {}),
        ("runs halt", {"run": "1"}),
        ("runs stop", {}),
        ("runs stop", {"run": 1}),
        ("runs stop", {"run": "1", "times": 4}),
        ("runs stop", {"run": "1", "how": "never"}),
        ("runs stop", {"run": "1", "why": "x"}),
    )
    for command, options in wrong:
        with pytest.raises(AssertionError):
            await fake.slash(town.alice, town.channel, command, **options)


async def test_options_are_completed(fake: FakeDiscord, town: Town, listener: Listener) -> None:
    await add_commands(listener)

    choices = await fake.autocomplete(town.alice, town.channel, "runs stop", run="12")

    assert choices == [("12 the first", "1")]


async def test_commands_work_in_direct_messages_threads_and_as_a_guest(
    fake: FakeDiscord, town: Town, listener: Listener
) -> None:
    await add_commands(listener)
    thread = await fake.open_thread(town.alice, town.channel)
    elsewhere = fake.add_guild("Elsewhere", bot=False)
    fake.join(elsewhere, town.alice)
    room = fake.add_channel(elsewhere, "room")

    for channel, guest, place in (
        (fake.dm(town.alice), False, "(None, False)"),
        (thread, False, f"({town.guild.id}, False)"),
        (room, True, f"({elsewhere.id}, True)"),
    ):
        answer = await fake.slash(town.alice, channel, "runs stop", run="7", guest=guest)
        await answer.done()
        assert answer.messages[0].text().endswith(place)
    with pytest.raises(AssertionError, match="not in this server"):
        await fake.slash(town.alice, room, "runs stop", run="7")


async def test_commands_of_a_server_are_only_there(
    fake: FakeDiscord, town: Town, listener: Listener
) -> None:
    await add_commands(listener, town.guild)

    answer = await fake.slash(town.alice, town.channel, "runs stop", run="7")
    await answer.done()

    assert fake.commands == []
    assert list(fake.guild_commands) == [town.guild.id]
    with pytest.raises(AssertionError, match="not registered here"):
        await fake.slash(town.alice, fake.dm(town.alice), "runs stop", run="7")


async def test_commands_that_break_the_rules_are_refused(
    fake: FakeDiscord, listener: Listener
) -> None:
    body = {"name": "Loud", "description": "x", "type": 1, "options": []}

    with pytest.raises(discord.HTTPException) as refusal:
        await listener.http.bulk_upsert_global_commands(fake.application_id, [body])

    assert refusal.value.code == 50035
    assert fake.syncs == 0


# -- clicks and forms ------------------------------------------------------------------------------


async def test_a_click_is_answered_in_private(
    fake: FakeDiscord, town: Town, listener: Listener
) -> None:
    async def refuse(click: Click) -> None:
        assert click.message
        await click.response.send_message(f"not yours, {click.user.name}", ephemeral=True)

    answer = await clicked(fake, town, listener, refuse)
    await answer.done()

    assert answer.text() == "not yours, bob"
    assert answer.ephemeral
    assert not answer.deferred
    assert not answer.updated
    assert len(fake.messages(town.channel)) == 1


async def test_a_click_changes_its_message(
    fake: FakeDiscord, town: Town, listener: Listener
) -> None:
    view = discord.ui.LayoutView()
    view.add_item(discord.ui.TextDisplay[Any]("stopped"))

    async def update(click: Click) -> None:
        await click.response.edit_message(view=view)

    async def update_later(click: Click) -> None:
        await click.response.defer()
        await click.edit_original_response(view=view)

    for reaction in (update, update_later):
        answer = await clicked(fake, town, listener, reaction)
        await answer.done()
        assert answer.updated
        assert fake.answers(town.channel)[-1].texts() == ["stopped"]
        assert fake.answers(town.channel)[-1].buttons() == []


async def test_a_form_is_opened_filled_in_and_answered(
    fake: FakeDiscord, town: Town, listener: Listener
) -> None:
    async def open_form(click: Click) -> None:
        await click.response.send_modal(Form())

    asked = await clicked(fake, town, listener, open_form)
    await asked.done()
    assert asked.modal
    assert (asked.modal.title, asked.modal.labels) == ("Send", ["Message"])
    with pytest.raises(AssertionError, match="21 characters"):
        await fake.submit(town.bob, asked.modal, "x" * 21)
    answer = await fake.submit(town.bob, asked.modal, "hello")
    await answer.done()

    assert answer.text() == "sent hello"


async def test_an_answer_for_all_stands_in_the_channel(
    fake: FakeDiscord, town: Town, listener: Listener
) -> None:
    async def answer_all(click: Click) -> None:
        await click.response.defer(thinking=True)
        await click.edit_original_response(content=f"@everyone {click.user.mention} done")

    answer = await clicked(fake, town, listener, answer_all)
    await answer.done()

    assert not answer.ephemeral
    said = fake.messages(town.channel)[-1]
    assert said is answer.messages[0]
    assert said.pings == {town.bob.id}
    await fake.until(lambda: len(listener.events("message")) == 2, "the message is heard")


async def test_the_first_answer_can_be_looked_at_and_taken_back(
    fake: FakeDiscord, town: Town, listener: Listener
) -> None:
    seen = []

    async def answer_and_delete(click: Click) -> None:
        await click.response.send_message("never mind")
        seen.append((await click.original_response()).content)
        await click.delete_original_response()

    answer = await clicked(fake, town, listener, answer_and_delete)
    await fake.until(lambda: seen and not answer.messages, "the end of the answer")

    assert seen == ["never mind"]
    assert len(fake.messages(town.channel)) == 1


async def test_an_interaction_is_answered_once(
    fake: FakeDiscord, town: Town, listener: Listener
) -> None:
    codes = []

    async def answer_twice(click: Click) -> None:
        twin = discord.InteractionResponse(click)
        await click.response.send_message("one")
        try:
            await twin.send_message("two")
        except discord.HTTPException as refusal:
            codes.append(refusal.code)

    answer = await clicked(fake, town, listener, answer_twice)
    await fake.until(lambda: codes, "a refusal")

    assert codes == [40060]
    assert answer.text() == "one"


async def test_an_answer_that_comes_too_late_is_refused(
    fake: FakeDiscord, town: Town, listener: Listener
) -> None:
    fake.interaction_seconds = 0.0
    codes = []

    async def answer_late(click: Click) -> None:
        try:
            await click.response.defer()
        except discord.NotFound as refusal:
            codes.append(refusal.code)

    answer = await clicked(fake, town, listener, answer_late)
    await fake.until(lambda: codes, "a refusal")

    assert codes == [10062]
    assert answer.failed


async def test_what_follows_after_a_quarter_of_an_hour_is_refused(
    fake: FakeDiscord, town: Town, listener: Listener
) -> None:
    go_on = asyncio.Event()
    refusals = []

    async def answer_in_an_hour(click: Click) -> None:
        await click.response.defer(thinking=True)
        await go_on.wait()
        try:
            await click.followup.send("late")
        except discord.HTTPException as refusal:
            refusals.append((refusal.status, refusal.code))

    answer = await clicked(fake, town, listener, answer_in_an_hour)
    await answer.acknowledged()
    assert not answer.is_done
    fake.expire(answer)
    go_on.set()
    await fake.until(lambda: refusals, "a refusal")

    assert refusals == [(401, 50027)]


async def test_a_guest_may_answer_five_times_more(
    fake: FakeDiscord, town: Town, listener: Listener
) -> None:
    codes = []

    @listener.tree.command(description="x")
    async def much(interaction: Click) -> None:
        await interaction.response.send_message("0")
        try:
            for number in range(1, 7):
                await interaction.followup.send(f"{number}")
        except discord.HTTPException as refusal:
            codes.append(refusal.code)

    await listener.tree.sync()
    elsewhere = fake.add_guild("Elsewhere", bot=False)
    fake.join(elsewhere, town.alice)
    answer = await fake.slash(town.alice, fake.add_channel(elsewhere, "x"), "much", guest=True)
    await fake.until(lambda: codes, "a refusal")

    assert codes == [40094]
    assert answer.text().split() == ["0", "1", "2", "3", "4", "5"]


async def test_only_buttons_that_are_there_can_be_clicked(
    fake: FakeDiscord, town: Town, listener: Listener
) -> None:
    view = discord.ui.View(timeout=None)
    view.add_item(discord.ui.Button(label="Off", custom_id="off", disabled=True))
    await listener.get_partial_messageable(town.channel.id).send("text", view=view)
    [message] = fake.answers(town.channel)

    with pytest.raises(AssertionError, match="cannot be clicked"):
        await fake.click(town.bob, message, "Off")
    with pytest.raises(AssertionError, match="no button 'On'"):
        await fake.click(town.bob, message, "On")
