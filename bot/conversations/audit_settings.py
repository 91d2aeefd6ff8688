"""The settings of the audit log."""

from pydantic import Field, SecretStr

from bot.values import Settings

LEAST_KEY_CHARACTERS = 32


class AuditSettings(Settings):
    """Everything under `audit:`."""

    key: SecretStr | None = Field(None, min_length=LEAST_KEY_CHARACTERS)
    """Seals the audit log: a random text of at least 32 characters, the same for all processes,
    such as "${RETINUE_AUDIT_KEY}". null: the bot makes one in the file `audit.key` of its data
    folder, which is enough for one machine.
    """

    former_keys: tuple[SecretStr, ...] = ()
    """Keys that sealed older entries, so that these can still be verified."""
