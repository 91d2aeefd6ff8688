"""Who may talk, start, see and stop what: decisions without waiting."""

from pydantic import Field

from bot.errors import NotAllowedError
from bot.values import Identity, Role, Settings


class AccessSettings(Settings):
    """Everything under `access:`."""

    admins: tuple[str, ...] = Field(
        (),
        description="People who may see and stop everyone's runs (audited): `platform:account`, "
        "for Slack `slack:workspace:account`.",
    )
    blocked: tuple[str, ...] = Field(
        (), description="People the bot does not answer, written like admins."
    )


def spelled(user: Identity) -> str:
    """Return how the configuration names a person: `discord:1234`, `slack:T1:U2`."""
    return ":".join(part for part in user.parts if part)


def role_of(user: Identity, settings: AccessSettings) -> Role:
    """Return a person's role: by account, never by a name that can be changed."""
    return Role.ADMIN if spelled(user) in settings.admins else Role.USER


def check_may_talk(user: Identity, settings: AccessSettings) -> None:
    """Let a person in.

    Raises:
        NotAllowedError: The admins have shut this person out.
    """
    if spelled(user) in settings.blocked:
        raise NotAllowedError("You cannot use this bot. Ask its admins if you think you should.")


def may_see(user_key: str, role: Role, owner_key: str) -> bool:
    """Whether a person may see, message or stop a run: its owner may, and admins (audited)."""
    return user_key == owner_key or role is Role.ADMIN
