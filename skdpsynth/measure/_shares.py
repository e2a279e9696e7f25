"""How a fit divides its budget: every share of it, on one page.

All but the last are shares of a squared Gaussian-DP parameter, which add up. What a
schema makes unnecessary is not spent, and goes to what follows.
"""

from __future__ import annotations

# Of the whole fit, charged to all rows before anything else.
CLASS_SHARE = 0.04  # labels of the classes, and their counts
CATEGORIES_SHARE = 0.06  # categories
# Ranges of numbers; and where they are not sure at that, since without its range a
# column is worth nothing. Of the values of wine (178 rows, 13 columns, epsilon 1) 90 %
# are in the range found with .1, and 97 % with .25; of the ranges 4.6 % and .8 % are
# more than 32 times too wide.
RANGES_SHARE, FEW_RANGES_SHARE = 0.10, 0.25
RESOLUTIONS_SHARE = 0.01  # decimals of numbers, tens, and units of times
REMAINDERS_SHARE = 0.02  # last digits of numbers, days of weeks, minutes of hours
VALUES_SHARE = 0.04  # frequent values of numbers
UNITS_SHARE = 0.01  # how many rows persons have, where several of each take part

# Of what is then left to a class that trains, if it starts from something. The rest of
# the class's budget is for its measurements, and all of it if it cannot train.
GPATE_SHARES = {"measured": 0.05, "marginals": 0.3}
PATEGAN_SHARES = {"measured": 0.05, "marginals": 0.25}
DPSGD_SHARES = (0.02, 0.1)  # at least and at most: as much as the signal needs
TRIPLE_SHARES = (0.02, 0.03, 0.05, 0.1)  # the first one that is enough
CLASSIFIER_SHARE = 0.05  # PATE-TripleGAN's classifier, at most
# Of the budget of rows without a label: they are in no class, so it is a whole one.
UNLABELLED_SHARE = 0.01  # their number
PSEUDO_LABELS_SHARE = 0.05  # counts of their pseudo-labels, where there is training

# Of what is left to the measurements of a class, where it can afford them.
TRIPLES_SHARE = 0.25  # tables of three columns
# Of the rest: finer cells of pairs that nearly determine each other.
RELATIONS_SHARE = 0.1
SECOND_SHARE = 0.3  # of that, for what third columns say of them
PAIRS_SHARE = 0.75  # of the rest: tables of two columns
CHOICE_SHARE = 0.1  # of that, for which pairs
# Of the rest, where several classes have tables: tables of all of them together, if the
# largest class is clear of the noise, and if not. At epsilon 1 C2ST of Adult fell from
# .677 to .662 and that of Diamonds from .836 to .808, and with .3 classifiers learnt
# less of the label of Diamonds. At 0.3 it took .5: Adult .793 to .786 (with .2: .799),
# Diamonds .932 to .893 (.926).
TOGETHER_SHARES = (0.2, 0.5)
MOMENTS_SHARES = (0.02, 0.3)  # second moments: as much as makes them clear

# Of the marginals.
COARSE_SHARE = 0.4  # for where the rows are, if all columns are numbers

# Of delta.
DISCOVERY_SHARE = 0.1  # keys found by threshold
TAIL_SHARE = 0.01  # blocks of votes or of sampled steps
