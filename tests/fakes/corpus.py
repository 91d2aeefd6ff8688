"""One test for a property of many cases, which reports every case that breaks it."""

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any


def over(name: str, cases: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that calls a test once with each case, as one test.

    A test of its own for each of a thousand short texts costs more than the texts.

    Args:
        name: The argument of the test that gets the case.
        cases: All cases; there has to be one.
    """
    given = list(cases)
    assert given, f"There is no {name} to test."

    def decorate(check: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(check)
        others = [each for each in signature.parameters.values() if each.name != name]

        @functools.wraps(check)
        def test(**fixtures: Any) -> None:
            broken = []
            for case in given:
                try:
                    check(**fixtures, **{name: case})
                except Exception as error:  # noqa: BLE001 - reported below
                    broken.append(f"{case!r:.200}: {type(error).__name__}: {error}")
            assert not broken, f"{len(broken)} of {len(given)} break it:\n" + "\n".join(broken)

        test.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        return test

    return decorate
