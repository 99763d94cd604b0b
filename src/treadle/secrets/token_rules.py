r"""The formats of tokens that are known by how they look: each begins as nothing else does.

No rule guesses by how random a text looks: that spoils texts which have nothing to do with secrets.
A rule is looked for only where one of its literals stands, and its pattern is matched only there;
what a pattern may take is bounded, so that a hostile text costs no more than a long one. The forms
a token takes on its way (JSON, JSON in JSON, URLs) show in what stands around it: an escape such as
`\n` may end right before it, and a slash may be escaped.
"""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64decode
from binascii import crc32
from collections.abc import Callable
from functools import cache
from typing import Final
from urllib.parse import unquote

from msgspec import Struct

from treadle.secrets.credentials import is_telling

NAME_DISTANCE_MAX: Final = 96

_ESCAPED: Final = (
    r"(?<=\\[abfnrtv0])|(?<=%[0-9A-Fa-f]{2})|(?<=\\u[0-9A-Fa-f]{4})|(?<=\\x[0-9A-Fa-f]{2})"
)
_START: Final = rf"(?:(?<![A-Za-z0-9])|{_ESCAPED}|(?<=[\[;0-9]m)|(?<=\[K))"
"""Where a token may begin: after what is no letter and no digit, an escape, a colour's end."""

_BEGINNING: Final = re.compile(_START)

_COLOURED: Final = r"(?<=\[m)|(?<=\[[0-9]m)|(?<=\[[0-9]{2}m)"
_START_STRICT: Final = rf"(?:(?<![A-Za-z0-9_-])|{_ESCAPED}|{_COLOURED})"
"""For long tokens: every run of their characters is then looked at once."""

_END: Final = r"(?![A-Za-z0-9])"
_SLASH: Final = r"\\{0,8}/"
_EQUALS: Final = r"(?:=|\\{1,8}u003[dD])"

_GAP: Final = (
    r"(?:[\s\"'`\\\[\]()<>:=|]|%(?:20|22|27|3[AaDd]|5[BbCcDd])|\\u003[ad]|\\n|&quot;){1,24}+"
)
"""What stands between a name and its value: in code, JSON, YAML, shells, headers and URLs."""

_JUNK: Final = r"(?:[\s\"'+,>|#*]|\\{1,8}[nrt\"'])"
"""What stands between the lines of a key: line ends as they are and escaped, and code's marks."""

_HEADER: Final = rf"[A-Z][A-Za-z-]{{3,20}}: [^\n\\]{{1,120}}{_JUNK}{{1,24}}+"
_PEM: Final = (
    r"-----BEGIN[A-Z0-9 ]{0,30} PRIVATE KEY(?: BLOCK)?-----"
    rf"{_JUNK}{{0,24}}+(?:{_HEADER}){{0,6}}[A-Za-z0-9+/]{{16,}}+={{0,2}}"
    rf"(?:{_JUNK}{{1,24}}+[A-Za-z0-9+/]{{16,}}+={{0,2}})*+"
    rf"(?:(?:{_JUNK}{{1,24}}[A-Za-z0-9+/]{{1,15}}={{0,2}})?(?:{_JUNK}{{1,24}}=[A-Za-z0-9+/]{{4}})?"
    rf"{_JUNK}{{0,24}}-----END[A-Z0-9 ]{{0,50}}-----)?"
)
"""A whole key, or what was left of one that was cut: at least one line of it."""

_DIGITS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_BECH32: Final = "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L"


