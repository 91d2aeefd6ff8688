"""What a failed request means for the user who asked."""

from dataclasses import replace
from datetime import timedelta
from email.utils import format_datetime

import pytest

from bot.errors import (
    ContextTooLongError,
    ImagesRefusedError,
    ModelError,
    ModelRefusedError,
    ModelUnavailableError,
)
from bot.models.failures import LONGEST_WAIT_SECONDS, Failure, retry_after
from bot.values import utc_now


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "-3"}, 0),
        ({"retry-after": "4000000"}, LONGEST_WAIT_SECONDS),
        ({"retry-after": "inf"}, LONGEST_WAIT_SECONDS),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0),
    ],
)
def test_the_wait_that_a_provider_asks_for_is_understood(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert retry_after(headers) == seconds


def test_the_wait_may_be_given_as_a_date() -> None:
    later = format_datetime(utc_now() + timedelta(seconds=30), usegmt=True)

    seconds = retry_after({"retry-after": later})

    assert seconds == pytest.approx(30, abs=2)


@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [
        (401, "", "models.anthropic.api_key"),
        (403, "", "models.anthropic.api_key"),
        (402, "", "spend limit"),
        (429, "rate_limit_error enforced_spend_limit_reached", "spend limit"),
        (404, "", "There is no model claude-x"),
        (413, "", "!new"),
        (418, "", "in the log"),
        (529, "", "in a minute"),
        (200, "", "busy"),
    ],
)
def test_a_user_is_told_what_to_do_next(status: int, kind: str, words: str) -> None:
    failure = Failure(
        provider="Anthropic",
        setting="models.anthropic",
        model="claude-x",
        status=status,
        kind=kind,
        text="internal detail at 10.0.0.1",
    )

    error = failure.error()

    assert words in str(error)
    assert "internal detail" not in str(error)
    assert isinstance(error, ModelError)


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (400, "image.source.base64: image exceeds 5 MB maximum: 6966816 bytes > 5242880 bytes"),
        (400, "invalid message format"),
        (422, "content must be a string"),
        (404, "No endpoints found that support image input"),
        (500, "image input is not supported - hint: you may need to provide the mmproj"),
    ],
)
def test_a_request_with_images_that_is_refused_is_refused_for_them(status: int, text: str) -> None:
    failure = Failure(
        provider="A", setting="s", model="claude-x", status=status, text=text, images=True
    )

    error = failure.error()

    assert isinstance(error, ImagesRefusedError)
    assert "claude-x may not read images" in str(error)
    assert "!model" in str(error)
    assert not isinstance(replace(failure, images=False).error(), ImagesRefusedError)


@pytest.mark.parametrize(
    ("status", "text", "kind"),
    [
        (429, "Rate limit reached: images per minute", ModelUnavailableError),
        (503, "The image service is starting", ModelUnavailableError),
        (500, "Something went wrong", ModelUnavailableError),
        (404, "model not found", ModelRefusedError),
        (413, "Request exceeds the maximum size", ContextTooLongError),
        (400, "prompt is too long", ContextTooLongError),
        (400, "Your credit balance is too low", ModelRefusedError),
        (401, "invalid key", ModelRefusedError),
    ],
)
def test_images_are_not_blamed_for_other_troubles(
    status: int, text: str, kind: type[ModelError]
) -> None:
    failure = Failure(provider="A", setting="s", model="m", status=status, text=text, images=True)

    assert type(failure.error()) is kind


def test_what_the_provider_said_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    failure = Failure(provider="A", setting="s", model="m", status=400, text="field x is wrong")

    failure.error()

    assert "field x is wrong" in caplog.text
