"""How many elements are worked on at a time, and from how many on that is worth the trouble.

Memory that is new in every step costs more than the work on it, so large tensors are gone through
in pieces that fit into a core's cache; small ones are quicker whole. Found by measurement on CPUs;
they change the speed and, by rounding alone, the last digits of sums.
"""

ACTIVATION_PIECE = 1 << 17
"""Of an activation."""
WEIGHT_PIECE = 1 << 20
"""Of weights, with all that is kept beside them."""
SEEN_PIECE = 1 << 22
"""Of what layers see when a task ends, laid out place by place."""
SMALL_DRAW = 1 << 14
"""Up to here autograd draws noise more quickly than a function written by hand."""
TINY_DRAW = 1 << 12
"""Up to here autograd draws weights more quickly than even a call of `uclearn.native`."""
SMALL_ANCHOR = 1 << 13
"""Up to here parameters are penalised together, which copies them and keeps two numbers for each of
their elements; for larger ones that costs more than the calls do."""
