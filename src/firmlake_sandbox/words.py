"""What companies, places and people are called, by language: invented names over real places."""

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