class TokenRule(Struct, frozen=True):
    """One format.

    `literals` of which one stands in each such token; the token begins with it, or with up to
    `head_length_max` characters of `head` before it. `pattern` matches from there on; its group `s`
    is the secret, if that is not all of it. `is_right` looks at the secret again. `is_whole` tells
    that the literals may stand in a short word, so that the whole text is looked through for them;
    `is_named` that they stand in the name of a value, up to `NAME_DISTANCE_MAX` characters before.
    `can_wrap` tells whether line ends may stand in it, where a terminal has cut it.

    Patterns are compiled when a literal of theirs is found for the first time: most processes meet
    none, and all of them take a tenth of what the chat may take until it hears keys.
    """

    kind: str
    literals: tuple[str, ...]
    source: str
    flags: int = 0
    head: str = ""
    """A class of characters, as in a pattern, without its brackets."""
    head_length_max: int = 0
    is_right: Callable[[str], bool] = lambda _: True
    is_whole: bool = False
    is_named: bool = False
    can_wrap: bool = True
    is_long: bool = False

    @property
    def pattern(self) -> re.Pattern[str]:
        """What matches a whole token."""
        return _compile(self.source, self.flags)

    @property
    def head_characters(self) -> frozenset[str]:
        """What may stand before a literal in the token."""
        return _list_characters(self.head)


@cache
def _compile(source: str, flags: int) -> re.Pattern[str]:
    return re.compile(source, flags)


@cache
def _list_characters(head: str) -> frozenset[str]:
    return (
        frozenset(re.findall(f"[{head}]", "".join(map(chr, range(128))))) if head else frozenset()
    )


def in_base62(number: int, length: int) -> str:
    """A number as digits, then capitals, then small letters, filled up with zeros."""
    found = ""
    for _ in range(length):
        number, digit = divmod(number, 62)
        found = _DIGITS[digit] + found
    return found


def _has_checksum(secret: str) -> bool:
    """Whether the last six digits are the CRC32 of those before them, after the prefix.

    https://github.blog/2021-04-05-behind-githubs-new-authentication-token-formats/
    """
    body = secret.partition("_")[2]
    return in_base62(crc32(body[:-6].encode()), 6) == body[-6:]


def _is_jwt(secret: str) -> bool:
    """Whether its first part is the JSON of a header that names an algorithm: RFC 7519."""
    header = secret.partition(".")[0]
    try:
        found = json.loads(urlsafe_b64decode(header + "=" * (-len(header) % 4)))
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and "alg" in found


def may_begin(text: str, start: int) -> bool:
    """Whether a token may begin at this place of a text."""
    return _BEGINNING.match(text, start) is not None


def is_mixed(secret: str) -> bool:
    """Letters and digits both: no word, no name."""
    return any(map(str.isdigit, secret)) and any(map(str.isalpha, secret))


def _rule(kind: str, literals: str, body: str, **more: object) -> TokenRule:
    """A token that begins with one of the literals, which are given with spaces between them."""
    words = tuple(literals.split())
    first = "|".join(map(re.escape, words))
    source = f"{_START}(?:{first})(?:{body}){_END}"
    return TokenRule(kind, words, source, re.ASCII, **more)  # type: ignore[arg-type]


def _inner(
    kind: str, literals: str, pattern: str, head: str, length_max: int, **more: object
) -> TokenRule:
    """A token with the literal inside, after characters of the class `head`."""
    source, words = f"{_START}(?:{pattern}){_END}", tuple(literals.split())
    return TokenRule(kind, words, source, re.ASCII, head, length_max, **more)  # type: ignore[arg-type]


def _named(kind: str, names: str, value: str, words: str = "key|token|secret") -> TokenRule:
    """A value that is known by the name it is given; `names` is how that may be written."""
    found = tuple(names.split())
    first = "|".join(map(re.escape, found))
    source = (
        rf"(?:{first})[A-Za-z0-9_-]{{0,24}}?(?i:{words})[A-Za-z_]{{0,8}}{_GAP}"
        rf"(?:(?i:bearer|bot|token) )?(?P<s>{value}){_END}"
    )
    return TokenRule(
        kind, found, source, re.ASCII, is_right=is_mixed, is_named=True, can_wrap=False
    )


