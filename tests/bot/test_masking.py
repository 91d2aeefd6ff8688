"""Keys are masked in every documented format; nothing else is."""

import html.entities
import importlib.metadata
import keyword
import random
import string
import sys
import sysconfig
import unicodedata
import zoneinfo
from collections.abc import Iterator
from pathlib import Path
from re import _parser  # type: ignore[attr-defined]

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot import masking
from bot.masking import FORMATS, MASK, keep_secret, masked, without_keys, without_secrets

LOWER, UPPER, DIGITS = string.ascii_lowercase, string.ascii_uppercase, string.digits
ALNUM, HEX = LOWER + UPPER + DIGITS, DIGITS + "abcdef"
URL64, B64 = ALNUM + "-_", ALNUM + "+/"

SECRETS = [
    "sk-ant-api03-abcdefghijklmnop",
    "sk-proj-ABCdef_123-456789",
    "xoxb-1234567890-abcdef",
    "xapp-1-A012-3456789-abc",
    "ghp_abcdefghijklmnopqrstuvwx",
    "AKIAABCDEFGHIJKLMNOP",
    "MTIzNDU2Nzg5MDEyMzQ1Njc4.GabcdE.abcdefghijklmnopqrstuvwxyz1",
]

#: Formats as their issuers document them: texts, and (alphabet, length) for what is drawn.
DOCUMENTED: dict[str, tuple[str | tuple[str, int], ...]] = {
    "Anthropic": ("sk-ant-api03-", (URL64, 93), "AA"),
    "Anthropic admin": ("sk-ant-admin01-", (URL64, 93), "AA"),
    "Anthropic OAuth": ("sk-ant-oat01-", (URL64, 93), "AA"),
    "OpenAI of 2023": ("sk-", (ALNUM, 20), "T3BlbkFJ", (ALNUM, 20)),
    "OpenAI project": ("sk-proj-", (URL64, 74), "T3BlbkFJ", (URL64, 74)),
    "OpenAI service account": ("sk-svcacct-", (URL64, 58), "T3BlbkFJ", (URL64, 58)),
    "OpenAI admin": ("sk-admin-", (URL64, 58), "T3BlbkFJ", (URL64, 58)),
    "OpenRouter": ("sk-or-v1-", (HEX, 64)),
    "DeepSeek": ("sk-", (HEX, 32)),
    "Langfuse": ("sk-lf-", (HEX, 8), "-", (HEX, 4), "-", (HEX, 4), "-", (HEX, 4), "-", (HEX, 12)),
    "Cerebras": ("csk-", (LOWER + DIGITS, 48)),
    "Google": ("AIza", (URL64, 35)),
    "Google client": ("GOCSPX-", (URL64, 28)),
    "Google access": ("ya29.", (URL64, 120)),
    "Google refresh": ("1//0", (URL64, 60)),
    "Groq": ("gsk_", (ALNUM, 52)),
    "xAI": ("xai-", (ALNUM, 80)),
    "Perplexity": ("pplx-", (ALNUM, 48)),
    "Replicate": ("r8_", (ALNUM, 37)),
    "Hugging Face": ("hf_", (LOWER + UPPER, 34)),
    "NVIDIA": ("nvapi-", (URL64, 64)),
    "Together": ("tgp_v1_", (URL64, 43)),
    "Tavily": ("tvly-", (ALNUM, 32)),
    "Tavily development": ("tvly-dev-", (ALNUM, 32)),
    "Brave": ("BSA", (URL64, 28)),
    "Jina": ("jina_", (ALNUM, 60)),
    "Firecrawl": ("fc-", (HEX, 32)),
    "LangSmith": ("lsv2_pt_", (HEX, 32), "_", (HEX, 10)),
    "Pinecone": ("pcsk_", (ALNUM, 70)),
    "ElevenLabs": ("sk_", (HEX, 48)),
    "Apify": ("apify_api_", (ALNUM, 36)),
    "Slack bot": ("xoxb-", (DIGITS, 12), "-", (DIGITS, 13), "-", (ALNUM, 24)),
    "Slack user": ("xoxp-", (DIGITS, 12), "-", (DIGITS, 12), "-", (DIGITS, 13), "-", (HEX, 32)),
    "Slack rotated": ("xoxe.xoxb-1-", (ALNUM, 166)),
    "Slack refresh": ("xoxe-1-", (ALNUM, 146)),
    "Slack app": ("xapp-1-A", (UPPER + DIGITS, 10), "-", (DIGITS, 13), "-", (HEX, 64)),
    "Slack workflow": ("xwfp-", (DIGITS, 12), "-", (ALNUM, 24)),
    "Slack webhook": (
        *("https://hooks.slack.com/services/T", (UPPER + DIGITS, 10), "/B"),
        *((UPPER + DIGITS, 10), "/", (ALNUM, 24)),
    ),
    "Discord bot": ("MTIzNDU2Nzg5MDEyMzQ1Njc4", ".G", (URL64, 5), ".", (URL64, 38)),
    "Discord webhook": ("https://discord.com/api/webhooks/1", (DIGITS, 18), "/", (URL64, 68)),
    "Telegram": ((DIGITS, 10), ":AA", (URL64, 33)),
    "GitHub": ("ghp_", (ALNUM, 36)),
    "GitHub app": ("ghs_", (ALNUM, 36)),
    "GitHub OAuth": ("gho_", (ALNUM, 36)),
    "GitHub fine-grained": ("github_pat_", (ALNUM, 22), "_", (ALNUM, 59)),
    "GitLab": ("glpat-", (URL64, 20)),
    "GitLab routable": ("glpat-", (URL64, 27), ".01.", (LOWER + DIGITS, 9)),
    "GitLab runner": ("GR1348941", (URL64, 20)),
    "npm": ("npm_", (ALNUM, 36)),
    "PyPI": ("pypi-AgEIcHlwaS5vcmc", (URL64, 120)),
    "RubyGems": ("rubygems_", (HEX, 48)),
    "crates.io": ("cio", (ALNUM, 32)),
    "NuGet": ("oy2", (LOWER + DIGITS, 43)),
    "Docker": ("dckr_pat_", (URL64, 27)),
    "Clojars": ("CLOJARS_", (HEX, 60)),
    "AWS": ("AKIA", (UPPER + "234567", 16)),
    "AWS temporary": ("ASIA", (UPPER + "234567", 16)),
    "AWS Bedrock": ("ABSK", (B64, 124)),
    "AWS secret": ("aws_secret_access_key = ", (B64, 40)),
    "Azure client": ((ALNUM, 3), "8Q~", (ALNUM + "-_", 34)),
    "Azure storage": ("AccountKey=", (B64, 86), "=="),
    "Alibaba": ("LTAI", (ALNUM, 20)),
    "DigitalOcean": ("dop_v1_", (HEX, 64)),
    "Databricks": ("dapi", (HEX, 32)),
    "Heroku": ("HRKU-AA", (URL64, 58)),
    "Fly": ("fm2_", (B64, 150)),
    "Supabase": ("sbp_", (HEX, 40)),
    "Supabase secret": ("sb_secret_", (URL64, 31)),
    "PlanetScale": ("pscale_tkn_", (URL64, 43)),
    "Netlify": ("nfp_", (ALNUM, 36)),
    "Render": ("rnd_", (ALNUM, 28)),
    "Cloudflare origin": ("v1.0-", (HEX, 24), "-", (HEX, 146)),
    "Vault": ("hvs.", (URL64, 90)),
    "Terraform": ((ALNUM, 14), ".atlasv1.", (URL64, 67)),
    "Pulumi": ("pul-", (HEX, 40)),
    "Doppler": ("dp.pt.", (ALNUM, 43)),
    "1Password": ("A3", *(part for n in (6, 6, 5, 5, 5, 5) for part in ("-", (UPPER + DIGITS, n)))),
    "1Password service": ("ops_eyJ", (B64, 250)),
    "age": ("AGE-SECRET-KEY-1", (UPPER + DIGITS, 58)),
    "Stripe": ("sk_live_", (ALNUM, 24)),
    "Stripe restricted": ("rk_test_", (ALNUM, 99)),
    "Stripe webhook": ("whsec_", (ALNUM, 32)),
    "Square": ("sq0atp-", (URL64, 22)),
    "Meta": ("EAA", (ALNUM, 180)),
    "Shopify": ("shpat_", (HEX, 32)),
    "SendGrid": ("SG.", (URL64, 22), ".", (URL64, 43)),
    "Mailgun": ("key-", (HEX, 32)),
    "Mailchimp": ((HEX, 32), "-us12"),
    "Brevo": ("xkeysib-", (HEX, 64), "-", (ALNUM, 16)),
    "Resend": ("re_", (ALNUM, 8), "_", (ALNUM, 24)),
    "Twilio": ("SK", (HEX, 32)),
    "Airtable": ("pat", (ALNUM, 14), ".", (HEX, 64)),
    "Asana": ("1/", (DIGITS, 16), ":", (HEX, 32)),
    "Atlassian": ("ATATT3", (URL64, 180), "=", (HEX, 8)),
    "Dropbox": ("sl.", (URL64, 130)),
    "Dynatrace": ("dt0c01.", (UPPER + DIGITS, 24), ".", (UPPER + DIGITS, 64)),
    "Figma": ("figd_", (URL64, 40)),
    "Grafana": ("glsa_", (ALNUM, 32), "_", (HEX, 8)),
    "Grafana cloud": ("glc_", (ALNUM, 120), "=="),
    "Linear": ("lin_api_", (ALNUM, 40)),
    "New Relic": ("NRAK-", (UPPER + DIGITS, 27)),
    "Notion": ("ntn_", (DIGITS, 11), (ALNUM, 35)),
    "Notion of 2023": ("secret_", (ALNUM, 43)),
    "Postman": ("PMAK-", (HEX, 24), "-", (HEX, 34)),
    "Sentry": ("sntrys_", (ALNUM, 100)),
    "JWT": ("eyJ", (URL64, 33), ".eyJ", (URL64, 80), ".", (URL64, 43)),
    "private key": (
        *("-----BEGIN RSA PRIVATE KEY-----\n", (B64, 64), "\n", (B64, 64), "\n", (B64, 32)),
        "==\n-----END RSA PRIVATE KEY-----",
    ),
    "encrypted private key": (
        *("-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,"),
        *((HEX, 32), "\n\n", (B64, 64), "\n", (B64, 60), "\n-----END EC PRIVATE KEY-----"),
    ),
}


