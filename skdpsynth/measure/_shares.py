"""How a fit divides its budget, and what it takes for more than noise, on one page.

Shares are of a squared Gaussian-DP parameter, which add up, but for those of delta.
What a schema makes unnecessary is not spent, and goes to what follows.
"""

from __future__ import annotations

# Of the whole fit, charged to all rows before anything else.
FOUND_SHARE = 0.04  # each: labels of the classes, and their counts; frequent values
# Categories; with .04 the 2-way distance of Adult was .067, not .059 (epsilon 1).
CATEGORIES_SHARE = 0.06
# Each of what needs little: decimals of numbers with tens and units of times; last
# digits of numbers, days of weeks and minutes of hours; how many rows persons have,
# where several of each take part; of the budget of rows without a label, which are in
# no class, their number; of delta, for the tail of blocks of votes or of sampled steps.
SMALL_SHARE = 0.01
# Ranges of numbers; and where they are not sure at that, since without its range a
# column is worth nothing. Of the values of wine (178 rows, 13 columns, epsilon 1) 90 %
# are in the range found with .1, and 97 % with .25; of the ranges 4.6 % and .8 % are
# more than 32 times too wide.
RANGES_SHARE, FEW_RANGES_SHARE = 0.10, 0.25

# Of what is left to the measurements of a class, where it can afford them.
# Tables of three columns; and of what is spent on relations, for third columns.
TRIPLES_SHARE = 0.25
# Of the rest: finer cells of pairs that nearly determine each other, the relations; and
# of tables of two columns, for which pairs.
BESIDE_SHARE = 0.1
PAIRS_SHARE = 0.75  # of the rest: tables of two columns
# Of the rest, where several classes have tables: tables of all of them together, if the
# largest class is clear of the noise, and if not. At epsilon 1 C2ST of Adult fell from
# .677 to .662 and that of Diamonds from .836 to .808, and with .3 classifiers learnt
# less of the label of Diamonds. At 0.3 it took .5: Adult .793 to .786 (with .2: .799),
# Diamonds .932 to .893 (.926).
TOGETHER_SHARES = (0.2, 0.5)
MOMENTS_SHARES = (0.02, 0.3)  # second moments: as much as makes them clear

# Of the marginals.
COARSE_SHARE = 0.4  # for where the rows are, if all columns are numbers

DISCOVERY_SHARE = 0.1  # of delta: keys found by threshold

# Noise deviations from which a number is no noise: of noise alone one in 700 is above
# the first, one in 3 million above the second.
LIKELY, SURE = 3.0, 5.0
# Rows of a class, in noise deviations of a count: a mean cell of a table of 4 x 4 bins
# is 2.5 of them, one of 20 bins 2.
ROWS_FROM = 40.0
# The same, clear of the noise: of fewer rows, if they are the largest class, some pairs
# are chosen.
CLEAR_FROM = 200.0
LEAST_NOISE = 0.5  # rows; counts without noise are whole numbers
RARE = 0.01  # share of the rows that may be rounded, or that the noise may hide
TINY = 1e-12  # keeps divisions and logarithms finite
WIDE = 120  # columns, from which counts of each say less than a few factors
RAKINGS = 30  # rounds until a table has given sums to 1e-3
SHOWN = 3  # columns in a warning, categories of a bin in a text
