"""The shapes of well-known keys and tokens: one table, and a quick check that ordinary text passes.

A shape is found by its own form, without a name beside it. Each row of the table has a
mark: a character that a search finds quickly, and what stands around it in that shape.
The patterns of a row run only where one of its marks was found, so ordinary text costs a
few scans for single characters.

There are no possessive quantifiers and no atomic groups here: Python 3.11.2 gets them wrong.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable

from handrail.core.lazy_pattern import LazyPattern

MASK = "[redacted]"

# A letter or a digit before it makes it the end of a word, as in "task-", unless that letter ends an escape.
_EDGE = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=%[0-9A-F][0-9A-F]))"
_DIGIT = r"(?=[A-Za-z_-]{0,80}[0-9])"
_LONG = r"(?=[A-Za-z0-9_+/=-]{10})"

_SHAPES = (
    # mark: its character   and what is around it    pattern
    ("-", r"(?<=sk-)", _EDGE + r"c?sk-[A-Za-z0-9_-]{16,}"),  # OpenAI, Anthropic, OpenRouter, DeepSeek, Cerebras, …
    ("-", r"(?<=xai-)|(?<=fc-)|(?<=key-)", _EDGE + r"(?:xai|fc|key)-" + _DIGIT + r"[A-Za-z0-9_-]{24,}"),
    (
        "-",
        r"(?<=pplx-)|(?<=nvapi-)|(?<=tvly-)|(?<=HRKU-)|(?<=GOCSPX-)",
        r"(?:pplx|nvapi|tvly|HRKU|GOCSPX)-[A-Za-z0-9_-]{20,}",
    ),
    ("-", r"(?<=t-)", r"gl(?:pat|dt|rt|ptt|soat|cbt|ft|imt|agent)-[A-Za-z0-9_-]{20,}"),  # GitLab
    ("-", r"(?<=xox.-)|(?<=xapp-)", r"xox[abceoprs]-[A-Za-z0-9-]{10,}|xapp-[0-9]-[A-Za-z0-9-]{10,}"),  # Slack
    ("-", r"(?<=pypi-)", r"pypi-[A-Za-z0-9_-]{50,}"),
    ("-", r"(?<=xkeysib-)", r"xkeysib-[a-f0-9]{32,}-[A-Za-z0-9]{8,}"),  # Brevo
    ("-", r"(?<=[NP][RM]AK-)", r"NRAK-[A-Z0-9]{27}|PMAK-[a-f0-9]{24}-[a-f0-9]{34}"),  # New Relic, Postman
    ("-", r"(?<=sq0...-)|(?<=KEY-)", r"sq0(?:atp|csp)-[A-Za-z0-9_-]{22,}|AGE-SECRET-KEY-1[A-Z0-9]{50,}"),
    ("_", r"(?<=gh[pousr]_)|(?<=_pat_)", r"gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,}"),
    ("_", r"(?<=hf_)", r"hf_[A-Za-z0-9]{30,}"),  # Hugging Face
    ("_", r"(?<=npm_)|(?<=gems_)", r"npm_[A-Za-z0-9]{36}|rubygems_[a-f0-9]{48}"),
    ("_", r"(?<=gsk_)", _EDGE + r"gsk_[A-Za-z0-9]{24,}"),  # Groq
    ("_", r"(?<=_(?:live|test|prod)_)", _EDGE + r"[sr]k_(?:live|test|prod)_[A-Za-z0-9]{16,}"),  # Stripe
    ("_", r"(?<=sk_)", _EDGE + r"sk_[a-f0-9]{40,}"),  # ElevenLabs
    ("_", r"(?<=whsec_)", r"whsec_[A-Za-z0-9+/=]{24,}"),
    ("_", r"(?<=shp.._)", r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}"),  # Shopify
    ("_", r"(?<=_v1_)", r"do[opr]_v1_[a-f0-9]{40,}|tgp_v1_[A-Za-z0-9_-]{30,}"),  # DigitalOcean, Together
    ("_", r"(?<=glsa_)|(?<=glc_)", r"gl(?:sa|c)_[A-Za-z0-9+/=_]{32,}"),  # Grafana
    ("_", r"(?<=sntry[su]_)", r"sntry[su]_[A-Za-z0-9+/=_-]{32,}"),
    ("_", r"(?<=_api_)|(?<=_oauth_)", r"(?:lin_api|lin_oauth|apify_api|pscale_oauth)_[A-Za-z0-9_.-]{32,}"),
    ("_", r"(?<=lsv2_)", r"lsv2_(?:pt|sk)_[a-f0-9]{32}_[a-f0-9]{10}"),  # LangSmith
    ("_", r"(?<=figd_)|(?<=pcsk_)|(?<=nfp_)", r"(?:figd|pcsk|nfp)_[A-Za-z0-9_-]{32,}"),
    ("_", r"(?<=_tkn_)|(?<=_pw_)", r"pscale_(?:tkn|pw)_[A-Za-z0-9_.-]{32,}"),
    ("_", r"(?<=sbp_)|(?<=sb_secret_)", r"sbp_[a-f0-9]{40}|sb_secret_[A-Za-z0-9_-]{20,}"),
    (
        "_",
        r"(?<=r8_)|(?<=fw_)|(?<=ntn_)|(?<=secret_)|(?<=jina_)|(?<=phx_)",
        _EDGE + r"(?:r8|fw|ntn|secret|jina|phx)_" + _DIGIT + r"[A-Za-z0-9]{30,}",
    ),
    (".", r"(?<=SG\.)", _EDGE + r"SG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{32,}"),  # SendGrid
    (".", r"(?<=hv[sbr]\.)", _EDGE + r"hv[sbr]\.[A-Za-z0-9_-]{24,}"),  # Vault
    (
        ".",
        r"(?<=s\.)(?=[A-Za-z0-9]{24})",
        _EDGE + r"s\.(?=[A-Za-z]{0,23}[0-9])[A-Za-z0-9]{24}(?![A-Za-z0-9])",  # Vault, before 1.10
    ),
    (".", r"(?<=ya29\.)", r"ya29\.[A-Za-z0-9_-]{20,}"),  # Google
    (".", r"(?<=dp\.[psc]t\.)", r"dp\.[psc]t\.[A-Za-z0-9_.-]{32,}"),  # Doppler
    (
        ".",
        r"(?<=[MNO][A-Za-z0-9_-]{23}\.)|(?<=[A-Za-z0-9_-]{24}\.[A-Za-z0-9_-]{6}\.)",
        _EDGE + r"[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}",  # Discord
    ),
    ("A", r"(?=Iza)", r"AIza[0-9A-Za-z_-]{35}"),  # Google
    ("A", r"(?<=AKIA)|(?<=ASIA)", r"(?:AKIA|ASIA)[0-9A-Z]{16}"),  # AWS
    ("A", r"(?=BSK)|(?=TATT3x)", r"ABSK[A-Za-z0-9+/]{80,}={0,2}|ATATT3x[A-Za-z0-9_=-]{40,}"),  # Bedrock, Atlassian
    ("A", r"(?<=S[AUO]A)", _EDGE + r"S[AUO]A[A-Z2-7]{55}(?![A-Z0-9])"),  # seeds of NATS keys
    ("A", r"(?<=[0-9]:A)", _EDGE + r"[0-9]{8,10}:AA[A-Za-z0-9_-]{33}(?![A-Za-z0-9_-])"),  # Telegram
    ("J", r"(?<=eyJ)", r"sk\.eyJ[A-Za-z0-9_-]{20,2000}\.[A-Za-z0-9_-]{16,}"),  # Mapbox
    # Bounded, or it is quadratic.
    ("J", r"(?<=eyJ)", r"eyJ[A-Za-z0-9_-]{10,1000}\.eyJ[A-Za-z0-9_-]{10,4000}\.[A-Za-z0-9_-]{10,}"),  # JWT
    ("J", r"(?<=JQQJ)", r"[A-Za-z0-9]{50,54}JQQJ9[A-Za-z0-9]{20,40}"),  # Azure, keys of AI services
    (
        "~",
        r"(?<=Q~)",
        _EDGE + r"[A-Za-z0-9_~.-]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}(?![A-Za-z0-9_~-])",  # Azure, clients
    ),
)
# Up to its END or, where the text was cut, as far as it goes: half a key is a secret too.
_BLOCK = r"(?:PRIVATE KEY(?: BLOCK)?|NKEY SEED)-----"
_KEY_BLOCK = LazyPattern(rf"-----BEGIN [A-Z ]*{_BLOCK}(?s:.*?)(?:-----END [A-Z ]*{_BLOCK}|(?=-----)|\Z)")
_PLACES = (
    # in an address                           pattern
    ("hntoken:", r"hntoken://v1/[A-Za-z0-9_.-]+"),
    ("hooks.slack.com/", r"(?<=hooks\.slack\.com/)(?:services|workflows|triggers)/[A-Za-z0-9_/-]{16,}"),
    ("/webhooks/", r"(?<=/webhooks/)[0-9]{15,22}/[A-Za-z0-9_-]{40,}"),  # Discord
    ("/webhookb2/", r"(?<=/webhookb2/)[A-Za-z0-9@_/-]{40,}"),  # Teams
)
_USER_INFO = LazyPattern(r"(?<=://)[^/\s:@\"]{0,64}:[^/\s\"]{1,256}(?=@)")  # user:password in a URL
_BEARER = LazyPattern(r"(?<=(?i:bearer) )[A-Za-z0-9_.~+/-]{16,}=*")
_BASIC = LazyPattern(r"(?<=(?i:basic) )[A-Za-z0-9+/_-]{6,}={0,2}")


def _any_of(patterns: Iterable[str]) -> LazyPattern:
    return LazyPattern("|".join(f"(?:{pattern})" for pattern in patterns))


def _group(character: str) -> tuple[LazyPattern, LazyPattern]:
    """What finds the marks with this character, and the patterns to run then."""
    rows = [row for row in _SHAPES if row[0] == character]
    around = "|".join(mark for _, mark, _ in rows)
    return LazyPattern(f"{re.escape(character)}{_LONG}(?:{around})"), _any_of(pattern for _, _, pattern in rows)


_GROUPS = {character: _group(character) for character in dict.fromkeys(row[0] for row in _SHAPES)}
_ADDRESSES = tuple((literal, LazyPattern(pattern)) for literal, pattern in _PLACES)
_AUTHORIZATION_MARK = LazyPattern(r"b(?=earer |asic )")
_DASH_MARK, _UNDERSCORE_MARK, _DOT_MARK = (_GROUPS[character][0] for character in "-_.")
_A_MARK, _J_MARK, _TILDE_MARK = (_GROUPS[character][0] for character in "AJ~")


def may_hold_shape(text: str, lowered: str) -> bool:
    """Whether a text has a mark of a shape; most have none. `lowered` is the same text in lower case.

    This runs on every body that is recorded, so it is written out: a loop takes twice as long.
    """
    if "-" in text and (_DASH_MARK.search(text) or "-----BEGIN " in text):
        return True
    if "_" in text and _UNDERSCORE_MARK.search(text):
        return True
    if "." in text and _DOT_MARK.search(text):
        return True
    if "A" in text and _A_MARK.search(text):
        return True
    if ("J" in text and _J_MARK.search(text)) or ("~" in text and _TILDE_MARK.search(text)):
        return True
    if "/" in text and (("@" in text and "://" in text) or any(literal in text for literal, _ in _ADDRESSES)):
        return True
    return _AUTHORIZATION_MARK.search(lowered) is not None


def mask_shapes(text: str) -> str:
    """The text with every well-known shape masked."""
    if "-----BEGIN " in text:
        text = _KEY_BLOCK.sub(MASK, text)
    for literal, pattern in _ADDRESSES:
        if literal in text:
            text = pattern.sub(MASK, text)
    for character, (marks, patterns) in _GROUPS.items():
        if character in text and marks.search(text):
            text = patterns.sub(MASK, text)
    if "@" in text and "://" in text:
        text = _USER_INFO.sub(MASK, text)
    text = _BEARER.sub(MASK, text)
    return _BASIC.sub(_masked_basic, text)


def _masked_basic(match: re.Match[str]) -> str:
    """Credentials after `Basic` decode to `user:password`; the words "basic understanding" do not."""
    found = match[0]
    try:
        decoded = base64.b64decode(found + "=" * (-len(found) % 4), altchars=b"-_" if set("-_") & set(found) else None)
    except binascii.Error:
        return found
    return MASK if b":" in decoded and decoded.isascii() else found
