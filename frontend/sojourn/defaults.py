# SPDX-License-Identifier: Apache-2.0
"""Reports the cost of a private table's defaults once, after the first step that uses them."""

from __future__ import annotations

import logging

import _sojourn

from .errors import Error

_log = logging.getLogger("sojourn")


def tell() -> None:
    """Logs the cost of the first step that used a table's defaults, one line per table of a connection.

    The line is a warning of Python's logger "sojourn", because the script spends a budget without asking for it.
    """
    try:
        prices = _sojourn.take_default_steps()
    except Error:
        return  # an owner that is gone by now says so at the next step
    for dataset, noise, clip, rate, epsilon, delta, granted, steps in prices:
        _log.warning(
            "training on private table '%s' uses the owner's defaults: noise multiplier %g, clip %g, sampling rate "
            "%.4g; a step costs epsilon %.4g at delta %g, and the whole grant of epsilon %.4g pays for %d such steps; "
            "plan a run with sojourn.privacy(table, epsilon=...)",
            dataset,
            noise,
            clip,
            rate,
            epsilon,
            delta,
            granted,
            steps,
        )
