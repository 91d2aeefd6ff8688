"""Masks secrets in texts: known values, and keys in the formats that their issuers document.

A match of a format needs its boundary, alphabet and length. Where a prefix is part of ordinary
words too, the key must look random: `sk-` ends `flask-` and begins `sk-estimator`.
"""

import base64
import binascii
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

MASK = "[secret]"

_RANDOM_RUN = 16
_RANDOM_LENGTH = 27
_DISORDER = re.compile("[A-Z]{2}|(?<![a-z])[a-z](?![a-z])")
_CHANGE = re.compile("(?=[A-Z][a-z0-9]|[a-z][A-Z0-9]|[0-9][A-Za-z])")
_JUMBLED_CHANGES = 10
#: A word in a compound name, such as `Your`, `Key` and `Here` in `YourKeyHere`.
_PART = re.compile("[A-Z]?[a-z]+(?<=..)|[A-Z]{2,}")
_VOWEL = re.compile("[aeiouy]", re.IGNORECASE)
_CONSONANTS = re.compile("[b-df-hj-np-tv-xz]{6}", re.IGNORECASE)

# Escapes end in a letter or digit and may directly precede a key: `%3D`, `\n`, `\x1b[0m`.
_BEGINS = (
    r"(?:(?<![A-Za-z0-9])|(?<=%[0-9A-Fa-f]{2})|(?<=\\[abfnrtv0])|(?<=\\[xX][0-9A-Fa-f]{2})"
    r"|(?<=\\u[0-9A-Fa-f]{4})|(?<=\x1b\[[0-9]m)|(?<=\x1b\[[0-9]{2}m)|(?<=\x1b\[m))"
)
_ENDS = r"(?![A-Za-z0-9])"


def _any(_: str) -> bool:
    return True


def _no_words(key: str) -> bool:
    """Return True for a key with two digits or with irregular case: neither words nor a name."""
    digits = sum(map(str.isdigit, key))
    if _has_no_vowels(key):
        return True
    if digits == 1:
        inside = re.search(f"(?=[A-Za-z0-9]{{{_RANDOM_RUN},}})[A-Za-z]*[0-9][A-Za-z]", key)
        return inside is not None or _case_in_disorder(key, 2)
    return digits >= 2 or _case_in_disorder(key)


def _case_in_disorder(key: str, least: int = 3) -> bool:
    """Return True if capitals occur in groups and small letters alone, unlike `YourKeyHere`."""
    both = min(sum(map(str.isupper, key)), sum(map(str.islower, key))) >= 3
    return both and len(_DISORDER.findall(key)) >= least


def _has_no_vowels(key: str) -> bool:
    """Return True if parts of a key have no vowels, as few words do; False for `xxxxxxxx`."""
    without = [part for part in _PART.findall(key) if not _VOWEL.search(part)]
    return len(set(key)) >= 8 and (len(without) >= 2 or bool(_CONSONANTS.search(key)))


def _random(key: str) -> bool:
    """Return True for a random mix of letters and digits, most of them in one run."""
    longest = max(re.findall("[A-Za-z0-9]+", key), key=len, default="")
    if len(longest) >= _RANDOM_RUN:
        digits = sum(map(str.isdigit, longest))
        mixed = 2 <= digits <= len(longest) - 2 and len(set(longest)) >= 8
        if mixed or _case_in_disorder(longest):
            return True
    jumbled = sum(map(str.isdigit, key)) >= 2 and len(_CHANGE.findall(key)) >= _JUMBLED_CHANGES
    return len(key) >= _RANDOM_LENGTH and (_case_in_disorder(key) or jumbled)


def _random_or_no_words(key: str) -> bool:
    return _random(key) or _has_no_vowels(key)


def _varied(key: str) -> bool:
    """Return True unless a short key repeats few characters, as `xxxxxxxx` does."""
    return len(key) >= 36 or len(set(key)) >= 8


def _discord(key: str) -> bool:
    """Return True if the first part is an account number, or the parts are no program names."""
    first, second, third = key.split(".")[:3]
    try:
        number = base64.urlsafe_b64decode(first + "=" * (-len(first) % 4))
    except binascii.Error:
        number = b""
    named = re.compile("[a-z][A-Z]|_")
    return number.isdigit() or not (
        named.search(first) and named.search(third) and second.isalpha()
    )


