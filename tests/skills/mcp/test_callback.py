"""The page after a sign-in shows what to send back, and does nothing else."""

from starlette.testclient import TestClient

from skills.mcp.callback import app
from skills.mcp.sign_ins import CALLBACK_PATH


def test_the_page_shows_the_line_to_copy_and_no_markup_of_others() -> None:
    client = TestClient(app())

    page = client.get(f"{CALLBACK_PATH}?code=a&state=b&x=%3Cscript%3E<b>")
    other = client.get(f"{CALLBACK_PATH}?x=1")

    assert "code=a&amp;state=b" in page.text
    assert "<b>" not in page.text
    assert page.headers["cache-control"] == "no-store"
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert other.status_code == 400
