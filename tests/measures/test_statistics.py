"""Student's t and paired differences, against published tables and by hand."""

import math

import pytest
import torch

from uclearn.measures.statistics import (
    Estimate,
    estimate,
    paired_difference,
    probability_above_zero,
    t_quantile,
)

# Two-sided 95 % and 99 % points as printed in tables of Student's t, e.g. NIST/SEMATECH e-Handbook
# of Statistical Methods, 1.3.6.7.2 (there as the upper 0.975 and 0.995 points).
TABLE = {
    1: (12.706, 63.657),
    2: (4.303, 9.925),
    3: (3.182, 5.841),
    4: (2.776, 4.604),
    5: (2.571, 4.032),
    6: (2.447, 3.707),
    7: (2.365, 3.499),
    8: (2.306, 3.355),
    9: (2.262, 3.250),
    10: (2.228, 3.169),
    15: (2.131, 2.947),
    20: (2.086, 2.845),
    29: (2.045, 2.756),
    30: (2.042, 2.750),
    60: (2.000, 2.660),
    100: (1.984, 2.626),
}


@pytest.mark.parametrize("freedom", TABLE)
def test_t_quantiles_are_those_of_the_printed_tables(freedom: int) -> None:
    at_95, at_99 = TABLE[freedom]
    assert t_quantile(freedom) == pytest.approx(at_95, abs=5e-4)
    assert t_quantile(freedom, 0.99) == pytest.approx(at_99, abs=5e-4)


@pytest.mark.parametrize("confidence", [0.1, 0.5, 0.9, 0.95, 0.999])
def test_one_and_two_degrees_of_freedom_have_closed_forms(confidence: float) -> None:
    """Cauchy: t = tan(pi p / 2). Two degrees: p = t / sqrt(2 + t^2)."""
    assert t_quantile(1, confidence) == pytest.approx(math.tan(math.pi * confidence / 2), rel=1e-12)
    t = t_quantile(2, confidence)
    assert t / math.sqrt(2 + t * t) == pytest.approx(confidence, rel=1e-12)


def test_many_degrees_of_freedom_approach_the_normal_distribution() -> None:
    assert t_quantile(100_000) == pytest.approx(1.959964, abs=5e-5)


def test_an_interval_by_hand() -> None:
    """0.7, 0.8, 0.9: mean 0.8, s = 0.1, half width 4.302653 * 0.1 / sqrt(3)."""
    found = estimate([0.9, 0.7, 0.8])
    assert found is not None
    assert found.mean == pytest.approx(0.8)
    assert found.half_width == pytest.approx(0.2484138, abs=1e-6)
    assert found.ends == pytest.approx((0.8 - 0.2484138, 0.8 + 0.2484138), abs=1e-6)


def test_one_value_has_no_interval_and_none_has_no_mean() -> None:
    assert estimate([0.5]) == Estimate(0.5, 1, None)
    assert not Estimate(0.5, 1, None).excludes_zero
    assert estimate([]) is None


def test_a_paired_difference_by_hand() -> None:
    """Differences 0.10, 0.05, 0.10: mean 1/12, s = 0.0288675, half width 4.302653 s / sqrt(3)."""
    ours = {0: 0.90, 1: 0.80, 2: 0.70}
    reference = {2: 0.60, 0: 0.80, 1: 0.75}
    found = paired_difference(ours, reference)
    assert found is not None
    assert found.mean == pytest.approx(0.25 / 3)
    assert found.half_width == pytest.approx(0.0717109, abs=1e-6)
    assert found.excludes_zero


def test_only_seeds_that_both_have_are_paired() -> None:
    found = paired_difference({0: 0.9, 1: 0.5, 7: 0.1}, {1: 0.25, 8: 0.1})
    assert found == Estimate(0.25, 1, None)
    assert paired_difference({0: 0.9}, {1: 0.9}) is None


def test_pairing_removes_what_the_seeds_have_in_common() -> None:
    """Seeds differ by 20 points, methods by one: alone both intervals are wide, paired it is 0."""
    reference = {0: 0.5, 1: 0.7, 2: 0.9}
    ours = {seed: value + 0.01 for seed, value in reference.items()}
    alone, paired = estimate(list(ours.values())), paired_difference(ours, reference)
    assert alone is not None
    assert alone.half_width is not None
    assert alone.half_width > 0.4
    assert paired is not None
    assert paired.half_width == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("freedom", range(1, 9))
def test_student_agrees_with_its_integral(freedom: int) -> None:
    t = torch.linspace(-60, 1.3, 2_000_001, dtype=torch.float64)
    log_density = (
        math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2) - math.log(freedom * math.pi) / 2
    )
    density = (log_density - (freedom + 1) / 2 * (1 + t * t / freedom).log()).exp()
    tail = 0.5 - math.atan(60.0) / math.pi if freedom == 1 else 0.0
    expected = float(torch.trapezoid(density, t)) + tail
    assert probability_above_zero(1.3, 1.0, freedom) == pytest.approx(expected, abs=2e-4)
