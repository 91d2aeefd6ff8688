"""What the adapters around an SDK share."""

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from bot.agent.messages import Answer, Usage, UserMessage
from bot.models.base import ModelRequest
from bot.models.client import SHOWN_EVERY_SECONDS, Lazy, Sdk, SdkModel
from bot.values import Json

REQUEST = ModelRequest(model="m", prompt="", messages=(UserMessage("Hi"),))


@dataclass
class Growing:
    """A streamed answer whose events are the whole text so far."""

    complete: bool = True
    shown: str = ""

    @property
    def document(self) -> Json:
        return {"text": self.shown}

    def usage(self, request: ModelRequest) -> Usage | None:
        return None

    def take(self, event: Json) -> None:
        self.shown = event["text"]


async def events(texts: Sequence[str], pause: float) -> AsyncIterator[Json]:
    """Yield the events of a stream."""
    for text in texts:
        yield {"text": text}
        await asyncio.sleep(pause)


async def heard_of(texts: Sequence[str], *, pause: float) -> list[str]:
    """Return the texts that are handed on of an answer that grows like this."""

    @asynccontextmanager
    async def stream(_: Json) -> AsyncIterator[AsyncIterator[Json]]:
        yield events(texts, pause)

    async def nothing(*_: object) -> None:
        return None

    sdk = Sdk(
        provider="A",
        setting="models.a",
        close=nothing,
        send=nothing,
        stream=stream,
        idle_seconds=1,
        read_timeout=TimeoutError,
        answered=lambda _: False,
        code="code",
        troubles=(),
    )
    model = SdkModel(
        name="A",
        sdk=Lazy(lambda: sdk),
        body_for=lambda _, *, streamed: {"streamed": streamed},
        answer_from=lambda document, _: Answer(document["text"]),
        new_stream=Growing,
        timeout_seconds=1,
    )
    heard: list[str] = []
    await model.ask(REQUEST, heard.append)
    return heard


async def test_a_text_is_handed_on_when_it_grew_and_never_empty() -> None:
    texts = ("", "One", "One", "One two", "One two")

    heard = await heard_of(texts, pause=SHOWN_EVERY_SECONDS * 1.1)

    assert heard == ["One", "One two"]


async def test_after_a_text_the_next_one_is_not_handed_on_at_once() -> None:
    heard = await heard_of(("One", "One two", "One two three"), pause=0)

    assert heard == ["One", "One two three"]


async def test_a_text_that_ends_empty_is_not_handed_on_empty() -> None:
    assert await heard_of(("One", ""), pause=0) == ["One"]


async def test_something_slow_is_opened_once_and_beside_the_loop() -> None:
    threads: list[int] = []

    def opener() -> str:
        threads.append(threading.get_ident())
        return "open"

    lazy = Lazy(opener)
    before = lazy.opened
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(lazy.get()) for _ in range(5)]

    assert before is None
    assert [task.result() for task in tasks] == ["open"] * 5
    assert lazy.opened == "open"
    assert len(threads) == 1
    assert threads[0] != threading.get_ident()


async def test_opening_that_failed_is_tried_again() -> None:
    attempts: list[int] = []

    def opener() -> str:
        attempts.append(1)
        if len(attempts) == 1:
            raise OSError("no luck")
        return "open"

    lazy = Lazy(opener)
    async with asyncio.timeout(5):
        failed = await asyncio.wait([asyncio.ensure_future(lazy.get())])
        opened = await lazy.get()

    assert isinstance(next(iter(failed[0])).exception(), OSError)
    assert opened == "open"
