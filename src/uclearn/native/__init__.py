"""An optional library in C that does UCL's work on every weight in one pass over memory.

It is compiled at its first use, in about a second, where a C compiler is, and kept in the
platform's cache folder. Where anything stands against it (no compiler, another device or precision)
torch does the same work in several passes, with the same results up to rounding.
`UCLEARN_NATIVE=0` in the environment switches it off.
"""

from uclearn.native.build import in_use

__all__ = ["in_use"]
