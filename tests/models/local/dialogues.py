"""Dialogues that the embedded model is measured by, through `Session`: English and German, in our own words.

A turn says what the person says, which calls are right, and what the answer must contain.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from tests.models.local.dialogue_tools import HOUSE, OFFICE, SHOP, TRAVEL


class Turn(Struct, frozen=True):
    kind: str
    said: str
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    says: tuple[str, ...] = ()
    """What the answer must contain; of `a|b` one is enough."""
    denied: bool = False
    """The person denies the call."""


class Dialogue(Struct, frozen=True):
    tools: tuple[Any, ...]
    turns: tuple[Turn, ...]


def _one(said: str, tool: str, /, *says: str, **arguments: Any) -> Turn:
    return Turn("one result", said, ((tool, arguments),), says)


def _kind(kind: str, said: str, *says: str, calls: tuple[tuple[str, dict[str, Any]], ...] = ()) -> Turn:
    return Turn(kind, said, calls, says)


def _list(said: str, tool: str, /, *says: str, **arguments: Any) -> Turn:
    return Turn("list", said, ((tool, arguments),), says)


def _nested(said: str, tool: str, /, *says: str, **arguments: Any) -> Turn:
    return Turn("nested", said, ((tool, arguments),), says)


def _failed(said: str, tool: str, /, *says: str, **arguments: Any) -> Turn:
    return Turn("error", said, ((tool, arguments),), says)


def _denied(said: str, tool: str, /, *says: str, **arguments: Any) -> Turn:
    return Turn("denied", said, ((tool, arguments),), says, denied=True)


THANKS = tuple(
    _kind("thanks", said)
    for said in (
        "Thanks, that is all.",
        "Thank you!",
        "Great, thanks a lot.",
        "Perfect, bye.",
        "Ok, that's it for today.",
    )
)
DANKE = tuple(
    _kind("thanks", said)
    for said in ("Danke, das war alles.", "Vielen Dank!", "Super, danke.", "Alles klar, tschüss.", "Danke dir.")
)
NOT_DONE = "not done|not placed|not ordered|not deleted|denied|declined|not carried out|not created|not turned"
NICHT = "nicht"

SHOPPING = (
    Dialogue(
        SHOP,
        (
            _one("How many umbrellas are in stock?", "check_stock", "12", item="umbrella"),
            _one("Order 2 umbrellas.", "place_order", "1", item="umbrella", quantity=2),
            _one("And how many boots are there?", "check_stock", "3", item="boot"),
            THANKS[0],
        ),
    ),
    Dialogue(
        SHOP,
        (
            _kind("about itself", "What can you do?", "stock", "order"),
            _list("What do you sell?", "list_items", "umbrella", "15.9", "boot", "64", "lantern", "22.5"),
            _one("Do you have lanterns in stock?", "check_stock", "0", item="lantern"),
            _failed("How many unicorns are in stock?", "check_stock", "unicorn", item="unicorn"),
            THANKS[1],
        ),
    ),
    Dialogue(
        SHOP,
        (
            _kind("small talk", "Hello!"),
            _denied("Order 40 scarves.", "place_order", NOT_DONE, item="scar", quantity=40),
            _kind("small talk", "Good that I asked."),
            _one("How many scarves do you have?", "check_stock", "41", item="scar"),
            THANKS[2],
        ),
    ),
    Dialogue(
        SHOP,
        (
            _one("Check the stock of boots, please.", "check_stock", "3", item="boot"),
            _kind("earlier result", "How many was that again?", "3"),
            _one("Please order 3 boots.", "place_order", "1", "3", item="boot", quantity=3),
            THANKS[3],
        ),
    ),
    Dialogue(
        SHOP,
        (
            _kind("about itself", "Was kannst du?", "stock|Bestand|Lager", "order|bestell"),
            _one("Wie viele Regenschirme sind auf Lager?", "check_stock", "12", item="regenschirm"),
            _one("Bestelle 2 Regenschirme.", "place_order", "1", "2", item="regenschirm", quantity=2),
            _one("Wie viele Stiefel gibt es noch?", "check_stock", "3", item="stiefel"),
            DANKE[0],
        ),
    ),
    Dialogue(
        SHOP,
        (
            _kind("small talk", "Hallo!"),
            _denied("Bestelle 5 Schals.", "place_order", NICHT, item="schal", quantity=5),
            _failed("Wie viele Einhörner sind auf Lager?", "check_stock", "Einh", item="einh"),
            DANKE[1],
        ),
    ),
)
TRIPS = (
    Dialogue(
        TRAVEL,
        (
            _one("What is the weather in Lisbon?", "get_weather", "21", location="lisbon"),
            _one("And in Oslo?", "get_weather", "-4", location="oslo"),
            _one(
                "How warm is it in Madrid in fahrenheit?", "get_weather", "80.6", location="madrid", unit="fahrenheit"
            ),
            THANKS[4],
        ),
    ),
    Dialogue(
        TRAVEL,
        (
            _one("How much is 250 euros in dollars?", "convert_currency", "270", amount=250),
            _one("Convert 80 GBP to EUR", "convert_currency", "93.02", amount=80, to_currency="EUR"),
            _one("How many yen do I get for 20 dollars?", "convert_currency", "3009.26", amount=20, to_currency="JPY"),
            THANKS[0],
        ),
    ),
    Dialogue(
        TRAVEL,
        (
            _list("Find trains from Berlin to Hamburg.", "find_trains", "ICE 704", "ICE 1516", "IC 2072", "08:06"),
            _kind("earlier result", "Which one is the cheapest?"),
            _list("Find trains from Paris to Lyon.", "find_trains", "TGV 6607", "07:58", origin="paris"),
            THANKS[1],
        ),
    ),
    Dialogue(
        TRAVEL,
        (
            _list("Are there trains from Rome to Vienna?", "find_trains", origin="rome", destination="vienna"),
            Turn(
                "several results",
                "What is the weather in Rome and in Vienna?",
                (("get_weather", {"location": "rome"}), ("get_weather", {"location": "vienna"})),
                ("24", "14", "Rome", "Vienna"),
            ),
            _failed("What is the weather in Atlantis?", "get_weather", "Atlantis", location="atlantis"),
            _kind("small talk", "Never mind."),
            THANKS[2],
        ),
    ),
    Dialogue(
        TRAVEL,
        (
            _one("Wie ist das Wetter in Wien?", "get_weather", "14", location="wien"),
            _one("Und in Hamburg?", "get_weather", "9", location="hamburg"),
            _one("Wie viel sind 100 Euro in Dollar?", "convert_currency", "108", amount=100, to_currency="USD"),
            DANKE[2],
        ),
    ),
    Dialogue(
        TRAVEL,
        (
            _list("Suche Züge von Berlin nach Hamburg.", "find_trains", "ICE 704", "ICE 1516", "IC 2072"),
            Turn(
                "several results",
                "Wie ist das Wetter in Rom und in Oslo?",
                (("get_weather", {"location": "rom"}), ("get_weather", {"location": "oslo"})),
                ("24", "-4"),
            ),
            _failed("Wie ist das Wetter in Atlantis?", "get_weather", "Atlantis", location="atlantis"),
            DANKE[3],
        ),
    ),
    Dialogue(
        TRAVEL,
        (
            _kind("about itself", "Which tools do you have?", "weather", "trains", "currency"),
            _one("Give me the weather in Hamburg, please.", "get_weather", "9", location="hamburg"),
            _one("Convert 15 USD to GBP", "convert_currency", "11.94", amount=15, from_currency="USD"),
            _kind("small talk", "You are doing well."),
            THANKS[3],
        ),
    ),
)
WORK = (
    Dialogue(
        OFFICE,
        (
            _nested("What is Anna's email address?", "find_contact", "anna.weiss@example.org", name="anna"),
            _kind("earlier result", "And her phone number?"),
            _nested("Where does Tom live?", "find_contact", "Leeds", name="tom"),
            _failed("Look up Zoe in the address book.", "find_contact", "Zoe", name="zoe"),
            THANKS[4],
        ),
    ),
    Dialogue(
        OFFICE,
        (
            _list("What is on my calendar on Monday?", "list_events", "Stand-up", "09:30", "Dentist", "15:00"),
            _list("And on Friday?", "list_events", day="friday"),
            _one(
                "Put Team lunch on the calendar for Tuesday at 12:30.",
                "create_event",
                "Team lunch",
                title="team lunch",
                day="tuesday",
                time="12:30",
            ),
            _denied("Put Karaoke on the calendar for Friday.", "create_event", NOT_DONE, title="karaoke"),
            THANKS[0],
        ),
    ),
    Dialogue(
        OFFICE,
        (
            _one("Read the note called shopping.", "read_note", "Milk, eggs, two lemons", title="shopping"),
            _denied("Delete the note shopping.", "delete_note", NOT_DONE, title="shopping"),
            _one("Read the note garden.", "read_note", "roses", "8", title="garden"),
            Turn("no value", "Delete the note garden.", (("delete_note", {"title": "garden"}),)),
            _failed("Read the note holidays.", "read_note", "holidays", title="holidays"),
            THANKS[1],
        ),
    ),
    Dialogue(
        OFFICE,
        (
            _one("When is invoice 12 due?", "due_date", "2026-03-13", invoice=12),
            _one("And invoice 25?", "due_date", "2026-03-26", invoice=25),
            _kind("small talk", "How are you today?"),
            THANKS[2],
        ),
    ),
    Dialogue(
        OFFICE,
        (
            _nested("Wie lautet die E-Mail-Adresse von Anna?", "find_contact", "anna.weiss@example.org", name="anna"),
            _list("Was steht am Montag in meinem Kalender?", "list_events", "Stand-up", "Dentist"),
            _one("Lies die Notiz shopping.", "read_note", "Milk, eggs, two lemons", title="shopping"),
            _denied("Lösche die Notiz shopping.", "delete_note", NICHT, title="shopping"),
            DANKE[4],
        ),
    ),
    Dialogue(
        OFFICE,
        (
            _kind("about itself", "Wobei kannst du mir helfen?", "note|Notiz", "calendar|Kalender"),
            _one("Wann ist die Rechnung 7 fällig?", "due_date", "2026-03-08", invoice=7),
            _failed("Suche Zoe im Adressbuch.", "find_contact", "Zoe", name="zoe"),
            DANKE[0],
        ),
    ),
)
HOME = (
    Dialogue(
        HOUSE,
        (
            _one("How warm is it in the kitchen?", "get_temperature", "21.5", room="kitchen"),
            _one("Turn on the light in the cellar.", "turn_light", "on", room="cellar", state="on"),
            _one("Is the front door locked?", "is_locked", "yes|true|is locked", door="front"),
            _one("Is the back door locked?", "is_locked", "no|false|not locked", door="back"),
            THANKS[3],
        ),
    ),
    Dialogue(
        HOUSE,
        (
            _kind("small talk", "Good morning!"),
            _denied("Switch off the light in the attic.", "turn_light", NOT_DONE, room="attic", state="off"),
            _one("What is the temperature in the attic?", "get_temperature", "18", room="attic"),
            _failed("What is the temperature in the garage?", "get_temperature", "garage", room="garage"),
            _kind("small talk", "Tell me something funny."),
            THANKS[4],
        ),
    ),
    Dialogue(
        HOUSE,
        (
            Turn(
                "several results",
                "How warm is it in the kitchen and in the cellar?",
                (("get_temperature", {"room": "kitchen"}), ("get_temperature", {"room": "cellar"})),
                ("21.5", "12"),
            ),
            Turn(
                "several results",
                "Turn off the light in the kitchen and in the attic.",
                (
                    ("turn_light", {"room": "kitchen", "state": "off"}),
                    ("turn_light", {"room": "attic", "state": "off"}),
                ),
                ("kitchen", "attic", "off"),
            ),
            THANKS[0],
        ),
    ),
    Dialogue(
        HOUSE,
        (
            _kind("small talk", "Guten Morgen!"),
            _one("Wie warm ist es im Keller?", "get_temperature", "12", room="keller"),
            _one("Mach das Licht in der Küche an.", "turn_light", "on|an", room="küche", state="on"),
            _denied("Mach das Licht im Keller aus.", "turn_light", NICHT, room="keller", state="off"),
            DANKE[1],
        ),
    ),
    Dialogue(
        HOUSE,
        (
            _kind("about itself", "Help", "temperature", "light"),
            Turn(
                "several results",
                "Wie warm ist es in der Küche und im Keller?",
                (("get_temperature", {"room": "küche"}), ("get_temperature", {"room": "keller"})),
                ("21.5|21,5", "12"),
            ),
            _failed("Wie warm ist es in der Garage?", "get_temperature", "Garage", room="garage"),
            _kind("small talk", "Schade."),
            DANKE[2],
        ),
    ),
)
DIALOGUES = SHOPPING + TRIPS + WORK + HOME
FEW = (SHOPPING[3], TRIPS[3], WORK[2], WORK[4], HOME[4])
"""What `make test` holds: every kind of turn, and every set of tools."""
