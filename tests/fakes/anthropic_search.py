"""What the fake Anthropic API answers when it searched the web itself."""

from dataclasses import dataclass

from bot.agent.messages import Usage
from bot.values import Json
from tests.fakes.model_server import Reply

SEARCH_USAGE = Usage(9_000, 300)


@dataclass(frozen=True, slots=True)
class Page:
    """A page that the search finds.

    Attributes:
        age: `None` where the provider does not know it.
        quotes: What Claude cites of it.
    """

    title: str
    url: str
    age: str | None = None
    quotes: tuple[str, ...] = ()


def searched(*pages: Page, stop: str = "end_turn", usage: Usage = SEARCH_USAGE) -> Reply:
    """Return the answer of a Claude that searched, found these pages, and wrote about them."""
    results = [
        {
            "type": "web_search_result",
            "title": page.title,
            "url": page.url,
            "page_age": page.age,
            "encrypted_content": "EqgfCioIARgBIiQ3YTAw",
        }
        for page in pages
    ]
    blocks = (*_called(), _result(results), *(_sentence(page) for page in pages if page.quotes))
    return Reply(blocks=blocks, stop=stop, usage=usage)


def search_failed(code: str) -> Reply:
    """Return the answer of a Claude whose search failed: the request itself went well."""
    failed = {"type": "web_search_tool_result_error", "error_code": code}
    text = {"type": "text", "text": "The search failed."}
    return Reply(blocks=(*_called(), _result(failed), text), stop="end_turn", usage=SEARCH_USAGE)


def paused() -> Reply:
    """Return an answer that broke off before the search came back, to be sent again."""
    return Reply(blocks=_called(), stop="pause_turn", usage=Usage(500, 40))


def _called() -> tuple[Json, ...]:
    thought = {"type": "thinking", "thinking": "", "signature": "c2lnbmVk"}
    call = {
        "type": "server_tool_use",
        "id": "srvtoolu_1",
        "name": "web_search",
        "input": {"query": "whales"},
    }
    return thought, call


def _result(content: object) -> Json:
    return {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": content}


def _sentence(page: Page) -> Json:
    cited = [
        {
            "type": "web_search_result_location",
            "url": page.url,
            "title": page.title,
            "encrypted_index": "Eo8BCioIAhgBIiQyYjQ0",
            "cited_text": quote,
        }
        for quote in page.quotes
    ]
    return {"type": "text", "text": f"It tells of {page.title}.", "citations": cited}
