"""The payloads that Slack sends: events, commands, clicks, forms."""

import time
import uuid
from collections.abc import Callable

from bot.values import Json
from tests.fakes.slack.delivery import Delivery
from tests.fakes.slack.messages import Channel, Message
from tests.fakes.slack.shapes import APP_ID, Grant, Team, User

_TOKEN = "an-old-verification-token"
_MESSAGES = {"channel": "channels", "group": "groups", "im": "im", "mpim": "mpim"}


class Events:
    """Builds what an app is told.

    Attributes:
        subscriptions: The events that the app asked for in its manifest (`message.im`); `None` for
            every one.
    """

    def __init__(self, new_ts: Callable[[], str]) -> None:
        self.subscriptions: set[str] | None = None
        self.new_ts = new_ts

    # --- events ---------------------------------------------------------------------------------

    def event(
        self, event: Json, team: Team, *, channel: Channel | None = None, user: User | None = None
    ) -> Delivery | None:
        """Wrap an event.

        Args:
            event: The event itself.
            team: Where the app is installed.
            channel: Where it happened.
            user: Who did it.

        Returns:
            What is to be sent; `None` when the app did not ask for it or is not installed.
        """
        if team.grant is None or not self._wanted(event, channel):
            return None
        event.setdefault("event_ts", self.new_ts())
        payload: Json = {
            "token": _TOKEN,
            "team_id": team.id,
            "context_team_id": team.id,
            "context_enterprise_id": team.enterprise or None,
            "api_app_id": APP_ID,
            "event": event,
            "type": "event_callback",
            "event_id": f"Ev{uuid.uuid4().hex[:12].upper()}",
            "event_time": int(time.time()),
            "authorizations": [_authorization(team.grant, team)],
            "is_ext_shared_channel": channel is not None and bool(channel.shared_with),
            "event_context": f"4-{uuid.uuid4().hex}",
        }
        if team.enterprise:
            payload["enterprise_id"] = team.enterprise
        if user is not None and user.team is not team:
            payload["team_id"] = user.team.id
        return Delivery("events_api", str(event["type"]), payload)

    def _wanted(self, event: Json, channel: Channel | None) -> bool:
        name = str(event["type"])
        if name == "message" and channel is not None:
            name = f"message.{_MESSAGES[channel.kind]}"
        always = name in {"app_uninstalled", "tokens_revoked"}
        return self.subscriptions is None or always or name in self.subscriptions

    def posted(self, message: Message, team: Team) -> list[Delivery]:
        """Return what the app hears of a new message: once as a message, once as a mention."""
        event = self._message_event(message)
        found = [self.event(event, team, channel=message.channel, user=message.user)]
        if self.mentions_bot(message, team):
            found.insert(0, self._mention(message, team))
        return [delivery for delivery in found if delivery is not None]

    def mentions_bot(self, message: Message, team: Team) -> bool:
        own = message.user.id == team.bot.id
        return not own and message.channel.kind != "im" and f"<@{team.bot.id}>" in message.text

    def _mention(self, message: Message, team: Team) -> Delivery | None:
        event = message.to_json() | {
            "type": "app_mention",
            "channel": message.channel.id,
            "assistant_thread": {"action_token": _search_token(message)},
        }
        event.pop("subtype", None)
        return self.event(
            event | {"event_ts": message.ts}, team, channel=message.channel, user=message.user
        )

    def _message_event(self, message: Message) -> Json:
        event = message.to_json() | {
            "channel": message.channel.id,
            "channel_type": message.channel.kind,
            "event_ts": message.ts,
        }
        if not message.user.is_bot:
            event["client_msg_id"] = str(uuid.uuid4())
            event["assistant_thread"] = {"action_token": _search_token(message)}
        if message.thread_ts and (root := message.channel.messages.get(message.thread_ts)):
            event["parent_user_id"] = root.user.id
        if message.channel.shared_with:
            event |= {"user_team": message.user.team.id, "source_team": message.user.team.id}
        return event

    def edited(self, message: Message, before: Json, team: Team) -> list[Delivery]:
        """Return what the app hears of a change; a mention that is new is heard as one."""
        event = {
            "type": "message",
            "subtype": "message_changed",
            "message": message.to_json(),
            "previous_message": before,
            "channel": message.channel.id,
            "channel_type": message.channel.kind,
            "hidden": True,
            "ts": self.new_ts(),
        }
        found = [self.event(event, team, channel=message.channel, user=message.user)]
        if self.mentions_bot(message, team) and f"<@{team.bot.id}>" not in before["text"]:
            found.append(self._mention(message, team))
        return [delivery for delivery in found if delivery is not None]

    def deleted(self, message: Message, before: Json, team: Team) -> list[Delivery]:
        """Return what the app hears when a message is gone."""
        event = {
            "type": "message",
            "subtype": "message_deleted",
            "previous_message": before,
            "channel": message.channel.id,
            "channel_type": message.channel.kind,
            "hidden": True,
            "deleted_ts": message.ts,
            "ts": self.new_ts(),
        }
        delivery = self.event(event, team, channel=message.channel, user=message.user)
        return [] if delivery is None else [delivery]


def _search_token(message: Message) -> str:
    """Return the permission to search for the author of a message, with the bot's token."""
    return f"{message.user.id}.{message.ts}.search"


def _authorization(grant: Grant, team: Team) -> Json:
    org_wide = grant.team is None
    return {
        "enterprise_id": team.enterprise or None,
        "team_id": None if org_wide else team.id,
        "user_id": grant.bot.id,
        "is_bot": True,
        "is_enterprise_install": org_wide,
    }


# --- what a user does with the app itself -----------------------------------------------------


def interaction(kind: str, user: User, team: Team, **more: object) -> Json:
    """Return what every interaction carries."""
    org_wide = team.grant is not None and team.grant.team is None
    return {
        "type": kind,
        "user": user.brief(),
        "api_app_id": APP_ID,
        "token": _TOKEN,
        # An organisation's installation names no team where there is no channel.
        "team": None if org_wide and "channel" not in more else user.team.to_json(),
        "enterprise": user.team.enterprise_json,
        "is_enterprise_install": org_wide,
        **more,
    }


def command(
    name: str, text: str, user: User, channel: Channel, *, trigger: str, response_url: str
) -> Json:
    """Return a slash command, as its form carries it."""
    org_wide = user.team.grant is not None and user.team.grant.team is None
    payload: Json = {
        "token": _TOKEN,
        "team_id": user.team.id,
        "team_domain": user.team.domain,
        "channel_id": channel.id,
        "channel_name": "directmessage" if channel.kind == "im" else channel.name,
        "user_id": user.id,
        "user_name": user.name,
        "command": name,
        "text": text,
        "api_app_id": APP_ID,
        "is_enterprise_install": str(org_wide).lower(),
        "response_url": response_url,
        "trigger_id": trigger,
    }
    if user.team.enterprise:
        payload |= {"enterprise_id": user.team.enterprise, "enterprise_name": "The organisation"}
    return payload
