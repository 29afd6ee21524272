"""The paper's datasets from the official raw files, discretised as the paper's were, and a folder of them for `reproduce`.

>>> from ddssp.experiments.raw import adult, save
>>> save([adult.load("adult.data", "adult.test")], "data")  # doctest: +SKIP
"""

from ddssp.experiments.raw.coded import save

__all__ = ["save"]