def drawn(name: str, seed: int) -> str:
    """Return a key of a documented format that nobody ever had."""
    chance = random.Random(f"{name} {seed}")
    return "".join(
        part if isinstance(part, str) else "".join(chance.choices(part[0], k=part[1]))
        for part in DOCUMENTED[name]
    )


def secret_part(name: str, key: str) -> str:
    """Return what must not be seen: the key without the texts that all keys of its kind share."""
    drawn_before = 0
    for part in DOCUMENTED[name]:
        if not isinstance(part, str) and part[1] >= 5:
            return key[drawn_before : drawn_before + min(part[1], 12)]
        drawn_before += len(part) if isinstance(part, str) else part[1]
    raise AssertionError(name)


SEEDS = 40


@pytest.mark.parametrize("name", DOCUMENTED)
def test_a_key_of_every_documented_format_is_masked(name: str) -> None:
    for seed in range(SEEDS):
        key = drawn(name, seed)
        for before, after in (
            *(
                ("", ""),
                ("key=", ""),
                ('{"key": "', '"}'),
                ("Use `", "`."),
                ("(", ")"),
                ("钥匙", "。"),
            ),
            *(("a\\n", "\\nb"), ("?key%3D", "&b=c"), ("\x1b[31m", "\x1b[0m"), ("KEY_", " ")),
        ):
            masked = without_keys(f"{before}{key}{after}")

            assert secret_part(name, key) not in masked
            assert MASK in masked
            assert masked.startswith(before)
            assert masked.endswith(after)


