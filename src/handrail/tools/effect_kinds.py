"""What kind of thing a tool does, by the verbs in its name, and which kinds a person's words ask for.

A table of ordinary verbs, English and German. A verb that is not in it stands for itself.
"""

from __future__ import annotations

import re
from functools import lru_cache

_KINDS: dict[str, str] = {
    "send": """apologise apologize say announce
        send sends sending sent mail email e-mail write writes text message tell tells inform notify let forward
        answer reply respond dispatch deliver submit contact remind ask ping share post invite confirm thank
        congratulate
        schicke schick schicken sende senden schreib schreibe schreiben antworte antworten teile informiere leite sag
        sage
        erinnere frag frage lade""",
    "reply": """apologise apologize say
        thank thanks get mail write accept decline agree ask reply replies respond answer answers react write
        tell let send confirm antworte antworten beantworte""",
    "forward": "forward forwards relay redirect pass send share leite weiterleiten weiter",
    "pay": """give pay pays paid payment transfer transfers wire remit settle refund reimburse donate send tip topup top
        zahle zahlen bezahle bezahlen überweise überweisen überweis erstatte spende""",
    "refund": "give pay back refund refunds reimburse return money-back erstatte erstatten",
    "buy": """reorder buy buys order orders purchase purchases checkout check-out get reorder add cart book subscribe
        kaufe kauf
        kaufen bestelle bestell bestellen""",
    "cart": "cart basket add put buy order purchase take remove warenkorb lege bestelle kaufe",
    "delete": """delete deletes remove removes erase trash drop purge discard wipe clear clean unlink rid cancel delist
        lösche lösch löschen entferne entfernen""",
    "cancel": """cancel cancels cancelled call-off abort stop unsubscribe delete remove decline storniere storno sage
        ab absagen""",
    "create": """create creates make makes add adds new open opens file start draft schedule schedules book books
        plan set block reserve arrange organise organize pencil jot
        write register log put insert generate build enter record report save store note erstelle erstellen lege anlegen
        mach mache füge trage eintragen plane vereinbare buche notiere speichere""",
    "update": """bump amend revise ship ships
        go give correct new update updates change changes edit edits modify set sets rename move moves
        reschedule postpone
        adjust fix
        correct rewrite replace increase decrease raise lower mark assign extend shift push swap turn complete finish
        ändere ändern verschiebe verschieben aktualisiere setze umbenennen korrigiere""",
    "move": """move moves archive file put transfer relocate rename reschedule shift sort verschiebe verschieben
        archiviere""",
    "archive": "archive archives file move clean tidy archiviere archivieren",
    "mark": "mark marks flag star label tag set read unread done complete markiere markieren",
    "label": "label labels tag tags mark flag categorise categorize add markiere",
    "assign": "assign assigns take give hand reassign delegate weise zuweisen",
    "close": "close closes resolve shut finish end done schließe schließen",
    "open": "open opens reopen create file start öffne öffnen",
    "merge": "merge merges land integrate accept führe zusammenführen",
    "approve": "approve approves accept allow lgtm confirm genehmige genehmigen",
    "comment": """tell thank ask answers inform mention comment comments reply answer write post say note respond add
        leave kommentiere kommentieren""",
    "review": "thank answer review reviews rate comment approve bewerte",
    "post": "put post posts publish share tweet announce write send comment say tell let veröffentliche poste teile",
    "publish": "put post publish publishes release post announce deploy share veröffentliche",
    "share": "share shares invite give grant send teile teilen",
    "grant": "grant grants give allow permit share invite add promote access rights gib",
    "revoke": "revoke revokes remove withdraw take unshare entziehe",
    "invite": "invite invites add ask bring attend lade einladen",
    "accept": "accept accepts approve confirm agree take annehmen",
    "decline": "decline declines reject refuse deny turn ablehnen",
    "run": "again rerun repeat run runs execute start launch trigger test tests build call starte führe ausführen",
    "deploy": "deploy deploys release ship publish roll rollout",
    "write": """bump amend revise patch
        correct fix repair set make pin change replace rename implement translate convert move bump write
        writes save saves store put create update append record note add edit export draft summarise
        summarize
        copy schreib schreibe schreiben speichere""",
    "commit": "commit commits push save check-in change fix update bump correct edit write",
    "push": "push pushes upload commit publish",
    "append": "append appends add adds extend insert put attach write note hänge füge ergänze",
    "upload": "upload uploads put send attach store save lade hochladen",
    "download": "download downloads fetch get save lade herunterladen",
    "copy": "copy copies duplicate clone backup kopiere",
    "rename": "rename renames call name move umbenennen",
    "subscribe": "subscribe subscribes sign follow join abonniere",
    "unsubscribe": "unsubscribe unsubscribes leave stop cancel abmelden",
    "block": "block blocks ban mute blockiere",
    "reset": "reset resets restore restart",
    "return": "return returns send give refund zurückgeben",
    "reserve": "reserve reserves book reservation reserviere buche",
    "snooze": "snooze later remind postpone",
}
_SAME: dict[str, str] = {
    "money": "pay", "funds": "pay", "reassign": "assign",
    "email": "send", "mail": "send", "compose": "send", "dispatch": "send",
    "message": "send", "notify": "send", "dm": "send", "sms": "send", "tell": "send",
    "relay": "forward", "redirect": "forward", "respond": "reply",
    "answer": "reply", "transfer": "pay", "wire": "pay", "payment": "pay", "pay": "pay",
    "purchase": "buy", "order": "buy", "checkout": "buy", "book": "reserve", "remove": "delete", "erase": "delete",
    "trash": "delete", "drop": "delete", "purge": "delete", "clear": "delete", "unlink": "delete", "add": "create",
    "new": "create", "insert": "create", "register": "create", "schedule": "create",
    "draft": "create", "edit": "update", "modify": "update", "change": "update", "set": "update", "patch": "update",
    "reschedule": "update", "put": "write", "save": "write", "store": "write", "tag": "label",
    "flag": "mark", "star": "mark", "resolve": "close", "reopen": "open", "tweet": "post", "release": "publish",
    "execute": "run", "exec": "run", "shell": "run", "bash": "run", "command": "run", "reject": "decline",
    "deny": "decline", "allow": "grant", "permit": "grant", "rate": "review", "clone": "copy", "confirm": "accept",
    "start": "run", "reorder": "buy", "disable": "update", "enable": "update", "basket": "cart", "reimburse": "refund",
    "ban": "block", "reserve": "reserve",
}  # fmt: skip
STRICT = frozenset(
    {"pay", "refund", "buy", "reserve", "delete", "cancel", "grant", "share", "publish", "deploy", "run", "invite"}
)
"""What cannot be taken back, or lets others in: its object must be one that the person's words select."""
GRAVE = frozenset({"delete", "grant", "revoke", "run", "share", "publish", "deploy"})
"""What nobody may have meant by words that are not known: then each value that directs it must be the person's."""
_GRAVE_WORDS = frozenset(
    "destroy wipe terminate kill shutdown uninstall format truncate disable reset chmod chown sudo admin owner "  # noqa: SIM905
    "password passwords permission permissions role roles access secret secrets token tokens key keys credential "
    "credentials forwarding redirect rule webhook hook sql query script".split()
)
"""Words in the names of tools that others could get in by, or that undo more than one thing."""
UNMAKING = frozenset({"delete", "cancel", "close", "revoke", "block", "unsubscribe", "move", "archive", "mark", "open"})
"""Verbs whose title does not say what is written, but what the verb is done to."""
_PARTICLES = ("back", "out", "off", "down", "over", "up", "in")
_WEAK = frozenset({"make", "do", "add", "create", "place", "submit", "perform", "issue", "put", "set", "new"})
"""Verbs that another word of the name tells more of: `add_label` labels, `make_payment` pays."""
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_ASKED = {kind: frozenset(words.split()) for kind, words in _KINDS.items()}
_MONEY = frozenset({"money", "funds", "payment", "payments", "cash"})
_NOUNS = frozenset(
    {"money", "funds", "mail", "email", "message", "payment", "order", "comment", "review", "label", "tag", "command"}
)
"""Words of names that are verbs only where no other verb stands beside them, as in `delete_mail`."""


