"""The world: which companies there are in a given week, what they are called and where.

Nothing is stored. A world is a seed and a week; every answer is a function of those two and a company number. What a
company says about itself is in `financials`, whom it resembles and belongs to in `related`. Names are invented, over
real places.
"""

import tomllib
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from firmlake_sandbox.numbers import BASE_BITS, COUNTRIES, spell_number

LANGUAGES = ("NL", "FR", "EN")
WORDS: dict[str, Any] = tomllib.loads(files(__package__).joinpath("words.toml").read_text("utf-8"))
JOINT_COMMITTEES: list[list[str]] = WORDS["joint_committees"]

_MASK = (1 << 64) - 1

# What a draw is for: two purposes of one company never share their bits. An edge has a place among the parents.
_PURPOSES = {
    "seed": 0, "existence": 0, "name": 1, "size": 2, "events": 3, "lookalikes": 4, "owners": 5, "shape": 6, "list": 7,
    "popular": 8, "person": 9, "edge 0": 16, "edge 1": 17, "edge 2": 18, "edge 3": 19,
}  # fmt: skip


def draw(key: int, purpose: str, subject: int) -> int:
    """Return 64 bits that depend on the world's key, the purpose and the subject: a node, or a number below 2^56.

    This is the finaliser of splitmix64: Steele, Lea, Flood: Fast splittable pseudorandom number generators (2014).
    """
    bits = (subject << 8 | _PURPOSES[purpose]) ^ key
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB & _MASK
    return bits ^ (bits >> 31)


def list_beats(bits: int, week: int, every: int) -> range:
    """Return the weeks up to `week` in which something happened that happens once in `every` weeks, never in week 0.

    Example:
        >>> list(list_beats(2, 11, 4))
        [2, 6, 10]
    """
    return range(every - bits % every, week + 1, every)


# Of 10,000 companies: the never found, those appearing one day, those vanishing for some weeks now and then.
_NEVER, _LATER, _FLICKERING = 170, 200, 300
_FLICKER_EVERY, _FLICKER_WEEKS = 40, 3
_AWKWARD_ONE_IN = 400


@dataclass(frozen=True, slots=True)
class World:
    """One state of the world; about 5 % of the companies change from one week to the next."""

    seed: int = 0
    week: int = 0
    is_zero_dropped: bool = True  # whether Belgian numbers are answered without their leading zero
    is_oldest_first: bool = False  # whether accounts are listed from the oldest on
    key: int = field(init=False)  # the seed, mixed

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", draw(0, "seed", self.seed))


def is_found(world: World, node: int) -> bool:
    """Tell whether the service knows the company in this week: 2 % of all well-formed numbers are unknown to it."""
    bits = draw(world.key, "existence", node)
    kind = bits % 10_000
    if kind >= _FLICKERING:
        return True
    if kind < _LATER:
        return kind >= _NEVER and world.week > (bits >> 32) % 26
    phase = (bits >> 32) % (_FLICKER_EVERY - _FLICKER_WEEKS)  # such that none is away in week 0
    return (world.week - 1 - phase) % _FLICKER_EVERY >= _FLICKER_WEEKS


def is_lasting(key: int, node: int) -> bool:
    """Tell whether the company is found in every week of the worlds with this key."""
    return draw(key, "existence", node) % 10_000 >= _FLICKERING


def company_id(world: World, node: int) -> dict[str, str]:
    """Return country and number of a company, as this world spells them."""
    country, number = COUNTRIES[node >> BASE_BITS], spell_number(node)
    is_shortened = world.is_zero_dropped and country == "BE" and number[0] == "0"
    return {"country": country, "companyNumber": number[1:] if is_shortened else number}


def identify(world: World, node: int, language: str) -> dict[str, str]:
    """Return the identifier of a company that is found, with name and place in the language."""
    tongue, places = LANGUAGES.index(language), WORDS["places"][COUNTRIES[node >> BASE_BITS]]
    name, place = _name_company(world, node, tongue), places[draw(world.key, "name", node) % 1_000_003 % len(places)]
    return {**company_id(world, node), "name": name, "place": place[tongue]}


def _name_company(world: World, node: int, tongue: int) -> str:
    bits = draw(world.key, "name", node)
    forms = WORDS["legal_forms"][COUNTRIES[node >> BASE_BITS]]
    stem, ending = WORDS["stems"][bits & 31], WORDS["endings"][(bits >> 5) % 15]
    trade, form = WORDS["trades"][(bits >> 12) % 14][tongue], forms[(bits >> 20) % len(forms)][tongue]
    name = f"{stem}{ending} {trade} {form}"
    if (bits >> 28) % _AWKWARD_ONE_IN:
        return name
    awkward: str = WORDS["awkward_names"][(bits >> 40) % len(WORDS["awkward_names"])]
    return awkward.format(name, name)
