"""Shapes that a file declares: bounded as a product, before anything is allocated for them."""

from __future__ import annotations

import io
import tracemalloc
from typing import Any

import numpy as np
import pytest

from ddssp.archive import MAX_CELLS, ReleaseError, array, npy, sizes


@pytest.mark.parametrize("shape", [[], [0], [7], [0, 5], [2, 3], [MAX_CELLS], [2**15, 2**15]])
def test_shapes_of_releases_are_taken(shape: list[int]) -> None:
    assert sizes(shape) == tuple(shape)


@pytest.mark.parametrize(
    "shape",
    [[MAX_CELLS + 1], [2**20, 2**20], [2**32, 2**32], [2**63, 2], [0, 2**39], [2**39, 0], [10**400], [10**200, 10**200]],
)
def test_a_shape_of_too_many_cells_is_refused(shape: list[int]) -> None:
    with pytest.raises(ReleaseError, match="cells, which no release has"):
        sizes(shape)


@pytest.mark.parametrize("shape", [[-1], [-1, -1], [1, 1, 1], [True], [1.0], ["1"], "11", None, 3, {"0": 1}])
def test_what_is_no_shape_is_refused(shape: Any) -> None:
    with pytest.raises(ReleaseError, match="shapes that no release has"):
        sizes(shape)


@pytest.mark.parametrize("shape", [(2**32, 2**32), (2**29,), (0, 2**39), (2**61, 8), (10**300, 1)])
def test_an_array_is_not_allocated_by_what_its_header_says(shape: tuple[int, ...]) -> None:
    """2³² × 2³² cells of 8 bytes wrap around to none in 64 bits; half a billion cells would be 4 GB."""
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape!r}, }}\n".encode()
    forged = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    tracemalloc.start()
    try:
        with pytest.raises(ReleaseError):
            array(forged)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_an_array_is_what_numpy_reads() -> None:
    content = npy(np.arange(6.0).reshape(2, 3))
    assert np.array_equal(array(content), np.load(io.BytesIO(content), allow_pickle=False))
