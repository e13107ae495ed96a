"""The world: which companies there are in a given week, what they are called and where.

Nothing is stored. A world is a seed and a week; every answer is a function of those two and a company number. What a
company says about itself is in `financials`, whom it resembles in `lookalikes`, whom it belongs to in `relationships`.
"""

from dataclasses import dataclass, field

from firmlake_sandbox.draws import EXISTENCE, NAME, draw
from firmlake_sandbox.numbers import BASE_BITS, COUNTRIES, spell_number
from firmlake_sandbox.records import CompanyId, Identifier
from firmlake_sandbox.words import AWKWARD_NAMES, ENDINGS, LANGUAGES, LEGAL_FORMS, PLACES, STEMS, TRADES

# Of 10,000 companies: the never found, those appearing one day, those vanishing for some weeks now and then.
_NEVER, _LATER, _FLICKERING = 170, 200, 300
_FLICKER_EVERY, _FLICKER_WEEKS = 40, 3
_AWKWARD_ONE_IN = 400


@dataclass(frozen=True, slots=True)
class World:
    """One state of the world.

    Attributes:
        seed: Another seed is another world.
        week: 0 or more; about 5 % of the companies change from one week to the next.
        is_zero_dropped: Whether Belgian numbers are answered without their leading zero.
        is_oldest_first: Whether accounts are listed from the oldest on.
        key: The seed, mixed.
    """

    seed: int = 0
    week: int = 0
    is_zero_dropped: bool = True
    is_oldest_first: bool = False
    key: int = field(init=False)

    def __post_init__(self) -> None:
        """Mix the seed once."""
        object.__setattr__(self, "key", draw(0, 0, self.seed))


def is_found(world: World, node: int) -> bool:
    """Tell whether the service knows the company in this week: 2 % of all well-formed numbers are unknown to it."""
    bits = draw(world.key, EXISTENCE, node)
    kind = bits % 10_000
    if kind >= _FLICKERING:
        return True
    if kind < _LATER:
        return kind >= _NEVER and world.week > (bits >> 32) % 26
    phase = (bits >> 32) % (_FLICKER_EVERY - _FLICKER_WEEKS)  # such that none is away in week 0
    return (world.week - 1 - phase) % _FLICKER_EVERY >= _FLICKER_WEEKS


def is_lasting(key: int, node: int) -> bool:
    """Tell whether the company is found in every week of the worlds with this key."""
    return draw(key, EXISTENCE, node) % 10_000 >= _FLICKERING


def company_id(world: World, node: int) -> CompanyId:
    """Return country and number of a company, as this world spells them."""
    return CompanyId(COUNTRIES[node >> BASE_BITS], _spell(world, node))


def identify(world: World, node: int, language: str) -> Identifier:
    """Return the identifier of a company that is found, with name and place in the language."""
    country, tongue = node >> BASE_BITS, LANGUAGES.index(language)
    name = name_company(world, node, tongue)
    places = PLACES[country]
    place = places[draw(world.key, NAME, node) % 1_000_003 % len(places)][tongue]
    return Identifier(COUNTRIES[country], _spell(world, node), name, place)


def name_company(world: World, node: int, tongue: int) -> str:
    """Return a company's name.

    Args:
        world: The world.
        node: The company.
        tongue: The language's place in `LANGUAGES`.
    """
    bits = draw(world.key, NAME, node)
    forms = LEGAL_FORMS[node >> BASE_BITS]
    stem, ending = STEMS[bits & 31], ENDINGS[(bits >> 5) % 15]
    trade, form = TRADES[(bits >> 12) % 14][tongue], forms[(bits >> 20) % len(forms)][tongue]
    name = f"{stem}{ending} {trade} {form}"
    if (bits >> 28) % _AWKWARD_ONE_IN:
        return name
    return AWKWARD_NAMES[(bits >> 40) % len(AWKWARD_NAMES)].format(name, name)


def _spell(world: World, node: int) -> str:
    """Spell the number as the world does."""
    number = spell_number(node)
    return number[1:] if world.is_zero_dropped and node >> BASE_BITS == 0 and number[0] == "0" else number
