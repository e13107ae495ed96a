"""Deterministic draws: 64 well-mixed bits from a few whole numbers, the same on every machine and Python.

Everything the world says hangs on these two functions, so neither may ever change.
"""

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
