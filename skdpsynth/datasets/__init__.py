"""Real tables of the papers: three in the package, three fetched."""

from skdpsynth.datasets._tables import (
    fetch_epileptic_seizure,
    fetch_isolet,
    fetch_kaggle_credit,
    load_adult,
    load_cervical_cancer,
    load_thyroid,
)

__all__ = [
    "fetch_epileptic_seizure",
    "fetch_isolet",
    "fetch_kaggle_credit",
    "load_adult",
    "load_cervical_cancer",
    "load_thyroid",
]
