"""The paper's ablations (figure 5 and supplement, figure 3): UCL without one of its ingredients."""

from __future__ import annotations

from typing import Any

ABLATIONS: dict[str, dict[str, Any]] = {
    "UCL": {},
    "UCL w/o upper freeze": {"ucl.upper_freeze": False},
    "UCL w/o eq. (5)": {"ucl.freeze": False},
    "UCL w/o eq. (6)": {"ucl.inflate": False},
}
"""By the name that the paper gives it: what is set."""
