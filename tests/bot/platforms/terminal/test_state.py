import asyncio
from collections.abc import Callable

import pytest

from bot.errors import NotPresentError
from bot.platforms.base import RunCard
from bot.platforms.terminal.outlet import TerminalOutlet
from bot.platforms.terminal.people import place_of
from bot.platforms.terminal.state import TerminalState
from bot.platforms.terminal.surface import Printable
from bot.values import Identity, RunStatus
from tests.bot.platforms.terminal.things import announcement, card, person, question


class Recorder:
    """A surface that remembers what it is given."""

    can_ask = True

    def __init__(self) -> None:
        self.said: list[Printable] = []
        self.cards: list[tuple[RunStatus, RunStatus | None]] = []

    def show(
        self, said: Printable, as_shown: Callable[[], None] | None = None
    ) -> asyncio.Future[None]:
        self.said.append(said)
        if as_shown is not None:
            as_shown()
        done = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

    def card_moved(self, card: RunCard, before: RunStatus | None) -> None:
        self.cards.append((card.status, before))

    def moved(self) -> None:
        pass

    def user_changed(self, user: Identity) -> None:
        pass


async def test_a_run_that_has_ended_does_not_come_back() -> None:
    state, surface = TerminalState(), Recorder()
    state.enter(person(), surface)

    for status in (RunStatus.RUNNING, RunStatus.COMPLETED, RunStatus.RUNNING):
        state.move_card(card(status=status))

    assert surface.cards == [
        (RunStatus.RUNNING, None),
        (RunStatus.COMPLETED, RunStatus.RUNNING),
    ]
    assert state.going == []


async def test_a_run_that_ended_while_its_owner_was_away_is_shown_once_when_they_are_back() -> None:
    state, others, own = TerminalState(), Recorder(), Recorder()
    state.enter(person("bob"), others)
    state.move_card(card("alice", status=RunStatus.RUNNING))
    state.move_card(card("alice", status=RunStatus.FAILED))

    state.enter(person("alice"), own)
    state.enter(person("alice"), own)

    assert others.cards == []
    assert own.cards == [(RunStatus.FAILED, None)]


async def test_everything_but_the_present_users_own_is_refused() -> None:
    state, surface = TerminalState(), Recorder()
    outlet = TerminalOutlet(state)
    with pytest.raises(NotPresentError, match="alice is not at the terminal"):
        await outlet.announce(announcement("alice"))
    state.enter(person("bob"), surface)

    with pytest.raises(NotPresentError):
        await outlet.announce(announcement("alice"))
    with pytest.raises(NotPresentError):
        await outlet.ask(question("alice"))
    with pytest.raises(NotPresentError):
        await outlet.open_reply(place_of(person("alice")), person("alice")).finish("secret")
    await outlet.tell(place_of(person("alice")), person("alice"), "secret")
    await outlet.announce(announcement("bob"))

    assert surface.said == [announcement("bob")]
    assert state.questions_of(person("alice")) == []


async def test_nobody_is_there_any_more_after_leaving() -> None:
    state = TerminalState()
    state.enter(person(), Recorder())
    state.leave()

    with pytest.raises(NotPresentError):
        state.surface_for(person())


async def test_a_reply_is_over_when_it_is_finished_refused_or_abandoned() -> None:
    state = TerminalState()
    outlet = TerminalOutlet(state)
    place = place_of(person())
    await outlet.acknowledge(place)
    assert state.busy(person())
    refused, abandoned, finished = (outlet.open_reply(place, person()) for _ in range(3))

    with pytest.raises(NotPresentError):
        await refused.finish("too early")
    await abandoned.abandon()
    state.enter(person(), Recorder())
    await finished.finish("just right")

    assert not state.busy(person())
    assert state.closed[person()] == 3
