# SPDX-License-Identifier: Apache-2.0
"""A client that guesses the label of a private row from the time of replies (tools/channel_attack.py).

It learns a threshold on one half of its replies and guesses on the other, both ways round. With replies that leave at
once it is nearly always right, so the test can fail; with those of the default owner it is right no more often than a coin,
as far as the number of its trials can show: SOJOURN_TIME_TRIALS, of which `tools/bench --channels` takes 100,000.
"""

import os
import pathlib
import sys

import numpy as np
import pytest
import scipy.stats

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tools"))
from bench_channels import SUCCESS, TRIALS, allowed
from channel_attack import Replies, attack, make_store
from channel_statistics import Guess, capacity, guess, interval, largest_t, train

COUNT = int(os.environ.get("SOJOURN_TIME_TRIALS", "4000"))
WORLDS = ("zero", "one")
# Beside other work of the machine neither the defence nor its control can be told from that work.
quiet_machine = pytest.mark.skipif(
    "SOJOURN_TIME_TRIALS" not in os.environ,
    reason="needs a quiet machine: set SOJOURN_TIME_TRIALS, for example to 4000",
)


@pytest.fixture
def store(tmp_path, seed):
    make_store(tmp_path, seed)
    return tmp_path


def guessed(replies: Replies, asked: int) -> Guess:
    found = guess(replies.seconds, replies.labels("one"), replies.failed, asked)
    medians = [1e6 * float(np.median(replies.of(world).seconds)) for world in WORLDS]
    measured, most = found.bits_per_second
    print(
        f"right in {found.success:.2%} of {found.trials}, {found.least:.2%} to {found.most:.2%}; medians {medians} us; "
        f"{measured:.2g} bits per second, at most {most:.2g}; {int(replies.failed.sum())} errors in {len(replies.seconds)} replies"
    )
    return found


@quiet_machine
@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("publishes", [False, True], ids=["publishes nothing", "publishes with noise"])
def test_the_time_of_a_reply_tells_no_label(store, seed, publishes):
    count = COUNT // 20 if publishes else COUNT  # each such step takes longer, so that the disk does not hide it
    replies = attack(store, None, publishes, count // 2, WORLDS, seed)
    found = guessed(replies, count)  # a table that is closed to the client leaves it coins to throw
    most = allowed(found.trials, found.most - found.least)
    assert found.most <= most, f"shown by {found.trials} trials, of {TRIALS} that show all"


@quiet_machine
@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize("publishes", [False, True], ids=["publishes nothing", "publishes with noise"])
def test_replies_that_leave_at_once_tell_it(store, seed, publishes):
    count = 150 if publishes else 300
    replies = attack(store, 0, publishes, count, WORLDS, seed)
    assert guessed(replies, 2 * count).success > SUCCESS


def test_the_statistics_on_draws(generator):
    """Equal draws count as equal, others do not; the bounds are those of the binomial distribution."""
    labels = generator.integers(0, 2, 4000)
    same, slower = generator.exponential(1, 4000), generator.exponential(1, 4000) + 0.3 * labels
    assert abs(largest_t(same[labels == 0], same[labels == 1])[0]) < 6
    assert abs(largest_t(slower[labels == 0], slower[labels == 1])[0]) > 8
    assert guess(same, labels).most < 0.5 + 0.06
    assert guess(slower, labels).least > 0.55
    assert guess(same, labels, labels == 1).success > 0.99, "an error is seen"
    assert guess(slower, labels, asked=400_000).most < 0.51, "coins are thrown"
    swapped = train(np.array([1.0, 2.0, 3.0, 4.0]), np.array([1, 1, 0, 0]))
    assert swapped.predict(np.array([0.0, 2.4, 2.6])).tolist() == [1, 1, 0]
    least, most = interval(50, 100)
    assert scipy.stats.binom.sf(49, 100, least) == pytest.approx(0.001)
    assert scipy.stats.binom.cdf(50, 100, most) == pytest.approx(0.001)
    assert interval(0, 10)[0] == 0 and interval(10, 10)[1] == 1
    assert capacity(0.5) == 0 and capacity(1) == 1 and capacity(0.89) == pytest.approx(0.5, abs=1e-3)
