"""Numbers as people read them."""

from collections.abc import Sequence

from uclearn.measures.statistics import Estimate

UNKNOWN = "–"
_NO_BREAK = "\N{NO-BREAK SPACE}"
_MINUS = "\N{MINUS SIGN}"


def percent(fraction: float | None, digits: int | None = 1) -> str:
    r"""A fraction in percent, with so many digits after the point; None: as many as it has.

    >>> percent(0.7431), percent(0.05, digits=None), percent(None)
    ('74.3\xa0%', '5\xa0%', '–')
    """
    if fraction is None:
        return UNKNOWN
    number = f"{100 * fraction:.{digits}f}" if digits is not None else f"{100 * fraction:g}"
    return number.replace("-", _MINUS) + _NO_BREAK + "%"


def points(difference: float) -> str:
    """A difference of two percentages, with its sign.

    >>> points(-0.012)
    '−1.2'
    """
    return f"{100 * difference:+.1f}".replace("-", _MINUS)


HALF_WIDTH = "± 95 %"
"""The head of a column of `half_width`s."""


def half_width(estimate: Estimate | None) -> str:
    """Half the width of the 95 % interval of an accuracy, in percentage points: what ± means
    everywhere.

    >>> half_width(Estimate(0.5, 3, 0.0251)), half_width(Estimate(0.5, 1, None))
    ('± 2.5', '–')
    """
    if estimate is None or estimate.half_width is None:
        return UNKNOWN
    return f"± {100 * estimate.half_width:.1f}"


def signed(value: float, digits: int) -> str:
    """A number with so many digits after the point, and a true minus where it is negative.

    >>> signed(-1234.5, 0), signed(0.5, 2)
    ('−1,234', '0.50')
    """
    return f"{value:,.{digits}f}".replace("-", _MINUS)


def difference(estimate: Estimate | None) -> str:
    """A paired difference in percentage points, with its interval if it has one.

    >>> difference(Estimate(0.012, 3, 0.02))
    '+1.2 (−0.8 to +3.2)'
    """
    if estimate is None:
        return UNKNOWN
    ends = f" ({' to '.join(map(points, estimate.ends))})" if estimate.ends else ""
    return points(estimate.mean) + ends


def spread(found: Estimate | None, *, width: bool = True) -> str:
    """An accuracy with half the width of its interval, in percent.

    >>> spread(Estimate(0.945, 3, 0.0021)), spread(Estimate(0.945, 1, None)), spread(None)
    ('94.5 ± 0.2', '94.5', '–')
    """
    if found is None:
        return UNKNOWN
    half = found.half_width if width else None
    mean = f"{round(100 * found.mean, 1) + 0.0:.1f}"  # which has no -0.0
    return mean if half is None else f"{mean} ± {100 * half:.1f}"


def reward_spread(found: Estimate | None) -> str:
    """A reward with half the width of its interval.

    >>> reward_spread(Estimate(1.65, 3, 0.214)), reward_spread(Estimate(1.65, 1, None))
    ('1.65 ± 0.21', '1.65')
    """
    if found is None:
        return UNKNOWN
    half = "" if found.half_width is None else f" ± {found.half_width:.2f}"
    return f"{found.mean:.2f}{half}"


def duration(seconds: float) -> str:
    """A time in its two largest units.

    >>> duration(3.21), duration(192), duration(7384)
    ('3.2 s', '3 min 12 s', '2 h 3 min')
    """
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    minutes = round(whole / 60)
    return f"{minutes // 60} h {minutes % 60} min"


def memory(amount: float) -> str:
    """So many bytes.

    >>> memory(734003200)
    '700 MiB'
    """
    mebibytes = amount / 2**20
    return f"{mebibytes:.0f} MiB" if mebibytes < 1024 else f"{mebibytes / 1024:.1f} GiB"


def count(number: int, thing: str) -> str:
    """A number of things, with the plural where it belongs.

    >>> count(1, "seed"), count(3, "seed")
    ('1 seed', '3 seeds')
    """
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def listing(parts: Sequence[str]) -> str:
    """Several things in a sentence: with commas and a last "and".

    >>> listing(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join(parts) if len(parts) < 3 else f"{', '.join(parts[:-1])} and {parts[-1]}"
