"""What a result keeps, writes and leaves out."""

import html
import re

import numpy as np
import pandas as pd
import pytest

from skdpsynth.exceptions import DegradedResultWarning
from skdpsynth.privacy import claim

pytestmark = pytest.mark.usefixtures("few_trees")


def test_the_flag_is_on_everything(result):
    assert result.contains_private_statistics is True
    for table in (result.scores, result.runs, result.summary()):
        assert table.attrs["contains_private_statistics"] is True
    public = result.public_part()
    assert public.contains_private_statistics is False
    for table in (public.scores, public.runs, public.summary()):
        assert table.attrs["contains_private_statistics"] is False
    assert "contains_private_statistics=False" in repr(public)


def test_public_part_has_setting_c_of_runs_with_a_claim(result):
    public = result.public_part()
    assert set(public.scores["setting"]) == {"C"}
    in_c = result.scores[result.scores["setting"] == "C"]
    assert {"real data", "_copy"} < set(in_c["synthesizer"])  # of real rows, left out
    blind = "<b>blind</b> & $x$"
    assert set(public.scores["synthesizer"]) == {"baseline", blind, "broken"}
    failed = (public.runs["synthesizer"] == "broken") & (public.runs["epsilon"] == 1.0)
    assert not failed.any()
    assert np.isfinite(public.runs["epsilon_spent"]).all()
    known = ["synthesizer", "class", "epsilon", "repeat", "epsilon_spent", "delta"]
    assert public.runs.columns.tolist() == known
    kept = result.scores.merge(public.scores)
    assert len(kept) == len(public.scores) > 0
    # Twice the same.
    assert public.public_part().scores.equals(public.scores)


def rows_of(page: str, title: str) -> list[list[str]]:
    """Give the cells of each row of the table under a title."""
    table = page.split(f">{title}</h")[1].split("</table>")[0]
    rows = [re.findall(r"<t[hd]>(.*?)</t[hd]>", row) for row in table.split("<tr")[1:]]
    return [list(map(html.unescape, row)) for row in rows]


def public_page(compare, stubs, folder, **tables) -> tuple[str, pd.DataFrame]:
    """Write the public page of a comparison; give it, and the private summary."""
    synthesizers = {name.lower(): stub() for name, stub in stubs.items()}
    options = {"fidelity": True, "n_repeats": 1, "classifiers": ["GaussianNB"]}
    with pytest.warns(DegradedResultWarning):
        result = compare(synthesizers, **options, **tables)
    result.to_html(folder / "page.html", private=False)
    return (folder / "page.html").read_text(encoding="utf-8"), result.summary()


def test_public_page_does_not_depend_on_the_real_rows(compare, stubs, tables, tmp_path):
    """Not a byte of it, whatever the rows are and how many, and how long it takes.

    The synthesizer looks at no row, so whatever changed would have another way out.
    The private summary does change.
    """
    train, test = tables
    page, private = public_page(compare, stubs, tmp_path)
    others = {
        "train": train[:150].assign(size=5.0, kind="blue"),
        "test": test[10:].assign(noise=-test["noise"], label=test["label"][::-1]),
    }
    other_page, other_private = public_page(compare, stubs, tmp_path, **others)
    assert page == other_page
    scores = ["auroc", "auroc_C", "two_way"]
    assert not private[scores].equals(other_private[scores])


@pytest.mark.parametrize("private", [True, False])
def test_page_needs_nothing_else_and_escapes_names(pages, private):
    text = pages[private]
    loads = re.findall(r"(?:src|href|action|data|srcset)=[\"']([^\"']*)", text)
    assert all(load.startswith("data:image/png;base64,") for load in loads)
    assert len(loads) == text.count("<img ") == 2 + 3 + 3
    words = re.findall(r"<img alt=\"([^\"]*)\"", text)
    assert [says.count("epsilon") for says in words] == [1] * len(loads)
    for other in ("<script", "<link", "<iframe", "<object", "://", "url("):
        assert other not in text
    assert "<b>blind" not in text
    assert html.escape("<b>blind</b> & $x$") in text
    assert 'name="viewport"' in text
    assert f"contains_private_statistics = {private}" in text
    assert f'<meta name="contains_private_statistics" content="{private}">' in text
    for words in (
        "Contains private statistics",
        "no rows for &lt;this&gt; one",
        ">real data<",
        ">fit_s<",
    ):
        assert (words in text) is private


@pytest.mark.parametrize("private", [True, False])
def test_page_shows_the_summary(result, pages, private):
    """Means and deviations as the table has them, row by row."""
    summary = (result if private else result.public_part()).summary()
    names, *rows = rows_of(pages[private], "All classifiers")
    assert [row[0] for row in rows] == summary["synthesizer"].tolist()
    for metric in ("auroc", "auprc_C") if private else ("auroc_C", "auprc_C"):
        expected = [
            "-" if np.isnan(mean) else f"{mean:.3f} \N{PLUS-MINUS SIGN} {spread:.3f}"
            for mean, spread in summary[[metric, f"{metric}_sd"]].to_numpy()
        ]
        assert [row[names.index(metric)] for row in rows] == expected
    names, *rows = rows_of(pages[private], "Costs")
    spent = [row[names.index("epsilon_spent")] for row in rows]
    known = summary["epsilon_spent"]
    assert spent == ["-" if np.isnan(value) else claim(value) for value in known]


def test_page_adds_up_the_claims(result, pages):
    """Copy makes no claim, and broken fails before it, in two repeats each."""
    spent = result.runs["epsilon_spent"]
    finite = spent[np.isfinite(spent)]
    assert len(finite) == 2 * (3 + 3 + 2)
    assert f"fits together are ({finite.sum():.4g}, 0.00016)" in pages[True]
    assert "4 more fits failed or make no claim" in pages[True]
