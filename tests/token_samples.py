"""Tokens of every format, made by chance from how the format is described: none was ever real."""

from __future__ import annotations

import base64
import json
import random
import string
from binascii import crc32
from collections.abc import Callable
from typing import Final

ALNUM: Final = string.ascii_letters + string.digits
LOWER_HEX: Final = "0123456789abcdef"
WORDY: Final = f"{ALNUM}_-"
BASE64: Final = f"{ALNUM}+/"
UPPER_DIGITS: Final = string.ascii_uppercase + string.digits

Make = Callable[[random.Random], str]


def url_token(dice: random.Random) -> str:
    """In the place of a user's name, with nothing for a password, or with a mark."""
    token = "".join(dice.choices(ALNUM, k=40))
    return f"https://{token}{dice.choice(['', ':', ':x-oauth-basic'])}@git.internal/x.git"


def of(prefix: str, chars: str, *lengths: int, between: str = "") -> Make:
    """A prefix and runs of characters; the prefix may be one of several, with spaces between."""

    def make(dice: random.Random) -> str:
        first = dice.choice(prefix.split()) if prefix else ""
        return first + between.join("".join(dice.choices(chars, k=n)) for n in lengths)

    return make


def then(*makes: Make | str) -> Make:
    return lambda dice: "".join(m if isinstance(m, str) else m(dice) for m in makes)


def checked(prefix: str, length: int) -> Make:
    """As GitHub's: the last six digits are the CRC32 of the others, in base 62."""

    def make(dice: random.Random) -> str:
        body = "".join(dice.choices(ALNUM, k=length))
        digits, number = "", crc32(body.encode())
        alphabet = string.digits + string.ascii_uppercase + string.ascii_lowercase
        for _ in range(6):
            number, digit = divmod(number, 62)
            digits = alphabet[digit] + digits
        return dice.choice(prefix.split()) + body + digits

    return make


def jwt(dice: random.Random) -> str:
    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    claims = {"sub": dice.randbytes(9).hex(), "exp": dice.randrange(2**31)}
    signature = base64.urlsafe_b64encode(dice.randbytes(32)).decode().rstrip("=")
    return f"{part({'alg': 'HS256', 'typ': 'JWT'})}.{part(claims)}.{signature}"


def pem(dice: random.Random) -> str:
    kind = dice.choice(["RSA ", "EC ", "OPENSSH ", ""])
    data = base64.b64encode(dice.randbytes(dice.choice([118, 600, 1200]))).decode()
    lines = [data[start : start + 64] for start in range(0, len(data), 64)]
    edge = "-" * 5
    return "\n".join(
        [f"{edge}BEGIN {kind}PRIVATE KEY{edge}", *lines, f"{edge}END {kind}PRIVATE KEY{edge}"]
    )


def uuid(dice: random.Random) -> str:
    text = dice.randbytes(16).hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def url(dice: random.Random) -> str:
    scheme = dice.choice(["postgresql", "redis", "https", "mongodb+srv", "amqp"])
    return f"{scheme}://app:{of('', ALNUM, 16)(dice)}7x@db.internal:5432/main"


