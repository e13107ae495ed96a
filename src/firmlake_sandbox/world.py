"""The world: which companies there are in a given week, what they are called and where.

Nothing is stored. A world is a seed and a week; every answer is a function of those two and a company number. What a
company says about itself is in `financials`, whom it resembles and belongs to in `related`. Names are invented, over
real places.
"""

from dataclasses import dataclass, field

from firmlake_sandbox.numbers import BASE_BITS, COUNTRIES, spell_number

LANGUAGES = ("NL", "FR", "EN")

STEMS = (
    "Albo", "Arden", "Belmo", "Brabo", "Caldo", "Corva", "Delta", "Dirk", "Elvo", "Ferro", "Gala", "Grona", "Hanse",
    "Ideo", "Jupi", "Kanta", "Lier", "Lumi", "Maas", "Meri", "Nova", "Orla", "Pano", "Quadri", "Rivo", "Sambre",
    "Scal", "Tervo", "Urba", "Veld", "Vesdre", "Zeno",
)  # fmt: skip
ENDINGS = ("bel", "cor", "dis", "fin", "gro", "lec", "mat", "nor", "pack", "rex", "san", "tec", "trans", "vest", "wijk")

# Each in Dutch, French and English.
TRADES = (
    ("Bouw", "Construction", "Construction"),
    ("Metaal", "Métal", "Metal"),
    ("Vervoer", "Transports", "Transport"),
    ("Voeding", "Alimentation", "Foods"),
    ("Beheer", "Gestion", "Management"),
    ("Techniek", "Technique", "Engineering"),
    ("Handel", "Commerce", "Trading"),
    ("Vastgoed", "Immobilier", "Real Estate"),
    ("Energie", "Énergie", "Energy"),
    ("Zorg", "Santé", "Care"),
    ("Glas & Verf", "Verre & Peinture", "Glass & Paint"),
    ("Drukkerij", "Imprimerie", "Printing"),
    ("Deelnemingen", "Participations", "Holdings"),
    ("Kinderopvang 't Sterretje", "Crèche L'Étoile", "Nursery 't Sterretje"),
)

# By country as in `numbers.COUNTRIES`, then (NL, FR, EN).
LEGAL_FORMS = (
    (("NV", "SA", "NV"), ("BV", "SRL", "BV"), ("CV", "SC", "CV"), ("VZW", "ASBL", "VZW")),
    (("B.V.", "B.V.", "B.V."), ("N.V.", "N.V.", "N.V."), ("Coöperatie U.A.", "Coöperatie U.A.", "Coöperatie U.A.")),
    (("SAS", "SAS", "SAS"), ("SA", "SA", "SA"), ("SARL", "SARL", "SARL"), ("SCI", "SCI", "SCI")),
)
PLACES = (
    (
        ("Brussel", "Bruxelles", "Brussels"),
        ("Antwerpen", "Anvers", "Antwerp"),
        ("Gent", "Gand", "Ghent"),
        ("Luik", "Liège", "Liège"),
        ("Brugge", "Bruges", "Bruges"),
        ("Leuven", "Louvain", "Leuven"),
        ("Bergen", "Mons", "Mons"),
        ("Namen", "Namur", "Namur"),
        ("Kortrijk", "Courtrai", "Kortrijk"),
        ("Hasselt", "Hasselt", "Hasselt"),
    ),
    (
        ("Amsterdam", "Amsterdam", "Amsterdam"),
        ("Den Haag", "La Haye", "The Hague"),
        ("Rotterdam", "Rotterdam", "Rotterdam"),
        ("Utrecht", "Utrecht", "Utrecht"),
        ("Eindhoven", "Eindhoven", "Eindhoven"),
        ("'s-Hertogenbosch", "Bois-le-Duc", "'s-Hertogenbosch"),
        ("Nijmegen", "Nimègue", "Nijmegen"),
    ),
    (
        ("Parijs", "Paris", "Paris"),
        ("Rijsel", "Lille", "Lille"),
        ("Lyon", "Lyon", "Lyon"),
        ("Marseille", "Marseille", "Marseille"),
        ("Straatsburg", "Strasbourg", "Strasbourg"),
        ("Duinkerke", "Dunkerque", "Dunkirk"),
        ("Toulouse", "Toulouse", "Toulouse"),
        ("Saint-Étienne", "Saint-Étienne", "Saint-Étienne"),
    ),
)

# One company in some hundreds is called like this, because a few in any register are. {} is the ordinary name.
AWKWARD_NAMES = (
    '"{}" & <b>Zonen</b>',
    "{}; d'Œuvre, \\N 'DROP'",
    "שלום {} ‏العربية",
    "=1+1 {}",
    "{} " + "Maatschappij voor Algemene Ondernemingen " * 6 + "{}",
    "{}\u00a0\u200b№ 1 🏗",
)

FIRST_NAMES = ("Jan", "Els", "Marie", "Luc", "Zoë", "Pieter", "Françoise", "Mohamed", "Anneke", "José", "Noor", "Rémi")
LAST_NAMES = (
    "Peeters", "Janssens", "Dubois", "de Vries", "Lefèvre", "Van den Broeck", "El Amrani", "O'Brien", "Müller",
    "'t Hooft", "Nguyễn", "Garnier", "Bakker", "D'Hondt",
)  # fmt: skip

