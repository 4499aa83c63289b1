"""Normalising and back; constant dimensions stay small."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import TypeCheckError

from speedup_patch.maths.normalize import Normalizer


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=25, deadline=None)
def test_normalised_data_has_mean_zero_and_unit_spread_and_comes_back(seed: int):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(7, 11, 3)) * rng.uniform(0.01, 100, size=3) + rng.uniform(-50, 50, size=3)
    normalizer = Normalizer.fit(values)
    normalised = normalizer.apply(values)
    np.testing.assert_allclose(normalised.mean(axis=(0, 1)), 0.0, atol=1e-9)
    np.testing.assert_allclose(normalised.std(axis=(0, 1)), 1.0, atol=1e-9)
    np.testing.assert_allclose(normalizer.invert(normalised), values, atol=1e-9)


def test_a_constant_dimension_is_only_shifted():
    values = np.array([[3.0, 1.0], [3.0 + 1e-9, 2.0]])
    normalizer = Normalizer.fit(values)
    assert normalizer.std[0] == 1.0
    assert abs(normalizer.apply(np.array([3.5, 1.0]))[0]) <= 0.5 + 1e-6


def test_single_precision_stays_single_and_one_row_is_enough():
    row = np.array([[1.0, -2.0]], dtype=np.float32)
    normalizer = Normalizer.fit(row)
    assert normalizer.apply(row).dtype == normalizer.invert(row).dtype == np.float32
    np.testing.assert_array_equal(normalizer.apply(row), 0.0)


def test_saving_and_loading_keeps_every_bit():
    normalizer = Normalizer.fit(np.random.default_rng(0).normal(size=(9, 4)))
    again = Normalizer.from_arrays(normalizer.to_arrays())
    np.testing.assert_array_equal(again.mean, normalizer.mean)
    np.testing.assert_array_equal(again.std, normalizer.std)


def test_impossible_normalisers_are_refused():
    with pytest.raises(ValueError, match="no rows"):
        Normalizer.fit(np.zeros((0, 3)))
    with pytest.raises((ValueError, TypeCheckError)):
        Normalizer(np.zeros(2), np.ones(3))
    for std in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="std positive"):
            Normalizer(np.zeros(1), np.array([std]))
    with pytest.raises(ValueError, match="finite"):
        Normalizer.fit(np.array([[np.nan]]))