@pytest.mark.parametrize(
    "key",
    [
        "glpat-QrQwKpbrquxOpd2nmRul",
        "glpat-UmkpIscJjdWfHvnKJjux",
        "BSAQ68umW0RLGvq-yf9DvS_2C4Z4zcs",
        "rnd_BlyulOAalfUnjNzhJxdxhlddSjfo",
        "sk_live_VxhywbUhomfisdJyhauxMmVv",
        "sq0atp-6TWNgcC_EMxsqfbqfoAojZ",
        "NRAK-EFUIKGWIOCWXWKMPJPAQZCNZJOT",
        f"pypi-AgEIcHlwaS5vcmc{'GrA49Ujhu6Hj8HsZxn-Fl3M53vgmaH' * 2}_sk-Sg8Gg8{'GrA49Ujh' * 4}",
    ],
)
def test_a_key_with_few_digits_or_with_another_format_inside_is_masked_whole(key: str) -> None:
    assert without_keys(key) == MASK


@pytest.mark.parametrize("name", DOCUMENTED)
def test_a_key_between_other_texts_of_a_document_is_masked(name: str) -> None:
    key = drawn(name, 0)
    alone = without_secrets(key)

    document = masked({"parts": ["sk-", key, [key, "0123456789abcdef"]]})

    assert alone != key
    assert document == {"parts": ["sk-", alone, [alone, "0123456789abcdef"]]}


