"""The settings of health checks and metrics (`monitoring:`)."""

from pydantic import Field

from bot.values import Settings


class MonitoringSettings(Settings):
    """Everything under `monitoring:`."""

    host: str = "127.0.0.1"
    """The address for /healthz, /readyz and /metrics, of this computer only by default. They ask
    for no password and show no texts and no users.
    """

    port: int | None = Field(None, ge=1, le=65535)
    """Their port; null for none. Each process needs its own: with several on one computer set it
    by `RETINUE__MONITORING__PORT`.
    """
