"""Slash commands, clicks, forms and menus: what people do with their hands."""

from collections.abc import Mapping
from dataclasses import dataclass

from bot.values import Json
from tests.fakes.slack import events
from tests.fakes.slack.answers import Answer, Answers
from tests.fakes.slack.delivery import Deliveries, Delivery
from tests.fakes.slack.forms import chosen, state_of
from tests.fakes.slack.messages import Button, Channel, Message
from tests.fakes.slack.people import home_of
from tests.fakes.slack.shapes import Team, User
from tests.fakes.slack.surfaces import Surfaces, View
from tests.fakes.slack.world import World


@dataclass(slots=True)
class Hands:
    """What people click, type and fill in.

    Attributes:
        commands: The commands in the app's manifest; `None` for any.
        interactive: Whether the app takes clicks and forms.
    """

    world: World
    deliveries: Deliveries
    answers: Answers
    surfaces: Surfaces
    commands: set[str] | None = None
    interactive: bool = True

    async def slash(
        self,
        user: User,
        channel: Channel,
        command: str,
        text: str = "",
        *,
        thread: Message | str | None = None,
    ) -> Answer:
        """Type a slash command, and return when the app has acknowledged it or has not."""
        assert thread is None, "Slack runs no app's slash commands in threads."
        assert user.id in channel.members, f"{user.name} is not in #{channel.name}."
        known = self.commands is None or command in self.commands
        assert known, f"{command} is not a valid command."
        trigger = self.surfaces.trigger(user)
        answer = self.answers.expect(user, channel, trigger)
        payload = events.command(
            command, text, user, channel, trigger=trigger.id, response_url=answer.response_url
        )
        return await self._do(answer, Delivery("slash_commands", command, payload))

    async def click(
        self,
        user: User,
        where: Message | View,
        what: str,
        *,
        choice: str = "",
        confirm: bool = True,
        force: bool = False,
    ) -> Answer:
        """Click a button, or choose from a menu.

        Args:
            user: Who.
            where: A message or a view.
            what: The label, the action id or the value of the button.
            choice: The label or value that is chosen, in a menu.
            confirm: The answer to Slack's own question, where a button has one.
            force: Send it although this user does not get to see it.

        Raises:
            AssertionError: This user has no such button before them.
        """
        button = self._button(user, where, what, force=force)
        message = where if isinstance(where, Message) else None
        channel = message.channel if message else None
        answer = self.answers.expect(user, channel, self.surfaces.trigger(user), message)
        if button.confirm is not None and not confirm:
            return answer
        action = {
            "type": button.element["type"],
            "action_id": button.action_id,
            "block_id": button.block_id,
            "action_ts": self.world.new_ts(),
            **chosen(button.element, choice),
        }
        more = self._around(where, answer) | {"actions": [action]}
        team = home_of(channel) if channel else user.team
        payload = events.interaction("block_actions", user, team, **more)
        return await self._do(answer, Delivery("interactive", "block_actions", payload))

    def _button(self, user: User, where: Message | View, what: str, *, force: bool) -> Button:
        names = f"{user.name} cannot click {what!r}"
        viewer = None if force else user
        if isinstance(where, Message) and not force:
            assert not where.deleted, f"{names}: the message is deleted."
            assert user.id in where.channel.members, f"{names} in #{where.channel.name}."
            hidden = where.visible_to not in {"", user.id}
            assert not hidden, f"{names}: the message is for somebody else."
        elif isinstance(where, View) and not force:
            assert where.user is user, f"{names}: it is before {where.user.name}."
        for button in where.buttons(viewer):
            if what in {button.label, button.action_id, button.value}:
                return button
        there = [button.label or button.action_id for button in where.buttons(viewer)]
        raise AssertionError(f"{names}: there is {there}.")

    def _around(self, where: Message | View, answer: Answer) -> Json:
        around: Json = {"trigger_id": answer.trigger.id}
        if isinstance(where, View):
            inside = {"type": "view", "view_id": where.id}
            return around | {"container": inside, "view": where.to_json()}
        container: Json = {
            "type": "message",
            "message_ts": where.ts,
            "channel_id": where.channel.id,
            "is_ephemeral": bool(where.visible_to),
        }
        if where.thread_ts:
            container["thread_ts"] = where.thread_ts
        around |= {
            "container": container,
            "channel": {"id": where.channel.id, "name": where.channel.name},
            "state": {"values": {}},
            "response_url": answer.response_url,
        }
        if not where.visible_to:
            around["message"] = where.to_json()
        return around

    async def submit(
        self, user: User, view: View | Answer, values: Mapping[str, str | list[str]] | None = None
    ) -> Answer:
        """Fill in a form and send it.

        Args:
            user: Who.
            view: The form, or the answer that opened it.
            values: What is entered, by the action id, block id or label of the field.
        """
        form = view.view if isinstance(view, Answer) else view
        assert form is not None, "There is no form."
        assert form.user is user, f"The form is before {form.user.name}, not {user.name}."
        assert form.open, "The form is closed already."
        answer = self.answers.expect(user, None, self.surfaces.trigger(user))
        filled = form.to_json() | {"state": {"values": state_of(form.blocks, values or {})}}
        payload = events.interaction(
            "view_submission",
            user,
            user.team,
            trigger_id=answer.trigger.id,
            view=filled,
            response_urls=[],
        )
        await self._do(answer, Delivery("interactive", "view_submission", payload))
        self._follow(answer, form)
        return answer

    def _follow(self, answer: Answer, form: View) -> None:
        """Do with a form what the acknowledgement says."""
        match answer.payload.get("response_action"):
            case "errors":
                fields = {block["block_id"] for block in form.blocks if block["type"] == "input"}
                unknown = set(answer.errors) - fields
                assert not unknown, f"The form has no fields {unknown}: Slack shows no errors."
            case "update":
                self.surfaces.change(form, answer.payload["view"])
                answer.pushed = form
            case "push":
                content = answer.payload["view"]
                answer.pushed = self.surfaces.show(content, form.user, form.grant)
            case _ if answer.acked_after is not None:
                form.open = False

    async def options(
        self, user: User, where: Message | View, what: str, typed: str = ""
    ) -> Answer:
        """Type into a menu whose choices come from the app."""
        button = self._button(user, where, what, force=False)
        message = where if isinstance(where, Message) else None
        channel = message.channel if message else None
        answer = self.answers.expect(user, channel, self.surfaces.trigger(user), message)
        more = self._around(where, answer) | {
            "action_id": button.action_id,
            "block_id": button.block_id,
            "value": typed,
        }
        for left_out in ("trigger_id", "response_url", "state"):
            more.pop(left_out, None)
        team: Team = home_of(channel) if channel else user.team
        payload = events.interaction("block_suggestion", user, team, **more)
        await self._do(answer, Delivery("interactive", "block_suggestion", payload))
        assert len(answer.options) <= 100, "Slack takes at most 100 choices."
        return answer

    async def _do(self, answer: Answer, delivery: Delivery) -> Answer:
        heard = self.interactive or delivery.kind != "interactive"
        assert heard, "Interactivity is off in the app's manifest."
        answer.delivery = delivery
        answer.attempt = await self.deliveries.send(delivery)
        self.answers.take(answer)
        return answer
