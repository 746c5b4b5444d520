"""A straight line through measured points, by least squares, after a warm-up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

HOUR_S = 3600.0


@dataclass(frozen=True)
class Sample:
    """What a process held at one moment.

    Attributes:
        at_s: since the start.
        rss: resident bytes.
        files: open descriptors.
    """

    at_s: float
    rss: int
    files: int


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Rise of y for one x. 0 for fewer than two different x."""
    if not points:
        return 0.0
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    if spread == 0:
        return 0.0
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread


def after_warm_up(samples: Sequence[Sample], warm_up_s: float) -> list[Sample]:
    """Samples that count."""
    return [one for one in samples if one.at_s >= warm_up_s]


def rss_per_hour(samples: Sequence[Sample]) -> float:
    """Rise of the resident memory, in bytes an hour."""
    return slope([(one.at_s, float(one.rss)) for one in samples]) * HOUR_S


def files_per_hour(samples: Sequence[Sample]) -> float:
    """Rise of the number of open descriptors in an hour."""
    return slope([(one.at_s, float(one.files)) for one in samples]) * HOUR_S
