"""The settings of agents and of Agent Skills."""

from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field, field_validator

from bot.setting_types import (
    LONGEST_WORK_SECONDS,
    MOST_CONTEXT_TOKENS,
    MOST_COUNT,
    MOST_MINUTES,
    MOST_TEXT_CHARACTERS,
)
from bot.values import Settings


class AgentSettings(Settings):
    """Everything under `agent:`: the main agent, and what every agent shares."""

    name: str = Field("Retinue", min_length=1, max_length=50)
    """The name of the bot."""

    instructions: str = Field("", max_length=20_000)
    """Your own rules for the main agent, after the built-in."""

    max_steps: int = Field(20, ge=1, le=200)
    """Requests to the model in one turn of the main agent."""

    max_tool_calls: int = Field(100, ge=1, le=MOST_COUNT)
    """Tool calls in one turn."""

    turn_timeout_seconds: float = Field(600, gt=0, le=LONGEST_WORK_SECONDS)
    """Time of one turn of the main agent, in seconds."""

    max_response_tokens: int = Field(16_000, ge=256, le=16_000)
    """Output tokens of one answer, main agent or run."""

    context_tokens: int = Field(100_000, ge=4000, le=MOST_CONTEXT_TOKENS)
    """History is trimmed to about so many tokens."""

    compact_at: float = Field(0.6, ge=0.1, le=0.95)
    """The part of `context_tokens` from which on older messages become a summary; never above
    80,000 tokens.
    """

    fixed_tokens: int = Field(6_000, ge=3_000, le=MOST_CONTEXT_TOKENS)
    """Tokens of what each request of the main agent carries: prompt, tools and agents, without your
    `instructions`. The tools and agents for which no tokens are left are searched instead.
    """

    tool_result_characters: int = Field(16_000, ge=500, le=MOST_TEXT_CHARACTERS)
    """A longer tool result is cut for the model, kept in the log."""

    listen_minutes: float = Field(1440, ge=0, le=MOST_MINUTES)
    """The time after the last word in which a thread is listened to without a mention."""

    timezone: str = "UTC"
    """The zone in which agents are told the time."""

    @field_validator("timezone")
    @classmethod
    def _is_a_zone(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        # The name of a folder of zones, such as `Europe`, raises OSError.
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise ValueError(f"no time zone {value!r}; use a name like Europe/Paris") from error
        return value


class AgentsSettings(Settings):
    """Everything under `agents:`."""

    folders: tuple[str, ...] = ()
    """Folders with further agents (*.md): one takes the place of a built-in agent of its name. They
    are read again when a file changes.
    """


class AgentSkillsSettings(Settings):
    """Everything under `agent_skills:`."""

    folders: tuple[str, ...] = ()
    """Folders that hold folders with a SKILL.md (agentskills.io), or are such ones. They are read
    again when a file changes; links in them are not followed.
    """