def test_no_format_has_shorter_keys_than_are_searched_for() -> None:
    # The parser of the standard library knows the least length; its module has no public name.
    least = min(_parser.parse(each.core.pattern).getwidth()[0] for each in FORMATS)
    assert least == masking.SHORTEST_KEY


def test_every_format_is_drawn_in_these_tests() -> None:
    keys = [drawn(name, seed) for name in DOCUMENTED for seed in range(3)]

    unused = [each for each in FORMATS if not any(each.pattern.search(key) for key in keys)]

    assert [each.issuer for each in unused] == ["Google", "Hugging Face", "Discord"]


@pytest.mark.parametrize(
    "text",
    [
        "flask-jwt-extended, flask-sqlalchemy-lite and flask-limiter-2024-09",
        "a risk-averse task-scheduler-for-2026, disk-usage-analyzer-v3 and desk-booking-system",
        ".sk-toggleable__label-arrow, #sk-container-id-12, sk-estimator-doc-link",
        "Set SLACK_BOT_TOKEN to xoxb-your-token-here and OPENAI_API_KEY to sk-your-key-goes-here.",
        "sk-ant-..., sk-proj-your-project-key, ghp_xxxxxxxxxxxxxxxxxxxx, AKIAIOSFODNN7EXAMPLE",
        "postgresql://scott:tiger@localhost/test, http://user:password@proxy.example:8080",
        'f"{scheme}://{user}:{password}@{host}" and "https://%s:%s@%s" and https://$USER:$PASS@h',
        "MyVeryLongClassNameForTests.method.another_very_long_name_of_a_function",
        "sha512-9yP1tBkS1nGzJ2bqkq0F0pM6m5mAKIAqkq0F0pM6m5m+AIzaX/sk==",
        "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
        "3f2b1c4d-0000-4000-8000-000000000001 e3b0c44298fc1c149afbf4c8996fb92427ae41e4",
        "eyJ is how a JWT begins; SG.1, key-value-store, pat.x, re_compile_all, hf_hub_download",
    ],
)
def test_text_that_only_resembles_keys_stays(text: str) -> None:
    assert without_secrets(text, prose=True) == text


