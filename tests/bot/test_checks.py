"""What admins read of an error that is worded for users or models."""

from bot.checks import reason_of
from bot.errors import ModelUnavailableError, ToolError


def raised(error: Exception, *causes: Exception) -> Exception:
    """Return an error as it was raised while its causes were handled, the nearest first."""
    below: Exception | None = None
    for each in reversed((error, *causes)):
        each.__context__ = below
        each.__suppress_context__ = True
        below = each
    return error


def test_the_reason_is_what_the_system_said_and_no_advice_for_others() -> None:
    refused = OSError(111, "Connect call failed")
    users = ToolError("The service x cannot be reached now. Try again later.")
    noted = ModelUnavailableError("Anthropic is out of reach. Try again in a minute.")
    noted.add_note("connection refused")

    assert reason_of(raised(users, OSError("ClientError"), refused)) == str(refused)
    assert reason_of(noted) == "connection refused"
    assert reason_of(ToolError("It is gone. Try another.")) == "It is gone"
