"""`auth`, `conversations`, `users`, `bots`, `team` and `reactions`: who and what is there."""

from collections.abc import Sequence
from dataclasses import dataclass

from bot.values import Json
from tests.fakes.slack.messages import Channel, Message
from tests.fakes.slack.shapes import APP_ID, SlackError
from tests.fakes.slack.web import Ask, Method
from tests.fakes.slack.world import World


@dataclass(slots=True)
class Rooms:
    """The methods that look around, and the few that change nothing of weight."""

    world: World

    @property
    def methods(self) -> dict[str, Method]:
        return {
            "auth.test": self.test,
            "assistant.search.context": self.search,
            "auth.revoke": self.revoke,
            "bots.info": self.bot,
            "conversations.history": self.history,
            "conversations.info": self.channel,
            "conversations.members": self.members,
            "conversations.open": self.open,
            "conversations.replies": self.replies,
            "reactions.add": self.react,
            "reactions.remove": self.unreact,
            "team.info": self.team,
            "usergroups.list": self.groups,
            "users.conversations": self.joined,
            "users.info": self.user,
            "users.list": self.users,
        }

    def test(self, ask: Ask) -> Json:
        bot, org_wide = ask.grant.bot, ask.grant.team is None
        answer: Json = {
            "url": f"https://{ask.team.domain}.slack.com/",
            "team": "The organisation" if org_wide else ask.team.name,
            "user": bot.name,
            "team_id": ask.grant.enterprise if org_wide else ask.team.id,
            "user_id": bot.id,
            "bot_id": bot.bot_id,
            "is_enterprise_install": org_wide,
        }
        if ask.team.enterprise:
            answer["enterprise_id"] = ask.team.enterprise
        return answer

    def revoke(self, ask: Ask) -> Json:
        if not ask.flag("test"):
            ask.grant.revoked = "token_revoked"
        return {"revoked": not ask.flag("test")}

    def bot(self, ask: Ask) -> Json:
        for user in self.world.users.values():
            if user.is_bot and user.bot_id == ask.args.get("bot"):
                bot = {"id": user.bot_id, "app_id": APP_ID, "name": user.name, "user_id": user.id}
                return {"bot": bot | {"deleted": user.deleted}}
        raise SlackError("bot_not_found")

    def channel(self, ask: Ask) -> Json:
        channel = self._channel(ask)
        document = channel.to_json() | {"is_member": ask.grant.bot.id in channel.members}
        if channel.kind == "im":
            document["user"] = next(iter(channel.members - {ask.grant.bot.id}))
        return {"channel": document}

    def members(self, ask: Ask) -> Json:
        return _page(sorted(self._channel(ask).members), ask, usual=100, name="members")

    def open(self, ask: Ask) -> Json:
        users = [self.world.user(id_) for id_ in str(ask.args.get("users") or "").split(",") if id_]
        if not users:
            raise SlackError("users_list_not_supplied")
        if users[0].deleted:
            raise SlackError("user_disabled")
        if len(users) == 1:
            return {"channel": {"id": self.world.dm(users[0]).id}}
        members = [*users, ask.grant.bot]
        channel = self.world.add_channel("mpdm", "mpim", ask.team, members)
        return {"channel": {"id": channel.id}}

    def history(self, ask: Ask) -> Json:
        found = [m for m in self._standing(self._joined(ask)) if not m.thread_ts or m.broadcast]
        newest = [message.to_json() for message in reversed(found) if _is_after(message, ask)]
        return _page(newest, ask, usual=100, most=self.world.most_history)

    def replies(self, ask: Ask) -> Json:
        channel = self._joined(ask)
        asked = channel.messages.get(str(ask.args.get("ts")))
        if asked is None or not _stands(asked):
            raise SlackError("message_not_found")
        root = asked.root_ts
        found = [m for m in self._standing(channel) if m.root_ts == root]
        if not found:
            raise SlackError("thread_not_found")
        # The message that began it comes along, however old it is.
        shown = [m.to_json() for m in found if m.ts == root or _is_after(m, ask)]
        return _page(shown, ask, usual=1_000, most=self.world.most_history)

    def react(self, ask: Ask) -> Json:
        users, user = self._reaction(ask)
        if user in users:
            raise SlackError("already_reacted")
        users.add(user)
        return {}

    def unreact(self, ask: Ask) -> Json:
        users, user = self._reaction(ask)
        if user not in users:
            raise SlackError("no_reaction")
        users.remove(user)
        return {}

    def _reaction(self, ask: Ask) -> tuple[set[str], str]:
        name = str(ask.args.get("name") or "")
        if not name or name.startswith(":"):
            raise SlackError("invalid_name")
        channel = self.world.writable(ask.args.get("channel"), ask.grant)
        message = self.world.message(channel, ask.args.get("timestamp"))
        return message.reactions.setdefault(name, set()), ask.grant.bot.id

    def team(self, ask: Ask) -> Json:
        team = self.world.teams.get(str(ask.args.get("team") or ask.team.id))
        if team is None or not ask.grant.covers(team):
            raise SlackError("team_not_found")
        document = {"id": team.id, "name": team.name, "domain": team.domain}
        if team.enterprise:
            document |= {"enterprise_id": team.enterprise, "enterprise_name": "The organisation"}
        return {"team": document}

    def user(self, ask: Ask) -> Json:
        return {"user": self.world.user(ask.args.get("user")).to_json()}

    def joined(self, ask: Ask) -> Json:
        kinds = {"channel": "public_channel", "group": "private_channel"}
        found = [
            channel.to_json()
            for channel in self.world.channels.values()
            if ask.grant.bot.id in channel.members
            and kinds.get(channel.kind) in str(ask.args.get("types") or "public_channel").split(",")
        ]
        return _page(found, ask, usual=100, name="channels")

    def users(self, ask: Ask) -> Json:
        team = self.world.teams.get(str(ask.args.get("team_id") or ask.team.id))
        found = [user.to_json() for user in self.world.users.values() if user.team is team]
        return _page(found, ask, usual=200, name="members")

    def groups(self, ask: Ask) -> Json:
        """Return the user groups, with their members if they are wanted."""
        found = [
            {"id": id_, "team_id": ask.team.id, "handle": id_.lower(), "date_delete": 0}
            | ({"users": sorted(members)} if ask.flag("include_users") else {})
            for (team, id_), members in self.world.group_members.items()
            if team == ask.team.id
        ]
        return {"usergroups": found}

    def search(self, ask: Ask) -> Json:
        """Search the public channels for the user whose message brought the token."""
        user, _, rest = str(ask.args.get("action_token") or "").partition(".")
        if user not in self.world.users or not rest.endswith(".search"):
            raise SlackError("invalid_action_token")
        limit, words = int(ask.args.get("limit") or 20), str(ask.args["query"]).lower()
        found = [
            {
                "author_user_id": message.user.id,
                "team_id": channel.team.id,
                "channel_id": channel.id,
                "channel_name": channel.name,
                "message_ts": message.ts,
                "content": message.text,
                "is_author_bot": message.user.is_bot,
                "permalink": message.permalink,
            }
            for channel in self.world.channels.values()
            if channel.kind == "channel" and channel.team is ask.team
            for message in self._standing(channel)
            if words in message.text.lower()
        ]
        return {"results": {"messages": found[:limit]}}

    def _joined(self, ask: Ask) -> Channel:
        channel = self._channel(ask)
        if ask.grant.bot.id not in channel.members:
            raise SlackError("not_in_channel")
        return channel

    def _channel(self, ask: Ask) -> Channel:
        return self.world.channel(ask.args.get("channel"), ask.grant)

    def _standing(self, channel: Channel) -> list[Message]:
        return [message for message in channel.messages.values() if _stands(message)]


def _stands(message: Message) -> bool:
    """Return whether a message is in lists: a deleted one only as the tombstone of its thread."""
    return not message.deleted or message.subtype == "tombstone"


def _is_after(message: Message, ask: Ask) -> bool:
    at, bounds = float(message.ts), (ask.args.get("oldest"), ask.args.get("latest"))
    oldest, latest = float(bounds[0] or 0), float(bounds[1] or "inf")
    return oldest < at < latest or (ask.flag("inclusive") and at in {oldest, latest})


def _page(
    found: Sequence[object], ask: Ask, *, usual: int, most: int = 1_000, name: str = "messages"
) -> Json:
    """Return as many messages as were asked for, and where to go on."""
    limit = min(most, int(ask.args.get("limit") or usual))
    start = int(ask.args.get("cursor") or 0)
    end = start + limit
    more = len(found) > end
    return {
        name: list(found[start:end]),
        "has_more": more,
        "response_metadata": {"next_cursor": str(end) if more else ""},
    }