def lines_of_packages() -> Iterator[str]:
    """Yield lines of the standard library and of installed packages, evenly spread."""
    roots = [Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib")]
    for file in sorted({file for root in roots for file in root.rglob("*.py")})[::4]:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
        yield from lines[:: max(1, len(lines) // 6)]
    for each in importlib.metadata.distributions():
        yield from (each.read_text("RECORD") or "").splitlines()[:60]


def words() -> Iterator[str]:
    """Yield words that were not chosen for this: names of many kinds."""
    yield from html.entities.html5
    yield from keyword.kwlist
    yield from sorted(sys.stdlib_module_names)
    yield from sorted(zoneinfo.available_timezones())
    yield from (each.metadata["Name"] for each in importlib.metadata.distributions())
    for code in range(0x2000, 0x3000):
        yield unicodedata.name(chr(code), "").lower().replace(" ", "-")


def test_ten_thousand_lines_of_packages_and_word_lists_stay() -> None:
    lines = [*lines_of_packages(), *words()]

    assert len(lines) >= 10_000
    assert [line for line in lines if without_secrets(line, prose=True) != line] == []


WORDS = st.text(LOWER, min_size=1, max_size=12)
NAMES = st.lists(WORDS | st.integers(0, 9999).map(str), min_size=1, max_size=8).flatmap(
    lambda parts: st.sampled_from("-_. ").map(lambda sign: sign.join(parts))
)


@given(
    st.lists(NAMES, max_size=4).map(" ".join),
    st.sampled_from(["", "sk-", "flask-", "xoxb-my-", "gl", "key-", "hf_", "pat", "re_", "://"]),
)
@settings(max_examples=500)
def test_words_and_numbers_in_any_order_stay(text: str, before: str) -> None:
    assert without_secrets(before + text, prose=True) == before + text


@given(
    st.text(max_size=40),
    st.sampled_from(list(DOCUMENTED)),
    # Those of the test above: one of some 100,000 looks so like words that it is left as it is.
    st.integers(0, SEEDS - 1),
    st.sampled_from([" ", "\n", '"', "'", "`", "=", "(", ",", ": "]),
    st.text(max_size=40),
)
@settings(max_examples=500)
def test_a_key_anywhere_is_masked_and_masking_again_changes_nothing(
    before: str, name: str, seed: int, sign: str, after: str
) -> None:
    key = drawn(name, seed)

    masked = without_keys(f"{before}{sign}{key} {after}")

    assert secret_part(name, key) not in masked
    assert without_keys(masked) == masked


@pytest.mark.parametrize(
    ("text", "in_prose", "in_logs"),
    [
        ("://scott:tiger@h", "://scott:tiger@h", "://[secret]@h"),
        ("://bot:hunter2hunter2@h", "://[secret]@h", "://[secret]@h"),
        ("://a:b%40c1234@h", "://[secret]@h", "://[secret]@h"),
        ("://{user}:{password}@h", "://{user}:{password}@h", "://{user}:{password}@h"),
    ],
)
def test_the_password_of_an_address_is_masked(text: str, in_prose: str, in_logs: str) -> None:
    assert without_secrets(text, prose=True) == in_prose
    assert without_secrets(text) == in_logs


def test_time_grows_with_the_text_alone() -> None:
    for each in FORMATS:
        for hint in each.hints:
            # A pattern that backtracks over the rest at every hint would not end.
            assert isinstance(without_keys(hint * 20_000), str)


@pytest.fixture
def known() -> Iterator[None]:
    """Keep what a test makes secret to that test."""
    before = set(masking._known)
    yield
    masking._known.intersection_update(before)


@pytest.mark.parametrize("secret", SECRETS)
def test_what_looks_like_a_key_is_masked(secret: str) -> None:
    assert without_secrets(f"key={secret}, ok") == f"key={MASK}, ok"


def test_the_password_in_an_address_is_masked_and_the_host_is_not() -> None:
    text = without_secrets("postgresql://bot:hunter2@db.example:5432/retinue")

    assert text == f"postgresql://{MASK}@db.example:5432/retinue"


@pytest.mark.parametrize("text", ["ask-me-anything please", "https://example.com/a:b", "skating"])
def test_what_is_no_key_stays(text: str) -> None:
    assert without_secrets(text) == text


@pytest.mark.usefixtures("known")
def test_keys_from_the_configuration_are_masked_whatever_they_look_like() -> None:
    keep_secret(["correct horse", "abc"])

    text = without_secrets("a correct horse; abc")

    assert text == f"a {MASK}; abc", "what is too short to be a key stays"


_PIECES = (
    *("", "word", "https://", "u:hunter2hunter2", "https://u:hunter2hunter2@host/", "@host/"),
    *("sk-", "sk-ant-api03-a1b2c3d4e5f6g7h8", "ghp_", "0123456789abcdefghij01", "xoxb-1-abcdefgh"),
    *("AWS_SECRET_ACCESS_KEY=", "a1B2c3D4e5F6g7H8i9J0a1B2c3D4e5F6g7H8i9J0", "-----BEGIN PRIVATE"),
)
_A_TEXT = st.lists(st.sampled_from(_PIECES), max_size=3).map("".join)


@given(st.lists(st.one_of(_A_TEXT, st.lists(_A_TEXT, max_size=2), st.integers()), max_size=5))
def test_the_texts_of_a_document_are_masked_as_each_by_itself(parts: list[object]) -> None:
    def alone(part: object) -> object:
        if isinstance(part, list):
            return [alone(each) for each in part]
        return without_secrets(part) if isinstance(part, str) else part

    assert masked({"parts": parts}) == {"parts": [alone(part) for part in parts]}


@pytest.mark.usefixtures("known")
def test_of_a_key_that_begins_like_another_nothing_is_left() -> None:
    for end in range(7, 20):
        keep_secret(["abcdefghijklmnopqrstuvwxyz"[:end]])

    assert without_secrets("abcdefghijklmnopqrs!") == f"{MASK}!"


def test_the_password_of_an_address_is_masked_whatever_its_user_name_looks_like() -> None:
    address = "https://sk-aaaaaaaaaaaaaaaa:hunter2@host/path"

    assert without_secrets(address) == "https://[secret]@host/path"