@dataclass(frozen=True, slots=True)
class KeyFormat:
    """One format of keys.

    Attributes:
        issuer: The issuer of the keys.
        hints: Texts of which every such key contains at least one.
        core: The pattern without its left boundary, which is far quicker to search for.
        pattern: The full pattern: the prefix, and the rest in the group `key`.
        is_key: Checks the group `key` beyond the pattern.
    """

    issuer: str
    hints: tuple[str, ...]
    core: re.Pattern[str]
    pattern: re.Pattern[str]
    is_key: Callable[[str], bool]


def _format(
    issuer: str, prefix: str, key: str, check: Callable[[str], bool], hints: str = ""
) -> KeyFormat:
    core = f"{prefix}(?P<key>{key})"
    # A hint may hold a space, so that commas separate them.
    found = tuple((hints or prefix.replace("\\", "")).split(","))
    return KeyFormat(issuer, found, re.compile(core), re.compile(_BEGINS + core), check)


#: Lengths are lower bounds if an issuer has changed them, or reserves the right to.
FORMATS = (
    # Language models and search
    _format("Anthropic", r"sk-ant-[a-z]{3,5}\d\d-", r"[\w-]{10,}", _any, "sk-ant-"),
    _format("OpenAI", "sk-(?:proj|svcacct|admin|None)-", r"[\w-]{12,}", _no_words, "sk-"),
    _format("Langfuse", "sk-lf-", "[0-9a-f]{8}(?:-[0-9a-f]{4,12}){4}", _any),
    _format("OpenRouter", "sk-or-v1-", f"[0-9a-f]{{32,}}{_ENDS}", _no_words),
    _format("OpenAI, DeepSeek, Cerebras", "c?sk-", r"[\w-]{16,}", _random, "sk-"),
    _format("Google", "AIza", r"[\w-]{35}(?![\w-])", _no_words),
    _format("Google", "GOCSPX-", r"[\w-]{24,}", _varied),
    _format("Google", r"ya29\.", r"[\w-]{20,}", _no_words),
    _format("Google", "1//0", r"[\w-]{38,}", _random),
    _format("Google", r"AQ\.Ab", r"[\w-]{40,}", _random),
    _format("Groq", "gsk_", "[A-Za-z0-9]{40,}", _no_words),
    _format("xAI", "xai-", "[A-Za-z0-9]{70,}", _no_words),
    _format("Perplexity", "pplx-", "[A-Za-z0-9]{40,}", _no_words),
    _format("Replicate", "r8_", f"[A-Za-z0-9]{{37,40}}{_ENDS}", _no_words),
    _format("Hugging Face", "hf_", "[A-Za-z0-9]{30,60}(?![A-Za-z0-9_])", _varied),
    _format("Hugging Face", "api_org_", "[A-Za-z0-9]{30,60}(?![A-Za-z0-9_])", _varied),
    _format("NVIDIA", "nvapi-", r"[\w-]{50,}", _no_words),
    _format("Together", "tgp_v1_", r"[\w-]{40,}", _no_words),
    _format("Tavily", "tvly-", r"[\w-]{16,}", _no_words),
    _format("Brave", "BSA", r"[\w-]{27,28}(?![\w-])", _random_or_no_words),
    _format("Jina", "jina_", r"[\w-]{50,}", _random),
    _format("Firecrawl", "fc-", f"[0-9a-f]{{32}}{_ENDS}", _no_words),
    _format("LangSmith", "lsv2_[a-z]{2}_", "[0-9a-f]{32}_[0-9a-f]{10}", _any, "lsv2_"),
    _format("Pinecone", "pcsk_", r"[\w-]{50,}", _no_words),
    _format("ElevenLabs", "sk_", f"[0-9a-f]{{48}}{_ENDS}", _no_words),
    _format("Apify", "apify_api_", "[A-Za-z0-9]{30,}", _no_words),
    # Chat
    _format(
        "Slack",
        r"(?:xoxe\.)?xox[a-z]-",
        "[A-Za-z0-9%+/=-]{10,}",
        lambda key: key[0].isdigit() or _random(key),
        "xox",
    ),
    _format("Slack", r"xapp-\d-", "[A-Za-z0-9-]{8,}", _no_words, "xapp-"),
    _format("Slack", "xwfp-", "[A-Za-z0-9-]{20,}", _no_words),
    _format(
        "Slack",
        r"hooks\.slack(?:-gov)?\.com/(?:services|triggers|workflows)/",
        r"[\w/+-]{30,}",
        _no_words,
        "hooks.slack",
    ),
    _format("Discord", "", r"[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,}", _discord, "."),
    _format("Discord", r"mfa\.", r"[\w-]{80,}", _random),
    _format(
        "Discord",
        r"discord(?:app)?\.com/api/(?:v\d+/)?webhooks/",
        r"\d{15,21}/[\w-]{50,}",
        _any,
        "/webhooks/",
    ),
    _format("Telegram", "", r"\d{8,10}:AA[\w-]{32,33}(?![\w-])", _any, ":AA"),
    # Code and packages
    _format("GitHub", "gh[pousr]_", "[A-Za-z0-9]{20,}", _varied, "ghp_,gho_,ghu_,ghs_,ghr_"),
    _format("GitHub", "github_pat_", r"\w{22,}", _no_words),
    _format(
        "GitLab",
        "gl(?:pat|dt|rtr?|cbt|ptt|ft|imt|agent|oas|soat|ffct|wt)-",
        r"[\w-]{20,}(?:\.[\w-]+)*",
        _no_words,
        "gl",
    ),
    _format("GitLab", "GR1348941", r"[\w-]{20,}", _any),
    _format("npm", "npm_", f"[A-Za-z0-9]{{36}}{_ENDS}", _varied),
    _format("PyPI", "pypi-AgE", r"[\w-]{50,}", _any),
    _format("RubyGems", "rubygems_", "[0-9a-f]{48}", _any),
    _format("crates.io", "cio", f"[A-Za-z0-9]{{32}}{_ENDS}", _random),
    _format("NuGet", "oy2", f"[a-z0-9]{{43}}{_ENDS}", _random),
    _format("Docker", "dckr_[po]at_", r"[\w-]{20,}", _varied, "dckr_"),
    _format("Clojars", "CLOJARS_", "[0-9a-f]{60}", _any),
    # Clouds
    # The keys in AWS's documentation end in EXAMPLE.
    _format(
        "AWS",
        "",
        f"(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{{16}}{_ENDS}",
        lambda key: not key.endswith("EXAMPLE"),
        "AKIA,ASIA,ABIA,ACCA,A3T",
    ),
    _format("AWS", "ABSK", "[A-Za-z0-9+/]{100,}={0,2}", _no_words),
    _format(
        "AWS",
        r"(?i:aws_?secret_?(?:access_?)?key)[\"']?\s{0,3}[=:]\s{0,3}[\"']?",
        "[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])",
        lambda key: _no_words(key) and not key.endswith("EXAMPLEKEY"),
        "secret,Secret,SECRET",
    ),
    _format(
        "Azure", "(?:Account|SharedAccess)Key=", "[A-Za-z0-9+/]{40,88}={0,2}", _no_words, "Key="
    ),
    _format("Azure", "", r"[\w.~]{3}\dQ~[\w.~-]{31,34}(?![\w~-])", _no_words, "Q~"),
    _format("Alibaba", "LTAI", f"[A-Za-z0-9]{{20}}{_ENDS}", _varied),
    _format("DigitalOcean", "do[opr]_v1_", "[0-9a-f]{64}", _any, "_v1_"),
    _format("Databricks", "dapi", f"[0-9a-f]{{32}}(?:-\\d)?{_ENDS}", _no_words),
    _format("Heroku", "HRKU-", r"[\w-]{36,}", _no_words),
    _format(
        "Fly", "(?:fo1|fm1[ar]|fm2)_", r"[\w+/-]{43,}={0,3}", _no_words, "fo1_,fm1a_,fm1r_,fm2_"
    ),
    _format("Supabase", "sbp_", f"[0-9a-f]{{40}}{_ENDS}", _no_words),
    _format("Supabase", "sb_secret_", r"[\w-]{30,}", _varied),
    _format("PlanetScale", "pscale_(?:tkn|oauth|pw)_", r"[\w=.-]{32,64}", _no_words, "pscale_"),
    _format("Netlify", "nfp_", "[A-Za-z0-9]{36,}", _no_words),
    _format("Render", "rnd_", "[A-Za-z0-9]{28,}", _random_or_no_words),
    _format("Cloudflare", r"v1\.0-", "[0-9a-f]{24}-[0-9a-f]{146}", _any),
    _format("HashiCorp", r"hv[sbr]\.", r"[\w-]{24,}", _no_words, "hvs.,hvb.,hvr."),
    _format("HashiCorp", "", r"[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{60,}", _any, ".atlasv1."),
    _format("Pulumi", "pul-", "[0-9a-f]{40}", _any),
    _format("Doppler", r"dp\.(?:pt|st|ct|sa|scim|audit)\.", r"[\w.-]{40,}", _no_words, "dp."),
    _format(
        "1Password",
        "A3-",
        r"[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}",
        _any,
    ),
    _format("1Password", "ops_eyJ", "[A-Za-z0-9+/]{100,}={0,3}", _any),
    _format("age", "AGE-SECRET-KEY-1", "[A-Z0-9]{58}", _any),
    # Payments, mail, telephony, tools
    _format(
        "Stripe",
        "[sr]k_(?:live|test|prod)_",
        "[A-Za-z0-9]{16,}",
        _no_words,
        "k_live_,k_test_,k_prod_",
    ),
    _format("Stripe, Svix", "whsec_", "[A-Za-z0-9+/]{24,}={0,2}", _no_words),
    _format("Square", "sq0(?:atp|csp)-", r"[\w-]{22,}", _no_words, "sq0"),
    _format("Square, Meta", "EAA", r"[\w-]{60,}", _random),
    _format("Shopify", "shp(?:at|ca|pa|ss)_", "[0-9A-Fa-f]{32}", _any, "shp"),
    _format("SendGrid", r"SG\.", r"[\w-]{22}\.[\w-]{43}(?![\w-])", _any),
    _format("Mailgun", "key-", f"[0-9a-f]{{32}}{_ENDS}", _no_words),
    _format("Mailchimp", "", rf"[0-9a-f]{{32}}-us\d{{1,2}}{_ENDS}", _any, "-us"),
    _format("Brevo", "xkeysib-", "[0-9a-f]{64}(?:-[A-Za-z0-9]{16})?", _any),
    _format("Resend", "re_", f"[A-Za-z0-9]{{8}}_[A-Za-z0-9]{{24}}{_ENDS}", _no_words),
    _format("Twilio", "SK", f"[0-9a-f]{{32}}{_ENDS}", _no_words),
    _format("Airtable", "pat", r"[A-Za-z0-9]{14}\.[0-9a-f]{64}", _any),
    _format("Asana", "", r"[0-2]/\d{14,17}(?:/\d{14,17})?:[0-9a-f]{32}", _any, "0/,1/,2/"),
    _format("Atlassian", "AT[AC]TT3", r"[\w=-]{100,}", _any, "TT3"),
    _format("Dropbox", r"sl\.", r"[\w-]{60,}", _random),
    _format("Dynatrace", r"dt0[a-z]01\.", r"[A-Z0-9]{24}\.[A-Z0-9]{64}", _any, "dt0"),
    _format("Figma", "fig[du]_", r"[\w-]{36,}", _varied, "fig"),
    _format("Grafana", "glsa_", "[A-Za-z0-9]{32}_[0-9A-Fa-f]{8}", _any),
    _format("Grafana", "glc_", "[A-Za-z0-9+/]{32,}={0,3}", _no_words),
    _format("Linear", "lin_(?:api|oauth)_", "[A-Za-z0-9]{32,}", _no_words, "lin_"),
    _format("New Relic", "NR(?:AK|II|RA|JS)-", r"[\w-]{19,}", _no_words, "NRAK-,NRII-,NRRA-,NRJS-"),
    _format("Notion", "ntn_", "[A-Za-z0-9]{40,}", _no_words),
    _format("Notion", "secret_", f"[A-Za-z0-9]{{43}}{_ENDS}", _random),
    _format("Postman", "PMAK-", "[0-9a-f]{24}-[0-9a-f]{34}", _any),
    _format("Sentry", "sntry[su]_", r"[\w+/=-]{40,}", _no_words, "sntry"),
    # Tokens and keys of any issuer
    _format("JWT", "eyJ", r"[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{20,}", _any, ".eyJ"),
    _format(
        "PEM",
        r"-----BEGIN (?:[A-Z0-9]{2,12} ){0,2}PRIVATE KEY(?: BLOCK)?-----",
        r"(?:[A-Za-z0-9+/=\s\\:,.()]|-(?!-)){64,}+"
        r"(?:-----END (?:[A-Z0-9]{2,12} ){0,2}PRIVATE KEY(?: BLOCK)?-----)?",
        _any,
        "PRIVATE KEY",
    ),
)