TOKENS: Final[dict[str, Make]] = {
    "aws_access_key": of("AK" + "IA AS" + "IA", string.ascii_uppercase + "234567", 16),
    "aws_secret_key": then("AWS_SECRET_ACCESS_KEY=", of("", BASE64, 38), "4z"),
    "google_api_key": then("AI" + "za", of("", WORDY, 34), "x"),
    "google_oauth_secret": then("GOC" + "SPX-", of("", WORDY, 27), "x"),
    "google_oauth_token": then("ya" + "29.", of("", WORDY, 120), "x"),
    "azure_storage_key": then("AccountKey=", of("", BASE64, 86), "=="),
    "azure_client_secret": then(of("", ALNUM, 3), "8Q" + "~", of("", f"{ALNUM}_~.-", 33), "x"),
    "alibaba_access_key": of("LT" + "AI", ALNUM, 20),
    "tencent_secret_id": of("AK" + "ID", ALNUM, 32),
    "digitalocean_token": of("do" + "p_v1_ do" + "o_v1_", LOWER_HEX, 64),
    "heroku_key": then("HR" + "KU-", uuid),
    "cloudflare_token": then("CLOUDFLARE_API_TOKEN=", of("", WORDY, 38), "4z"),
    "cloudflare_origin_key": then("v1.0" + "-", of("", LOWER_HEX, 24, 146, between="-")),
    "fly_token": then("fm" + "2_", of("", BASE64, 120)),
    "netlify_token": of("nf" + "p_", ALNUM, 36),
    "supabase_key": of("sb" + "p_", LOWER_HEX, 40),
    "planetscale_token": then("pscale_" + "tkn_", of("", ALNUM, 43)),
    "github_token": checked("gh" + "p_ gh" + "o_ gh" + "s_", 30),
    "github_pat": of("github" + "_pat_", ALNUM, 22, 59, between="_"),
    "gitlab_token": then("gl" + "pat-", of("", WORDY, 19), "x"),
    "bitbucket_token": of("AT" + "BB", ALNUM, 32),
    "atlassian_token": then("ATA" + "TT3", of("", WORDY, 185), "x"),
    "npm_token": of("np" + "m_", ALNUM, 36),
    "pypi_token": then("pypi-" + "AgEIcHlwaS5vcmc", of("", WORDY, 150), "x"),
    "rubygems_key": of("ruby" + "gems_", LOWER_HEX, 48),
    "crates_token": of("ci" + "o", ALNUM, 32),
    "docker_token": then("dckr" + "_pat_", of("", WORDY, 26), "x"),
    "jfrog_key": of("AK" + "Cp", ALNUM, 69),
    "circleci_token": then("CCI" + "PAT_", of("", ALNUM, 22), "_", of("", LOWER_HEX, 40)),
    "buildkite_token": of("bk" + "ua_", LOWER_HEX, 40),
    "pulumi_token": of("pu" + "l-", LOWER_HEX, 40),
    "terraform_token": then(of("", ALNUM, 14), ".atlas" + "v1.", of("", WORDY, 64), "x"),
    "vault_token": then("hv" + "s.", of("", WORDY, 90), "x"),
    "doppler_token": then("dp" + ".st.", of("", ALNUM, 43)),
    "anthropic_key": then("sk-" + "ant-api03-", of("", WORDY, 92), "x"),
    "openrouter_key": of("sk-" + "or-v1-", LOWER_HEX, 64),
    "openai_key": then("sk-" + "proj-", of("", WORDY, 74), "T3Blb" + "kFJ", of("", ALNUM, 74)),
    "model_key": then("sk-", of("", ALNUM, 20), "T3Blb" + "kFJ", of("", ALNUM, 20)),
    "huggingface_token": of("h" + "f_", string.ascii_letters, 34),
    "replicate_token": of("r" + "8_", ALNUM, 37),
    "groq_key": of("gs" + "k_", ALNUM, 52),
    "xai_key": of("xa" + "i-", ALNUM, 80),
    "perplexity_key": of("ppl" + "x-", ALNUM, 48),
    "cerebras_key": of("cs" + "k-", string.ascii_lowercase + string.digits, 48),
    "nvidia_key": then("nv" + "api-", of("", WORDY, 63), "x"),
    "fireworks_key": of("f" + "w_", ALNUM, 24),
    "tavily_key": of("tv" + "ly-dev-", ALNUM, 32),
    "langsmith_key": of("lsv2" + "_pt_", LOWER_HEX, 32, 10, between="_"),
    "mistral_key": then("MISTRAL_API_KEY=", of("", ALNUM, 31), "4"),
    "cohere_key": then("COHERE_API_KEY=", of("", ALNUM, 39), "4"),
    "stripe_key": of("sk_" + "live_ rk_" + "live_ sk_" + "test_", ALNUM, 32),
    "stripe_webhook": of("wh" + "sec_", ALNUM, 32),
    "square_token": then("sq0" + "csp-", of("", WORDY, 42), "x"),
    "braintree_token": then(
        "access_token" + "$production$", of("", LOWER_HEX, 16), "$", of("", LOWER_HEX, 32)
    ),
    "shopify_token": of("shp" + "at_ shp" + "ss_", LOWER_HEX, 32),
    "slack_token": then(
        "xo" + "xb-", of("", string.digits, 12, 13, between="-"), "-", of("", ALNUM, 24)
    ),
    "slack_app_token": then(
        "xa" + "pp-1-A0",
        of("", UPPER_DIGITS, 9),
        "-",
        of("", string.digits, 13),
        "-",
        of("", LOWER_HEX, 64),
    ),
    "slack_webhook": then(
        "https://hooks.slack" + ".com/services/T0",
        of("", UPPER_DIGITS, 8),
        "/B0",
        of("", UPPER_DIGITS, 8),
        "/",
        of("", ALNUM, 24),
    ),
    "discord_webhook": then(
        "https://discord" + ".com/api/webhooks/",
        of("", string.digits, 18),
        "/",
        of("", WORDY, 67),
        "x",
    ),
    "discord_bot_token": then(
        "DISCORD_BOT_TOKEN=", of("", ALNUM, 26), ".", of("", WORDY, 6), ".", of("", WORDY, 37), "4"
    ),
    "telegram_token": then(of("", "123456789", 10), ":A" + "A", of("", WORDY, 32), "x"),
    "twilio_key": of("S" + "K", LOWER_HEX, 32),
    "twilio_token": then("TWILIO_AUTH_TOKEN=", of("", LOWER_HEX, 30), "4f"),
    "sendgrid_key": then("S" + "G.", of("", WORDY, 22), ".", of("", WORDY, 42), "x"),
    "mailgun_key": of("ke" + "y-", LOWER_HEX, 32),
    "mailchimp_key": then(of("", LOWER_HEX, 32), "-u" + "s12"),
    "brevo_key": then("xkey" + "sib-", of("", LOWER_HEX, 64), "-", of("", ALNUM, 16)),
    "linear_key": of("lin" + "_api_", ALNUM, 40),
    "notion_token": then("nt" + "n_", of("", string.digits, 11), of("", ALNUM, 35)),
    "notion_secret": of("secr" + "et_", ALNUM, 43),
    "figma_token": then("fig" + "d_", of("", WORDY, 39), "x"),
    "airtable_token": then("pa" + "t", of("", ALNUM, 14), ".", of("", LOWER_HEX, 64)),
    "hubspot_token": then("pat-" + "na1-", uuid),
    "postman_key": then("PM" + "AK-", of("", LOWER_HEX, 24, 34, between="-")),
    "dropbox_token": then("s" + "l.", of("", WORDY, 135), "x"),
    "onepassword_token": then("ops" + "_eyJ", of("", WORDY, 250), "x"),
    "sentry_token": then("sntr" + "ys_eyJ", of("", ALNUM, 120)),
    "grafana_token": then("gl" + "sa_", of("", ALNUM, 32), "_", of("", LOWER_HEX, 8)),
    "grafana_cloud_token": then("gl" + "c_eyJ", of("", ALNUM, 80)),
    "newrelic_key": of("NR" + "AK-", UPPER_DIGITS, 27),
    "dynatrace_token": then("dt0" + "c01.", of("", UPPER_DIGITS, 24, 64, between=".")),
    "datadog_key": then("DD_API_KEY=", of("", LOWER_HEX, 30), "4f"),
    "databricks_token": of("da" + "pi", LOWER_HEX, 32),
    "age_key": of("AGE-SECRET" + "-KEY-1", "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58),
    "private_key": pem,
    "jwt": jwt,
    "treadle_token": checked("tr" + "d_ tr" + "s_", 43),
    "url_password": url,
    "url_token": url_token,
}
"""By kind: how one is made."""


def dumps(data: bytes) -> dict[str, list[tuple[bytes, str]]]:
    """By their names, what programs print of some bytes: for each line its bytes, and it."""

    def lines(width: int, show: Callable[[int, bytes], str]) -> list[tuple[bytes, str]]:
        starts = range(0, len(data), width)
        return [(data[at : at + width], show(at, data[at : at + width])) for at in starts]

    def text(part: bytes) -> str:
        return "".join(chr(one) if 32 <= one < 127 else "." for one in part)

    def words(part: bytes, form: str) -> str:
        padded = part + bytes(len(part) % 2)
        pairs = zip(padded[::2], padded[1::2], strict=True)
        return " ".join(form.format(low + high * 256) for low, high in pairs)

    return {
        "xxd": lines(16, lambda at, one: f"{at:08x}: {one.hex(' ', -2):39}  {text(one)}"),
        "xxd -p": lines(30, lambda _, one: one.hex()),
        "xxd -i": lines(12, lambda _, one: "  " + ", ".join(f"0x{n:02x}" for n in one) + ","),
        "hexdump -C": lines(
            16, lambda at, one: f"{at:08x}  {one[:8].hex(' ')}  {one[8:].hex(' ')}  |{text(one)}|"
        ),
        "hexdump": lines(16, lambda at, one: f"{at:07x} {words(one, '{:04x}')}"),
        "od": lines(16, lambda at, one: f"{at:07o} {words(one, '{:06o}')}"),
        "od -c": lines(16, lambda at, one: f"{at:07o}   " + "   ".join(text(one))),
        "od -b": lines(16, lambda at, one: f"{at:07o} " + " ".join(f"{n:03o}" for n in one)),
        "od -An -tx1": lines(16, lambda _, one: f" {one.hex(' ')}"),
        "base64 -w 20": [
            (data[at : at + 15], base64.b64encode(data[at : at + 15]).decode())
            for at in range(0, len(data), 15)
        ],
    }


def secret_of(token: str) -> str:
    """What of a token must not be seen: its last characters, without a fixed end."""
    if "PRIVATE KEY" in token:
        return token.split("\n")[-2]
    if "@git.internal" in token:
        return token.removeprefix("https://").partition("@")[0].partition(":")[0][-12:]
    if "@db.internal" in token:
        return token.partition("@")[0][-12:]
    return token.rstrip("=")[-14:-4] if "-us12" in token else token.rstrip("=")[-12:]
