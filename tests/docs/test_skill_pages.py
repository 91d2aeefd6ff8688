"""Each skill that comes with the bot has a page, which is up to date."""

import re

from tests.skill_pages import FOLDER, MARK, pages

_LINK = re.compile(r"\]\(([^)\s#]+)[^)\s]*\)")


def test_each_skill_has_a_page_and_each_page_a_skill() -> None:
    assert set(FOLDER.iterdir()) == set(pages()), "Run: .venv/bin/python -m tests.skill_pages"


def test_the_pages_are_those_of_the_skills() -> None:
    for path, text in pages().items():
        assert path.read_text("utf-8") == text, "Run: .venv/bin/python -m tests.skill_pages"


def test_each_page_says_more_than_its_tables_and_its_links_lead_somewhere() -> None:
    for path, text in pages().items():
        written = text.partition(MARK)[0].splitlines()
        assert len(" ".join(written[1:])) > 80, path
        for link in _LINK.findall(text):
            assert link.startswith("https://") or (FOLDER / link).exists(), (path, link)