RULES: Final = (
    # ---- clouds
    _rule("aws_access_key", "AKIA ASIA ABIA ACCA", r"[A-Z2-7]{16}"),
    _named(
        "aws_secret_key",
        "aws_ AWS_ Aws aws- AWS- secretAccess SecretAccess secret_access SECRET_ACCESS",
        r"[A-Za-z0-9+/]{40}(?![+/=])",
    ),
    _rule("google_api_key", "AIza", r"[A-Za-z0-9_-]{35}(?![_-])"),
    _rule("google_oauth_secret", "GOCSPX-", r"[A-Za-z0-9_-]{28}(?![_-])"),
    _rule("google_oauth_token", "ya29.", r"[A-Za-z0-9_-]{30,500}+"),
    TokenRule(
        "azure_storage_key",
        ("AccountKey", "SharedAccessKey"),
        rf"(?:SharedAccess|Account)Key{_EQUALS}(?P<s>[A-Za-z0-9+/]{{43}}(?:[A-Za-z0-9+/]{{43}})?"
        rf"{_EQUALS}{{1,2}})",
        is_whole=True,
        can_wrap=False,
    ),
    _inner(
        "azure_client_secret",
        "Q~",
        r"[A-Za-z0-9_~.-]{4}Q~[A-Za-z0-9_~.-]{31,34}",
        r"A-Za-z0-9_~.-",
        4,
    ),
    _rule("alibaba_access_key", "LTAI", r"[A-Za-z0-9]{20}"),
    _rule("tencent_secret_id", "AKID", r"[A-Za-z0-9]{32}"),
    _rule("digitalocean_token", "dop_v1_ doo_v1_ dor_v1_", r"[0-9a-f]{64}"),
    _rule("heroku_key", "HRKU-", r"[0-9A-Za-z_-]{36,64}+"),
    _named(
        "cloudflare_token",
        "cloudflare CLOUDFLARE Cloudflare CF_API",
        r"[A-Za-z0-9_-]{37,45}(?![_-])",
    ),
    _rule("cloudflare_origin_key", "v1.0-", r"[0-9a-f]{24}-[0-9a-f]{146}"),
    _rule("fly_token", "fm1_ fm2_ fo1_", r"[A-Za-z0-9+/=_-]{43,500}+"),
    _rule("netlify_token", "nfp_", r"[A-Za-z0-9]{36}"),
    _rule("supabase_key", "sbp_ sb_secret_", r"[0-9a-f]{40}|[A-Za-z0-9_-]{31,45}+"),
    _rule("planetscale_token", "pscale_tkn_ pscale_pw_ pscale_oauth_", r"[A-Za-z0-9_.=-]{32,64}+"),
    # ---- where code is kept, built and published
    _rule("github_token", "ghp_ gho_ ghu_ ghs_ ghr_", r"[A-Za-z0-9]{36}", is_right=_has_checksum),
    _rule("github_pat", "github_pat_", r"[A-Za-z0-9]{22}_[A-Za-z0-9]{59}"),
    _rule(
        "gitlab_token",
        "glpat- gldt- glrt- glptt- glft- glsoat- glcbt- glagent- glimt- gloas- glffct- GR1348941",
        r"[A-Za-z0-9_.-]{20,120}+",
    ),
    _rule(
        "bitbucket_token", "ATBB ATCTT3", r"[A-Za-z0-9_=-]{32}(?![_=-])|[A-Za-z0-9_=-]{100,250}+"
    ),
    _rule("atlassian_token", "ATATT3", r"[A-Za-z0-9_=-]{60,250}+"),
    _rule("npm_token", "npm_", r"[A-Za-z0-9]{36}"),
    _rule("pypi_token", "pypi-AgE", r"[A-Za-z0-9_-]{50,400}+"),
    _rule("rubygems_key", "rubygems_", r"[0-9a-f]{48}"),
    _rule("crates_token", "cio", r"[A-Za-z0-9]{32}", can_wrap=False),
    _rule("docker_token", "dckr_pat_ dckr_oat_", r"[A-Za-z0-9_-]{27,40}+"),
    _rule("jfrog_key", "AKCp", r"[A-Za-z0-9]{69}"),
    _rule("circleci_token", "CCIPAT_ CCIPRJ_", r"[A-Za-z0-9]{22}_[0-9a-f]{40}"),
    _rule("buildkite_token", "bkua_", r"[0-9a-f]{40}"),
    _rule("pulumi_token", "pul-", r"[0-9a-f]{40}"),
    _inner(
        "terraform_token",
        ".atlasv1.",
        r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,70}+",
        "A-Za-z0-9",
        14,
    ),
    _rule("vault_token", "hvs. hvb. hvr.", r"[A-Za-z0-9_-]{24,300}+", is_right=is_mixed),
    _rule(
        "doppler_token",
        "dp.pt. dp.st. dp.ct. dp.sa. dp.scim.",
        r"(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,44}",
    ),
    # ---- models
    _rule("anthropic_key", "sk-ant-", r"[a-z]{2,12}[0-9]{2}-[A-Za-z0-9_-]{40,200}+"),
    _rule("openrouter_key", "sk-or-v1-", r"[0-9a-f]{64}"),
    _rule(
        "openai_key",
        "sk-proj- sk-svcacct- sk-admin- sk-None-",
        r"[A-Za-z0-9_-]{40,250}+",
        is_right=is_mixed,
    ),
    _rule("model_key", "sk-", r"[A-Za-z0-9]{32,64}", is_right=is_mixed),
    _rule("huggingface_token", "hf_ api_org_", r"[A-Za-z]{34}"),
    _rule("replicate_token", "r8_", r"[A-Za-z0-9]{37}"),
    _rule("groq_key", "gsk_", r"[A-Za-z0-9]{52}"),
    _rule("xai_key", "xai-", r"[A-Za-z0-9]{80}"),
    _rule("perplexity_key", "pplx-", r"[A-Za-z0-9]{48}|[0-9a-f]{56}"),
    _rule("cerebras_key", "csk-", r"[a-z0-9]{48}"),
    _rule("nvidia_key", "nvapi-", r"[A-Za-z0-9_-]{60,70}+"),
    _rule("fireworks_key", "fw_", r"[A-Za-z0-9]{22,24}", is_right=is_mixed),
    _rule("tavily_key", "tvly-", r"(?:dev-|prod-)?[A-Za-z0-9]{32}"),
    _rule("langsmith_key", "lsv2_pt_ lsv2_sk_", r"[0-9a-f]{32}_[0-9a-f]{10}"),
    _named("mistral_key", "mistral MISTRAL Mistral", r"[A-Za-z0-9]{32}"),
    _named("cohere_key", "cohere COHERE Cohere CO_API", r"[A-Za-z0-9]{40}"),
    # ---- payment and shops
    _rule(
        "stripe_key",
        "sk_live_ rk_live_ sk_test_ rk_test_ sk_prod_ rk_prod_",
        r"[A-Za-z0-9]{24,107}",
    ),
    _rule("stripe_webhook", "whsec_", r"[A-Za-z0-9+/]{32,64}+={0,2}"),
    _rule(
        "square_token",
        "sq0atp- sq0csp- EAAA",
        r"[A-Za-z0-9_-]{43}(?![_-])|[A-Za-z0-9_-]{22}(?![_-])|[A-Za-z0-9_-]{60}(?![_-])",
    ),
    _rule(
        "braintree_token",
        "access_token$production$ access_token$sandbox$",
        r"[0-9a-z]{16}\$[0-9a-f]{32}",
    ),
    _rule("shopify_token", "shpat_ shpca_ shppa_ shpss_", r"[0-9A-Fa-f]{32}"),
    # ---- chat and mail
    _rule(
        "slack_token",
        "xoxb- xoxa- xoxp- xoxr- xoxs- xoxe- xoxo- xoxe.xoxp- xoxe.xoxb-",
        r"[0-9A-Za-z-]{24,250}+",
        is_right=is_mixed,
    ),
    _rule("slack_app_token", "xapp-", r"[0-9]-[A-Z0-9]{8,16}-[0-9]{8,16}-[0-9a-f]{40,80}"),
    TokenRule(
        "slack_webhook",
        ("hooks.slack.com",),
        rf"hooks\.slack\.com{_SLASH}(?:services|workflows|triggers)"
        rf"(?P<s>(?:{_SLASH}[A-Za-z0-9]{{8,48}}){{2,4}})",
        is_right=is_mixed,
    ),
    TokenRule(
        "discord_webhook",
        ("api/webhooks/",),
        r"api/webhooks/(?P<s>[0-9]{17,20}/[\w-]{60,80}+)",
    ),
    TokenRule(
        "discord_webhook",  # in JSON, where only the last word of it is long
        ("webhooks\\/", "webhooks\\\\/"),
        rf"webhooks{_SLASH}(?P<s>[0-9]{{17,20}}{_SLASH}[\w-]{{60,80}}+)",
        is_named=True,
    ),
    _named(
        "discord_bot_token",
        "discord DISCORD Discord Authorization",
        r"[A-Za-z0-9_-]{23,28}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,38}",
        "token|bot|secret|n",
    ),
    _inner("telegram_token", ":AA", r"[0-9]{8,10}:AA[A-Za-z0-9_-]{33}(?![_-])", "0-9", 10),
    _rule("twilio_key", "SK", r"[0-9a-f]{32}", is_right=is_mixed, can_wrap=False),
    _named("twilio_token", "twilio TWILIO Twilio", r"[0-9a-f]{32}", "token|secret"),
    _rule("sendgrid_key", "SG.", r"[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}(?![_-])"),
    _rule("mailgun_key", "key-", r"[0-9a-f]{32}", can_wrap=False),
    _inner("mailchimp_key", "-us", r"[0-9a-f]{32}-us[0-9]{1,2}", "0-9a-f", 32, can_wrap=False),
    _rule("brevo_key", "xkeysib-", r"[0-9a-f]{64}-[A-Za-z0-9]{16}"),
    # ---- tools of teams
    _rule("linear_key", "lin_api_ lin_oauth_", r"[A-Za-z0-9]{40}|[0-9a-f]{64}"),
    _rule("notion_token", "ntn_", r"[0-9]{11}[A-Za-z0-9]{35}"),
    _rule("notion_secret", "secret_", r"[A-Za-z0-9]{43}", is_right=is_mixed),
    _rule("figma_token", "figd_ figo_ figu_ figr_", r"[A-Za-z0-9_-]{38,60}+"),
    _inner("airtable_token", "pat", r"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}", "a", 0, can_wrap=False),
    _rule(
        "hubspot_token",
        "pat-na1- pat-eu1- pat-na2-",
        r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
    ),
    _rule("postman_key", "PMAK-", r"[0-9a-f]{24}-[0-9a-f]{34}"),
    _rule("dropbox_token", "sl.", r"[A-Za-z0-9_-]{130,400}+", can_wrap=False),
    _rule("onepassword_token", "ops_eyJ", r"[A-Za-z0-9_=-]{200,1000}+"),
    # ---- watching
    _rule("sentry_token", "sntrys_eyJ sntryu_", r"[A-Za-z0-9+/=_-]{64,500}+"),
    _rule("grafana_token", "glsa_", r"[A-Za-z0-9]{32}_[0-9A-Fa-f]{8}"),
    _rule("grafana_cloud_token", "glc_eyJ", r"[A-Za-z0-9+/]{32,400}+={0,2}"),
    _rule("newrelic_key", "NRAK-", r"[A-Z0-9]{27}"),
    _rule("dynatrace_token", "dt0c01. dt0s01.", r"[A-Z0-9]{24}\.[A-Z0-9]{64}"),
    _named("datadog_key", "datadog DATADOG Datadog DD_API DD_APP", r"[0-9a-f]{32}(?:[0-9a-f]{8})?"),
    _rule("databricks_token", "dapi", r"[0-9a-f]{32}(?:-[0-9])?"),
    # ---- keys, and what says who somebody is
    _rule("age_key", "AGE-SECRET-KEY-1", rf"[{_BECH32}]{{58}}"),
    TokenRule(
        "private_key",
        ("-----BEGIN",),
        _PEM,
        is_whole=True,
        can_wrap=False,
        is_long=True,
    ),
    TokenRule(
        "jwt",
        ("eyJ",),
        _START_STRICT + r"eyJ[A-Za-z0-9_-]{10,4000}+\.eyJ[A-Za-z0-9_-]{10,8000}+"
        r"\.[A-Za-z0-9_-]{20,2000}+",
        is_right=_is_jwt,
        is_long=True,
    ),
    _rule("treadle_token", "trd_ trs_ trw_ tri_ trf_", r"[A-Za-z0-9]{49}", is_right=_has_checksum),
    TokenRule(
        "url_password",
        ("://", ":\\/\\/", ":\\\\/\\\\/"),
        rf":{_SLASH}{_SLASH}[^\s/?#@:\"'<>`\\]{{0,100}}:(?P<s>[^\s/@\"'<>`\\]{{8,200}})@"
        r"[A-Za-z0-9\[]",
        is_right=lambda secret: is_telling(unquote(secret)),
        is_whole=True,
        can_wrap=False,
    ),
    TokenRule(
        "url_token",  # `https://TOKEN@host`, `https://TOKEN:x-oauth-basic@host`
        ("http://", "https://", "http:\\/\\/", "https:\\/\\/", "http:\\\\/", "https:\\\\/"),
        rf"https?:{_SLASH}{_SLASH}(?P<s>[A-Za-z0-9_.~%+=-]{{20,400}}+)"
        r"(?::[a-z-]{0,16}+)?@[A-Za-z0-9\[]",
        is_right=lambda secret: is_mixed(secret) and is_telling(unquote(secret)),
        is_whole=True,
        can_wrap=False,
    ),
)
"""All formats, by where they are from."""