_ADDRESS = re.compile(r"(?<=://)[^/\s:@]+:(?P<password>[^/\s@]+)(?=@)")
# Placeholders: `{password}`, `%s`, `$PASS`, `<secret>`, `***`.
_PLACEHOLDER = re.compile(r".*[{}<>\[\]()\"'`].*|\$\w+|%[a-z]|[*.x•…-]+")
_LEAST_PASSWORD = 8


#: A shorter sequence of lower-case letters may be a word.
_LONGEST_WORD = 13

_known: set[str] = set()


def keep_secret(values: Iterable[str]) -> None:
    """Mask these values from now on (keys from the configuration)."""
    _known.update(value for value in values if len(value) >= 6)


def without_secrets(text: str, *, prose: bool = False) -> str:
    """Return `text` with every text that looks like a key, and every known key, masked.

    Args:
        text: Any text.
        prose: Whether to leave possible words unmasked: a known password such as `retinue`, and the
            `tiger` of an example's address. Logs and errors mask these as well; masking them in
            texts of users and models would destroy the text.
    """

    def hidden(address: re.Match[str]) -> str:
        password = address["password"]
        masked = not _PLACEHOLDER.fullmatch(password) and (
            not prose or password in _known or _is_no_word(password)
        )
        return MASK if masked else address[0]

    # Addresses come first: masking a key in the user's place would prevent the match.
    if "://" in text:
        text = _ADDRESS.sub(hidden, text)
    # The longest first: a key may be the beginning of another.
    for value in sorted(_known, key=len, reverse=True):
        is_word = len(value) < _LONGEST_WORD and value.isalpha() and value[1:].islower()
        if not (prose and is_word):
            text = text.replace(value, MASK)
    return without_keys(text)


def _is_no_word(password: str) -> bool:
    """Return True for a password that no example would use: `hunter2hunter2`, but not `tiger`."""
    characters = unquote(password)
    if len(password) < _LEAST_PASSWORD or not any(map(str.isalpha, characters)):
        return False
    return any(map(str.isdigit, characters)) or len(re.findall("[a-z][A-Z]", password)) >= 2


def without_keys(text: str) -> str:
    """Return `text` with every key of a known format masked, and nothing else changed.

    All formats are searched in the original text, since a part of one key may look like another.
    """
    found = sorted(
        match.span()
        for each in FORMATS
        if any(hint in text for hint in each.hints) and each.core.search(text)
        for match in each.pattern.finditer(text)
        if each.is_key(match["key"])
    )
    parts, end = [], 0
    for start, stop in found:
        if start >= end:
            parts += [text[end:start], MASK]
        end = max(end, stop)
    return "".join(parts) + text[end:]


def masked(value: Any) -> Any:
    """Return a document of texts, lists and mappings with the secrets in its texts masked."""
    match value:
        case str():
            return without_secrets(value)
        case dict():
            return {key: masked(item) for key, item in value.items()}
        case list() | tuple():
            return [masked(item) for item in value]
    return value
