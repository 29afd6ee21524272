"""Domain: sizes, cliques, and what is too large to hold."""

from __future__ import annotations

import pytest

from ddssp.domain import MAX_CELLS, Attribute, Domain, TooLargeError, require_fit


def test_sizes_and_cliques():
    d = Domain.of(a=2, b=3, c=5)
    assert d.size(()) == 1
    assert d.size(("a", "c")) == 10
    assert d.shape(("b", "c")) == (3, 5)
    assert d.pairs == (("a", "b"), ("a", "c"), ("b", "c"))
    assert d.clique(["c", "a", "c"]) == ("a", "c")
    assert len(d) == 3


def test_unknown_attribute():
    with pytest.raises(KeyError, match=r"unknown attributes \['z'\]; the domain has \['a'\]"):
        Domain.of(a=2).clique(["z"])


def test_names_are_distinct_and_sizes_positive():
    with pytest.raises(ValueError, match="distinct names"):
        Domain((Attribute(name="a", size=1), Attribute(name="a", size=2)))
    with pytest.raises(ValueError, match="at least 1, got 0"):
        Domain.of(a=0)


def test_what_fits_is_the_square_of_all_levels():
    side = int(MAX_CELLS**0.5)
    require_fit({"a": side - 1, "b": 1})
    with pytest.raises(TooLargeError, match=r"a \(16,384\), b \(1\)"):
        require_fit({"a": side, "b": 1})
