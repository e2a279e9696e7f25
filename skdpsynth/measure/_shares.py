"""How a fit divides its budget, and what it takes for more than noise, on one page.

Shares are of a squared Gaussian-DP parameter, which add up, but for those of delta.
What a schema makes unnecessary is not spent, and goes to what follows.
"""

# Of the whole fit, charged to all rows before anything else.
FOUND_SHARE = 0.04  # each: labels of the classes, and their counts; frequent values
# Categories; with .04 the 2-way distance of Adult was .067, not .059 (epsilon 1).
CATEGORIES_SHARE = 0.06
# Last digits of numbers, days of weeks and minutes of hours: with .01 those of the
# longitudes of storms were found in 5 of 15 draws of the noise, not 10 (epsilon 1). And
# hours of the day: of 20,000 rows the noise alone makes a total variation of .013.
REMAINDERS_SHARE = 0.02
# Each of what needs little: decimals of numbers with tens and units of times; days of
# the week of times; how many
# rows persons have, where several of each take part; of the budget of rows without a
# label, which are in no class, their number; of delta, for the tail of blocks of votes
# or of sampled steps.
SMALL_SHARE = 0.01
# Each of what is beside something larger: ranges of numbers; of what a class has left,
# finer cells of pairs that nearly determine each other, the relations; of tables of two
# columns, for which pairs; of delta, keys found by threshold.
BESIDE_SHARE = 0.1
# Each: ranges where they are not sure at that, since without its range a column is
# worth nothing; of what a class has left, tables of three columns; of what is spent on
# relations, third columns; of the rest, single columns where there are tables of two.
# And of the rows, other numbers than 0 in a flag, and those of a bin beside the fullest
# one where a prior decides; of a log probability there, what a factor of 2 takes off.
# Of the values of wine (178 rows, 13 columns, epsilon 1) 90 % are in the range found
# with .1, and 97 % with .25; of the ranges 4.6 % and .8 % are more than 32 times too
# wide.
QUARTER = 0.25
PAIRS_SHARE = 1.0 - QUARTER  # tables of two columns, beside single ones

# Of what is left to the measurements of a class, where it can afford them.
# Of tables of two columns, where several classes have some: those of all classes
# together, if the largest class is clear of the noise, and if not. At epsilon 1 C2ST of
# Adult fell from .677 to .662 and that of Diamonds from .836 to .808, and with .3
# classifiers learnt less of the label of Diamonds. At 0.3 it took .5: Adult .793 to
# .786 (with .2: .799), Diamonds .932 to .893 (.926).
TOGETHER_SHARES = (0.2, 0.5)
MOMENTS_SHARES = (0.02, 0.3)  # second moments: as much as makes them clear

# Of the marginals.
COARSE_SHARE = 0.4  # for where the rows are, if all columns are numbers

# Noise deviations from which a number is no noise: of noise alone one in 700 is above
# the first, one in 3 million above the second.
LIKELY, SURE = 3.0, 5.0
# Rows of a class, in noise deviations of a count: a mean cell of a table of 4 x 4 bins
# is 2.5 of them, one of 20 bins 2.
ROWS_FROM = 40.0
# The same, clear of the noise: so many that a cell with one in ROWS_FROM of them is
# sure. Of fewer rows, if they are the largest class, some pairs are chosen.
CLEAR_FROM = SURE * ROWS_FROM
# Cells of the final density of a numeric column, and bins of round 2 at most.
N_CELLS = 256
# Bins of round 1, and of a column in tables of two, at least: with four a density has a
# place and a width, and with fewer a table says little more than a covariance. And of
# round 1 at most.
COARSE_BINS = (4, 16)
LEAST_NOISE = 0.5  # rows; counts without noise are whole numbers
# Share of the rows that may be rounded, that the noise may hide, or of a class or bin
# that is too small to be learnt by itself.
RARE = 0.01
# What matters little, of a whole: rows in merged categories, or in pairs of bins that
# are not above the noise; a bin beside the fullest one, what is even in edges for
# scale="quantile", what a third column says of a child and what it says beyond what
# mixtures draw, in nats; of a score, its slope and what it has alone.
LITTLE = 0.1
# The same, before something is spent on them: columns of another kind, and the rows of
# the least value that could be found.
FEW = 0.05
TINY = 1e-12  # keeps divisions and logarithms finite
SMALLEST = 1e-300  # the same, where what is divided by may be smaller
WIDE = 120  # columns, from which counts of each say less than a few factors
# All pairs are measured, unless they are more than 300, or the largest class has fewer
# rows than 200 noise deviations of a count. Of few rows about 15 pairs are chosen then,
# and a table is worth it if the dependence is above half of its noise, since a fit is
# smooth. Of 4,000 rows at epsilon 1 that took C2ST from .69 to .65, .97 to .88; where
# only some classes have few rows, classifiers learnt less by it.
MOST_TABLES, FEW_TABLES = 300, 15
TRIPLE_COLUMNS = range(3, 20)  # of tables whose triples are measured: 969 at most
