# SPDX-License-Identifier: Apache-2.0
"""What a private table costs where a script says nothing: told once, by its first step."""

from __future__ import annotations

import logging

import _sojourn

from .errors import Error

_log = logging.getLogger("sojourn")


def tell() -> None:
    """After steps: logs what the first one that spent by a table's defaults cost, one line per table of a connection.

    On Python's logger "sojourn", as a warning: budgets are spent here that nobody asked to spend.
    """
    try:
        prices = _sojourn.take_default_steps()
    except Error:
        return  # an owner that is gone by now says so at the next step
    for dataset, noise, clip, rate, epsilon, delta, granted, steps in prices:
        _log.warning(
            "training on private table '%s' spends by the owner's defaults: noise multiplier %g, clip %g, sampling rate "
            "%.4g; a step costs epsilon %.4g at delta %g, and the grant of epsilon %.4g alone pays for %d of them; "
            "sojourn.privacy(table, epsilon=...) plans a whole run",
            dataset,
            noise,
            clip,
            rate,
            epsilon,
            delta,
            granted,
            steps,
        )