_NAMES: Final = "|".join(
    re.escape(one)
    for rule in RULES
    if rule.is_named or "Key" in rule.literals[0]
    for one in rule.literals
)
_NAME_OPEN: Final = (
    rf"(?:{_NAMES})[A-Za-z0-9_-]{{0,40}}(?:[\s\"'`\\\[\]()<>:=|]{{1,24}}"
    r"(?:(?i:bearer|bot|token) ?)?[A-Za-z0-9+/_.=-]{0,120})?"
)
_PEM_LINES: Final = (
    rf"(?:{_JUNK}|[A-Za-z0-9+/]{{16,}}+={{0,2}}(?!\w)|[A-Z][A-Za-z-]{{3,20}}: [^\n\\]{{0,120}})*+"
    rf"(?:[A-Za-z0-9+/]{{1,15}}={{0,2}}{_JUNK}{{1,24}})?(?:=[A-Za-z0-9+/]{{4}}{_JUNK}{{1,24}})?"
    r"(?:[A-Za-z0-9+/=:-]{0,120}+|-----END[A-Z0-9 ]{0,50}-{0,5})"
)
_PEM_OPEN: Final = (
    r"-----BEGIN(?:[A-Z0-9 ]{0,50}-{0,4}|[A-Z0-9 ]{0,30} PRIVATE KEY(?: BLOCK)?-----"
    rf"{_PEM_LINES}{_JUNK}{{0,24}})"
)
_BASE64_LINE_END: Final = r"(?:\\{0,8}\r?\n|\\{1,8}r\\{1,8}n|\\{1,8}n)[ \t>|]{0,12}"
_BASE64_OPEN: Final = (
    rf"(?<![A-Za-z0-9+/._:@%-])(?:[A-Za-z0-9+/]{{40,}}+(?:{_BASE64_LINE_END}[A-Za-z0-9+/]++)*+"
    rf"|[A-Za-z0-9+/]{{16,40}}(?:{_BASE64_LINE_END}[A-Za-z0-9+/]{{16,40}})*+"
    rf"(?:{_BASE64_LINE_END}[A-Za-z0-9+/]{{0,15}}+)?)(?:{_BASE64_LINE_END}|\\{{0,8}}\r?)"
)
_OPEN: Final = rf"(?:{_NAME_OPEN}|{_PEM_OPEN}|{_BASE64_OPEN})\Z"


def compile_open_end() -> re.Pattern[str]:
    """The end of a text that more of a secret with spaces in it may follow.

    That is a value behind its name, the lines of a key, the lines of base64.
    """
    return _compile(_OPEN, 0)
