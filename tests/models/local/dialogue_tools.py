"""Real tools for the dialogues that the embedded model is measured by, over small tables in memory."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any, Literal

from handrail import ToolError, tool

STOCK = {"umbrella": 12, "boot": 3, "lantern": 0, "scar": 41, "regenschirm": 12, "stiefel": 3, "schal": 41}
WEATHER = {"lisbon": 21, "oslo": -4, "vienna": 14, "wien": 14, "hamburg": 9, "madrid": 27, "rome": 24, "rom": 24}
RATES = {"EUR": 1.0, "USD": 1.08, "GBP": 0.86, "JPY": 162.5}
TRAINS = {
    ("berlin", "hamburg"): [
        {"train": "ICE 704", "departs": "08:06", "price": 49.9},
        {"train": "ICE 1516", "departs": "09:36", "price": 37.5},
        {"train": "IC 2072", "departs": "10:12", "price": 29.0},
    ],
    ("paris", "lyon"): [{"train": "TGV 6607", "departs": "07:58", "price": 62.0}],
}
CONTACTS = {
    "anna": {
        "name": "Anna Weiss",
        "email": "anna.weiss@example.org",
        "phone": "030 5551234",
        "address": {"street": "Lindenweg 7", "city": "Kiel"},
    },
    "tom": {"name": "Tom Baker", "email": "tom@example.org", "phone": "020 5550199", "address": {"city": "Leeds"}},
}
EVENTS = {
    "monday": ["Stand-up 09:30", "Dentist 15:00"],
    "montag": ["Stand-up 09:30", "Dentist 15:00"],
    "tuesday": ["Budget review 11:00"],
    "friday": [],
}
NOTES = {"shopping": "Milk, eggs, two lemons.", "garden": "Water the roses before 8 in the morning."}
ROOMS = {"kitchen": 21.5, "cellar": 12.0, "attic": 18.0, "küche": 21.5, "keller": 12.0}


def _found(table: dict[str, Any], name: str) -> Any | None:
    """The entry whose name begins what was asked for, so that plurals are found too."""
    wanted = name.strip().lower()
    return next((value for key, value in table.items() if wanted.startswith(key)), None)


@tool
def check_stock(item: str) -> dict[str, Any]:
    """Check how many pieces of an item are in stock.

    Args:
        item: The name of the item.
    """
    pieces = _found(STOCK, item)
    if pieces is None:
        raise ToolError(f"there is no item called {item!r}")
    return {"item": item, "in_stock": pieces}


@tool(side_effects=True)
def place_order(item: str, quantity: int) -> str:
    """Order an item for the customer.

    Args:
        item: The name of the item.
        quantity: How many pieces.
    """
    return f"order 1 is placed: {quantity} x {item}"


@tool
def list_items() -> list[dict[str, Any]]:
    """List all items that the shop sells, with their prices in euros."""
    return [{"item": "umbrella", "price": 15.9}, {"item": "boot", "price": 64.0}, {"item": "lantern", "price": 22.5}]


@tool
def get_weather(location: str, unit: Literal["celsius", "fahrenheit"] = "celsius") -> dict[str, Any]:
    """Get the current weather for a location.

    Args:
        location: City name.
        unit: Unit of the temperature.
    """
    degrees = _found(WEATHER, location)
    if degrees is None:
        raise ToolError(f"no weather station in {location!r}")
    return {"location": location, "temperature": degrees if unit == "celsius" else degrees * 9 / 5 + 32, "unit": unit}


@tool
def convert_currency(
    from_currency: Literal["EUR", "USD", "GBP", "JPY"],
    to_currency: Literal["EUR", "USD", "GBP", "JPY"],
    amount: float = 1.0,
) -> float:
    """Convert money from one currency to another.

    Args:
        from_currency: Currency of the amount.
        to_currency: Currency that is wanted.
        amount: How much money.
    """
    return round(amount / RATES[from_currency] * RATES[to_currency], 2)


@tool
def find_trains(origin: str, destination: str) -> list[dict[str, Any]]:
    """Find trains from one city to another.

    Args:
        origin: City where the trip begins.
        destination: City where the trip ends.
    """
    return TRAINS.get((origin.lower(), destination.lower()), [])


@tool
def find_contact(name: str) -> dict[str, Any]:
    """Look up a person in the address book: email, phone, address.

    Args:
        name: First name of the person.
    """
    contact = _found(CONTACTS, name)
    if contact is None:
        raise ToolError(f"nobody called {name!r} is in the address book")
    found: dict[str, Any] = contact
    return found


@tool
def list_events(day: str) -> list[str]:
    """List the calendar events of a day.

    Args:
        day: Day of the week.
    """
    return _found(EVENTS, day) or []


@tool(side_effects=True)
def create_event(title: str, day: str, time: str = "09:00") -> dict[str, Any]:
    """Put an event on the calendar.

    Args:
        title: Title of the event.
        day: Day of the week.
        time: Time of day.
    """
    return {"id": 88, "title": title, "day": day, "time": time}


@tool
def read_note(title: str) -> str:
    """Read a note by its title.

    Args:
        title: Title of the note.
    """
    note = _found(NOTES, title)
    if note is None:
        raise ToolError(f"no note is called {title!r}")
    return str(note)


@tool(side_effects=True)
def delete_note(title: str) -> None:
    """Delete a note by its title.

    Args:
        title: Title of the note.
    """


@tool
def get_temperature(room: str) -> float:
    """Measure the temperature in a room of the house.

    Args:
        room: Name of the room.
    """
    measured = _found(ROOMS, room)
    if measured is None:
        raise ToolError(f"there is no sensor in {room!r}")
    return float(measured)


@tool(side_effects=True)
def turn_light(room: str, state: Literal["on", "off"]) -> str:
    """Turn a light on or off.

    Args:
        room: Name of the room.
        state: Whether the light is to be on or off.
    """
    return f"the light in the {room} is {state}"


@tool
def is_locked(door: str) -> bool:
    """Say whether a door of the house is locked.

    Args:
        door: Name of the door.
    """
    return door.lower().startswith(("front", "haus"))


@tool
def due_date(invoice: int) -> str:
    """Say when an invoice is due.

    Args:
        invoice: Number of the invoice.
    """
    return (date(2026, 3, 1) + timedelta(days=invoice % 30)).isoformat()


SHOP = (check_stock, place_order, list_items)
TRAVEL = (get_weather, convert_currency, find_trains)
OFFICE = (find_contact, list_events, create_event, read_note, delete_note, due_date)
HOUSE = (get_temperature, turn_light, is_locked)
