"""docs/promises.md names every story and contract."""

from tests.promises import PAGE, page


def test_the_page_of_promises_is_that_of_the_tests() -> None:
    assert PAGE.read_text("utf-8") == page(), "Run: .venv/bin/python -m tests.promises"
