"""`views.*`: forms that open over Slack, and the Home tab."""

import json
import time
from dataclasses import dataclass, field

from bot.values import Json
from tests.fakes.slack.elements import check_plain
from tests.fakes.slack.limits import check_blocks
from tests.fakes.slack.messages import Button, buttons
from tests.fakes.slack.shapes import APP_ID, Grant, SlackError, User
from tests.fakes.slack.texts import may_see, read_block
from tests.fakes.slack.web import Ask, Method
from tests.fakes.slack.world import World


@dataclass(eq=False, slots=True)
class View:
    """A form or a Home tab as it is now.

    Attributes:
        hash: Changes with every version.
        versions: How often it was set.
        open: Whether the user still has it before them.
    """

    id: str
    user: User
    grant: Grant
    world: World
    content: Json
    hash: str
    root: str
    versions: int = 1
    open: bool = True

    @property
    def blocks(self) -> list[Json]:
        found: list[Json] = self.content["blocks"]
        return found

    @property
    def title(self) -> str:
        return str(self.content.get("title", {}).get("text", ""))

    @property
    def private_metadata(self) -> str:
        return str(self.content.get("private_metadata", ""))

    def readable(self) -> str:
        """Return what the user reads."""
        names = self.world.names
        parts = [read_block(block, names, self.user.id) for block in self.blocks]
        return "\n".join(part for part in (self.title, *parts) if part)

    def buttons(self, viewer: User | None = None) -> list[Button]:
        """Return what can be clicked."""
        found = buttons(self.blocks)
        return [b for b in found if viewer is None or may_see(b.element, viewer.id)]

    def to_json(self) -> Json:
        """Return it as the Web API and interactions carry it."""
        return {
            "id": self.id,
            "team_id": self.user.team.id,
            "private_metadata": "",
            "callback_id": "",
            "external_id": "",
            "clear_on_close": False,
            "notify_on_close": False,
            "close": None,
            "submit": None,
            "previous_view_id": None,
            "state": {"values": {}},
            **self.content,
            "hash": self.hash,
            "root_view_id": self.root,
            "app_id": APP_ID,
            "app_installed_team_id": None if self.grant.team is None else self.grant.team.id,
            "bot_id": self.grant.bot.bot_id,
        }


@dataclass(eq=False, slots=True)
class Trigger:
    """The right to open one form for a user who just did something.

    Attributes:
        view: What was opened with it.
    """

    id: str
    user: User
    at: float
    view: View | None = None


@dataclass(slots=True)
class Surfaces:
    """The methods that show forms and Home tabs.

    Attributes:
        trigger_seconds: How long a user's action may be answered with a form.
        home_enabled: Whether the app has a Home tab.
        homes: The Home tab of each user, by id.
    """

    world: World
    trigger_seconds: float = 3.0
    home_enabled: bool = True
    homes: dict[str, View] = field(default_factory=dict)
    views: dict[str, View] = field(default_factory=dict)
    triggers: dict[str, Trigger] = field(default_factory=dict)

    @property
    def methods(self) -> dict[str, Method]:
        return {
            "views.open": self.open,
            "views.push": self.open,
            "views.update": self.update,
            "views.publish": self.publish,
        }

    def trigger(self, user: User) -> Trigger:
        """Return a new right to open a form."""
        trigger = Trigger(f"{self.world.new_id('')}.1.{user.id}", user, time.monotonic())
        self.triggers[trigger.id] = trigger
        return trigger

    def open(self, ask: Ask) -> Json:
        trigger = self.triggers.get(str(ask.args.get("trigger_id")))
        if trigger is None:
            raise SlackError("invalid_trigger_id")
        if time.monotonic() - trigger.at > self.trigger_seconds:
            raise SlackError("expired_trigger_id")
        if trigger.view is not None:
            raise SlackError("exchanged_trigger_id")
        check_view(ask.args.get("view"), "modal")
        trigger.view = self.show(ask.args["view"], trigger.user, ask.grant)
        return {"view": trigger.view.to_json()}

    def show(self, content: Json, user: User, grant: Grant) -> View:
        """Put a view before a user."""
        id_ = self.world.new_id("V")
        view = View(id_, user, grant, self.world, self._kept(content), self._hash(), root=id_)
        self.views[id_] = view
        return view

    def update(self, ask: Ask) -> Json:
        external = str(ask.args.get("external_id") or "")
        fitting = [
            view
            for view in self.views.values()
            if view.id == ask.args.get("view_id")
            or (external and view.content.get("external_id") == external)
        ]
        if not fitting or not fitting[0].open:
            raise SlackError("not_found")
        check_view(ask.args.get("view"), "modal")
        self._check_hash(ask, fitting[0])
        self.change(fitting[0], ask.args["view"])
        return {"view": fitting[0].to_json()}

    def publish(self, ask: Ask) -> Json:
        user = self.world.user(ask.args.get("user_id"))
        if not self.home_enabled:
            raise SlackError("not_enabled")
        check_view(ask.args.get("view"), "home")
        home = self.homes.get(user.id)
        self._check_hash(ask, home)
        if home is None:
            home = self.homes[user.id] = self.show(ask.args["view"], user, ask.grant)
        else:
            self.change(home, ask.args["view"])
        return {"view": home.to_json()}

    def change(self, view: View, content: Json) -> None:
        """Set a view anew."""
        view.content, view.hash = self._kept(content), self._hash()
        view.versions += 1

    def _check_hash(self, ask: Ask, view: View | None) -> None:
        expected = ask.args.get("hash")
        if expected and (view is None or view.hash != expected):
            raise SlackError("hash_conflict")

    def _kept(self, content: Json) -> Json:
        return content | {"blocks": self.world.with_ids(content["blocks"])}

    def _hash(self) -> str:
        return f"{self.world.new_ts()}.{self.world.new_id('h')}"


def check_view(view: object, kind: str) -> None:
    """Refuse a view that Slack would not show."""
    if not isinstance(view, dict) or view.get("type") != kind:
        raise SlackError("invalid_arguments", f"must be a view of type {kind}")
    if len(json.dumps(view)) > 250_000:
        raise SlackError("view_too_large")
    if problems := _problems(view):
        raise SlackError("invalid_arguments", *problems)
    check_blocks(view.get("blocks"), most=100, error="invalid_arguments")


def _problems(view: Json) -> list[str]:
    found = [
        f"{problem} [json-pointer:/view/{key}]"
        for key in ("title", "submit", "close")
        if key in view or (key == "title" and view["type"] == "modal")
        for problem in check_plain(view.get(key), 24)
    ]
    if len(str(view.get("private_metadata", ""))) > 3000:
        found.append("must be less than 3001 characters [json-pointer:/view/private_metadata]")
    if len(str(view.get("callback_id", ""))) > 255:
        found.append("must be less than 256 characters [json-pointer:/view/callback_id]")
    blocks = view.get("blocks")
    inputs = isinstance(blocks, list) and any(block.get("type") == "input" for block in blocks)
    if inputs and view["type"] == "modal" and "submit" not in view:
        found.append("missing required field: submit [json-pointer:/view]")
    return found
