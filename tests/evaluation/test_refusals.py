"""What cannot be compared is refused before the first fit, which costs a budget."""

from __future__ import annotations

import numpy as np
import pytest

from skdpsynth import IndependentSynthesizer
from skdpsynth.evaluation import compare_synthesizers
from skdpsynth.exceptions import InvalidTableError

FLOOR = IndependentSynthesizer()


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"epsilons": ()}, ValueError, "list of positive numbers"),
        ({"epsilons": (1.0, -1.0)}, ValueError, "list of positive numbers"),
        ({"epsilons": 2.0}, ValueError, r"list of positive numbers.* Got 2\.0 instead"),
        ({"epsilons": "10"}, ValueError, "list of positive numbers"),
        ({"n_repeats": 0}, ValueError, "n_repeats must be an integer of at least 1"),
        ({"n_samples": 1}, ValueError, "n_samples must be an integer of at least 2"),
        ({"settings": "AD"}, ValueError, "settings must be letters"),
        ({"settings": ""}, ValueError, "settings must be letters"),
        ({"random_state": None}, ValueError, "random_state must be an integer"),
        ({"classifiers": ["Nothing"]}, ValueError, "'classifiers' parameter"),
        ({"synthesizers": {}}, ValueError, "at least one synthesizer"),
        ({"synthesizers": {"real data": 1}}, ValueError, "other than 'real data'"),
        ({"synthesizers": {1: FLOOR, "1": FLOOR}}, ValueError, "name of its own"),
        ({"synthesizers": FLOOR}, TypeError, r"into a list\.$"),
        ({"sampling_strategy": "even"}, ValueError, "Got 'even' instead"),
        ({"sampling_strategy": {"no": 0.5, "yes": 0.4}}, ValueError, "their sum is 1"),
        ({"sampling_strategy": {"no": 1.5, "yes": -0.5}}, ValueError, "sum is 1"),
        ({"synthesizers": {"a": "text"}}, TypeError, "unfitted synthesizers"),
        ({"synthesizers": [IndependentSynthesizer]}, TypeError, "under the name"),
    ],
)
def test_bad_input_is_refused_before_the_first_fit(
    tables, changes, error, message
) -> None:
    options = {"synthesizers": [IndependentSynthesizer()]} | changes
    with pytest.raises(error, match=message):
        compare_synthesizers(train=tables[0], test=tables[1], target="label", **options)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"test": lambda t: t.assign(label="no")}, "at least two labels"),
        ({"test": lambda t: t.assign(noise=np.inf)}, "finite values in the column"),
        ({"test": lambda t: t.assign(noise="x")}, "column 'noise' to be of one kind"),
        ({"pos_label": "maybe"}, "one of the labels in 'test'"),
        # Setting C and fidelity alone need no two labels, but rows to tell apart.
        ({"settings": "C", "fidelity": True, "n_samples": 9}, "10 rows.* but got 9"),
        ({"settings": "C", "fidelity": True, "test": lambda t: t[:8]}, "but got 8"),
        (
            {
                "settings": "C",
                "fidelity": True,
                "test": lambda t: t.assign(label=np.arange(160) % 2),
            },
            "column 'label' to be of one kind",
        ),
    ],
)
def test_what_no_run_could_score_spends_nothing(
    compare, stubs, tables, changes, message
) -> None:
    """A budget would be charged for nothing otherwise, once for each run."""
    if "test" in changes:
        changes = changes | {"test": changes["test"](tables[1])}
    with pytest.raises(ValueError, match=message):
        compare([stubs["Blind"]()], **changes)
    assert stubs["Blind"].fits == []


def test_first_rows_of_one_label_are_no_reason_to_refuse(
    compare, stubs, tables
) -> None:
    by_label = tables[0].sort_values("label")
    result = compare([stubs["Blind"]()], train=by_label, n_samples=60, n_repeats=1)
    assert (result.runs["error"] == "").all()


def test_other_columns_are_refused(compare, stubs, tables) -> None:
    with pytest.raises(InvalidTableError, match="columns of 'train' in 'test'"):
        compare([stubs["Blind"]()], test=tables[1].drop(columns="kind"))