# BE joint committees, some with the leading zero that spreadsheets lose; sometimes none is given.
JOINT_COMMITTEES: tuple[tuple[str, ...], ...] = (
    (), ("200",), ("0100",), ("100", "200"), ("0124",), ("0111", "209"), ("302",), ("0140.03", "226"), ("330", "0319"),
    ("200",), ("0118", "220"), ("121",), ("201",), ("0200",), ("0116", "0207", "0100"), ("124", "200"),
)  # fmt: skip

_MASK = (1 << 64) - 1

# What a draw is for: two purposes of one company never share their bits.
EXISTENCE, NAME, SIZE, EVENTS, LOOKALIKES, OWNERS, SHAPE, LIST, POPULAR, PERSON, HISTORY = range(11)
EDGE = 16  # and the following ones: one for each place among a company's parents


def draw(key: int, purpose: int, subject: int) -> int:
    """Return 64 bits that depend on the world's key, the purpose and the subject (splitmix64's finaliser).

    Args:
        key: The world's, from `draw(0, 0, seed)`.
        purpose: One of the constants above.
        subject: A node, or any other whole number below 2^56.

    References:
        Steele, Lea, Flood: Fast splittable pseudorandom number generators (2014).
    """
    bits = (subject << 8 | purpose) ^ key
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

# Where a world has a history: what happens to one company in 200 in a week.
RENAMED, MOVED, FUNCTION, END_CORRECTED, REFILED, IN_THOUSANDS, COMMITTEES, EMPTIED = range(8)
_EVENT_EVERY = 200
# One in 20 is away for three weeks about the one in which it files, each year.
_AWAY_ONE_IN, _AWAY_WEEKS, _WEEKS_A_YEAR = 20, 3, 52


@dataclass(frozen=True, slots=True)
class World:
    """One state of the world.

    Attributes:
        seed: Another seed is another world.
        week: 0 or more; about 5 % of the companies change from one week to the next.
        is_zero_dropped: Whether Belgian numbers are answered without their leading zero.
        is_oldest_first: Whether accounts are listed from the oldest on.
        has_history: Whether more happens from week to week, see `list_events`; in week 0 it makes no difference.
        key: The seed, mixed.
    """

    seed: int = 0
    week: int = 0
    is_zero_dropped: bool = True
    is_oldest_first: bool = False
    has_history: bool = False
    key: int = field(init=False)

    def __post_init__(self) -> None:
        """Mix the seed once."""
        object.__setattr__(self, "key", draw(0, 0, self.seed))


def list_events(world: World, node: int, event: int) -> range:
    """Return the weeks up to now in which an event happened to a company: none in a world without a history.

    Args:
        world: The world.
        node: The company.
        event: One of the constants above, such as `RENAMED`.
    """
    if not world.has_history:
        return range(0)
    return list_beats(draw(world.key, HISTORY, node << 4 | event), world.week, _EVENT_EVERY)


def is_found(world: World, node: int) -> bool:
    """Tell whether the service knows the company in this week: 2 % of all well-formed numbers are unknown to it."""
    bits = draw(world.key, EXISTENCE, node)
    kind = bits % 10_000
    if world.has_history and _is_away(world, node):
        return False
    if kind >= _FLICKERING:
        return True
    if kind < _LATER:
        return kind >= _NEVER and world.week > (bits >> 32) % 26
    phase = (bits >> 32) % (_FLICKER_EVERY - _FLICKER_WEEKS)  # such that none is away in week 0
    return (world.week - 1 - phase) % _FLICKER_EVERY >= _FLICKER_WEEKS


def is_lasting(key: int, node: int) -> bool:
    """Tell whether the company is found in every week of the worlds with this key that have no history."""
    return draw(key, EXISTENCE, node) % 10_000 >= _FLICKERING


def company_id(world: World, node: int) -> dict[str, str]:
    """Return country and number of a company, as this world spells them."""
    return {"country": COUNTRIES[node >> BASE_BITS], "companyNumber": _spell(world, node)}


def identify(world: World, node: int, language: str) -> dict[str, str]:
    """Return the identifier of a company that is found, with name and place in the language."""
    country, tongue = node >> BASE_BITS, LANGUAGES.index(language)
    name = name_company(world, node, tongue)
    places, moves = PLACES[country], len(list_events(world, node, MOVED))
    place = places[(draw(world.key, NAME, node) % 1_000_003 + moves) % len(places)][tongue]
    return {**company_id(world, node), "name": name, "place": place}


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
    renamed = "".join(f" {2026 + week // _WEEKS_A_YEAR}" for week in list_events(world, node, RENAMED))
    name = f"{stem}{ending}{renamed} {trade} {form}"
    if (bits >> 28) % _AWKWARD_ONE_IN:
        return name
    return AWKWARD_NAMES[(bits >> 40) % len(AWKWARD_NAMES)].format(name, name)


def _is_away(world: World, node: int) -> bool:
    """Tell whether the company is away while it files; in week 0 none is."""
    phase = (world.week - draw(world.key, EVENTS, node)) % _WEEKS_A_YEAR
    is_prone = draw(world.key, HISTORY, node << 4 | 15) % _AWAY_ONE_IN == 0
    return is_prone and phase < min(world.week, _AWAY_WEEKS)


def _spell(world: World, node: int) -> str:
    """Spell the number as the world does."""
    number = spell_number(node)
    return number[1:] if world.is_zero_dropped and node >> BASE_BITS == 0 and number[0] == "0" else number