def name_words(name: str) -> tuple[str, ...]:
    """The words of a name in snake, kebab or camel case, in small letters."""
    return _short_name_words(name) if len(name) <= 64 else _name_words(name)  # outsiders may choose names of fields


def _verbs_of(name: str) -> tuple[str, ...]:
    """The words of a name, those of the table without a plural: `add_labels` labels."""
    return tuple(
        word[:-1] if word.endswith("s") and word not in _KINDS and (word[:-1] in _KINDS or word[:-1] in _SAME) else word
        for word in name_words(name)
    )


def _name_words(name: str) -> tuple[str, ...]:
    return tuple(word.lower() for word in _WORD.findall(name))


_short_name_words = lru_cache(4096)(_name_words)


@lru_cache(2048)
def effect_kind(name: str) -> str:
    """The kind of effect that a name tells of; the first word of the name if it is none of the table."""
    words = _verbs_of(name)
    found = [word for word in words if word in _KINDS or word in _SAME]
    strong = [word for word in found if word not in _WEAK]
    verbs = [word for word in strong if word not in _NOUNS]
    if not verbs and words and words[0] not in found and words[0] not in _WEAK:
        return words[0]  # a verb of its own, as in `ship_order`
    kinds = [_SAME.get(word, word) for word in verbs or strong or found or words[:1]] or [name]
    if kinds[0] == "send" and words[-1] in _MONEY:
        return "pay"
    strict = [kind for kind in kinds if kind in STRICT]
    return strict[0] if strict and kinds[0] not in UNMAKING else kinds[0]


def grave_words_of(name: str) -> frozenset[str]:
    """The words of a name that tell of what others could get in by."""
    return _GRAVE_WORDS.intersection(name_words(name))


def nouns_of(name: str) -> set[str]:
    """What a name speaks of, besides what is done to it."""
    return {word for word in name_words(name)[1:] if len(word) > 2 and word not in _WEAK}


def is_grave(name: str) -> bool:
    """Whether a tool of this name must not run by words that are not known, unless they say what it is run on."""
    return effect_kind(name) in GRAVE or not _GRAVE_WORDS.isdisjoint(name_words(name))


@lru_cache(2048)
def words_that_ask(name: str) -> frozenset[str]:
    """The words by which people ask for what a tool of this name does."""
    kind = effect_kind(name)
    if kind not in UNMAKING and kind in STRICT:
        also = {_SAME.get(word, word) for word in _verbs_of(name) if word in _KINDS or word in _SAME}
        also = also - {"send"} if kind == "pay" else also  # by `send a mail` no money is meant
        also = also - UNMAKING - {"update", "create"} if kind not in also else also - UNMAKING - {"update"}
        return frozenset({kind}).union(*(_ASKED.get(each, frozenset()) for each in {kind, *also}))
    first = next((word for word in _verbs_of(name) if _SAME.get(word, word) == kind), kind)
    parted = {first.removesuffix(each) for each in _PARTICLES if first.endswith(each) and len(first) > len(each) + 2}
    parted = parted if first not in _ASKED and first not in _SAME else set()  # `roll it back` for `rollback`
    return _ASKED.get(kind, frozenset()) | _ASKED.get(first, frozenset()) | {kind, first} | parted
