# SPDX-License-Identifier: Apache-2.0
"""All bytes on the links of three served owners whose tables are shared as sums: words that are uniform whatever the
rows are, in frames of equal number and sizes, and nobody's part of a sum.
"""

import math

import numpy as np
import pytest
import torch
from parties_support import COLUMNS, network
from recorded_links_support import TERMS, TappedHospitals

import sojourn

ROWS = (20, 31, 27)
WIDE = 6_144  # elements of a sum, a third of which is whole blocks of 64 bytes
# Of chi-square with 255 degrees of freedom: an error once in 10^15 runs.
CHI_MOST = 255 + 8 * math.sqrt(2 * 255)


@pytest.fixture
def tapped(tmp_path, rng):
    made = []

    def make(**options):
        folder = tmp_path / str(len(made))
        folder.mkdir()
        made.append(TappedHospitals(folder, ROWS, rng, **{"share": "sums", **options}))
        return made[-1]

    yield make
    for each in made:
        each.close()


def chi_square(words: np.ndarray) -> float:
    """Of bytes, against uniform ones."""
    counts = np.bincount(words.view(np.uint8), minlength=256)
    return float(((counts - counts.mean()) ** 2 / counts.mean()).sum())


def expect_uniform(words: np.ndarray, what: str):
    assert chi_square(words) < CHI_MOST, f"{what}: {len(words)} words, chi-square {chi_square(words):.0f}"


def wide_sums(three, groups: int) -> np.ndarray:
    """Of each group, a sum over all rows whose parts are multiples of how many relapses a member has."""
    weights = torch.arange(1, WIDE + 1)
    for _ in range(groups):
        parties = sojourn.parties(*three.owners)
        relapse = parties.rows("patients")["relapse"]
        with sojourn.step():
            total = sojourn.publish(torch.outer(relapse, weights.to(parties.device)).sum(0))
        parties.close()
    return total.value.numpy().astype(np.uint64)


def parts_of(three) -> list[np.ndarray]:
    weights = np.arange(1, WIDE + 1, dtype=np.uint64)
    return [weights * np.uint64(table["relapse"].sum().item()) for table in three.data]


def test_chi_square_sees_words_that_are_not_uniform(rng):
    generator = np.random.default_rng(rng.randrange(1 << 31))
    words = generator.integers(0, 1 << 64, WIDE, dtype=np.uint64)
    expect_uniform(words, "uniform words")
    assert chi_square(words >> np.uint64(1)) > CHI_MOST, "a bit less of 64"
    small = generator.integers(0, 1_000, WIDE, dtype=np.uint64)
    assert chi_square(small) > CHI_MOST


def test_parts_are_seen_where_nothing_masks_them(tapped):
    three = tapped(share="clear")
    wide_sums(three, 1)
    parts = parts_of(three)
    for (sender, _), frames in three.frames().items():
        words = np.concatenate([each.words() for each in frames if each.kind == TERMS and each.exchange == 0])
        assert len(words) == WIDE // 3 and np.isin(words, parts[sender]).all()
        assert chi_square(words) > CHI_MOST


def test_terms_are_uniform_and_nobodys_part_is_seen(tapped):
    three = tapped()
    groups = 4
    total, parts = wide_sums(three, groups), parts_of(three)
    assert np.array_equal(total, sum(parts)), "the sums are right"
    terms = {way: [each for each in frames if each.kind == TERMS] for way, frames in three.frames().items()}
    assert sorted(terms) == [(a, b) for a in range(3) for b in range(3) if a != b]
    third = WIDE // 3
    for (sender, receiver), frames in terms.items():
        masked = [each.words() for each in frames if each.exchange == 0]
        totals = [each.words() for each in frames if each.exchange == 1]
        assert [len(words) for words in masked] == [third] * groups == [len(words) for words in totals]
        for words in totals:  # what all get
            assert np.array_equal(words, total[sender * third : (sender + 1) * third])
        here = slice(receiver * third, (receiver + 1) * third)
        for words in masked:
            assert not np.isin(words, np.concatenate(parts)).any()
            expect_uniform(words, f"from {sender} to {receiver}")
            expect_uniform(words - parts[sender][here], f"masks from {sender} to {receiver}")
        expect_uniform(masked[0] - masked[1], "the same part in two groups")
    for sender in range(3):  # no mask is used twice, wherever it goes
        masks = [
            each.words() - parts[sender][receiver * third : (receiver + 1) * third]
            for (way, receiver), frames in terms.items()
            for each in frames
            if way == sender and each.exchange == 0
        ]
        assert len(np.unique(np.concatenate(masks))) == 2 * third * groups
    for member in range(3):  # reads all its links, both ways
        for group in range(groups):
            came, left = (
                [
                    [each.words() for each in terms[way] if each.exchange == 0][group]
                    for way in terms
                    if way[end] == member
                ]
                for end in (1, 0)
            )
            expect_uniform(came[0] + came[1], "what the other two send, together")
            expect_uniform(came[0] - came[1], "the difference of what they send")
            expect_uniform(left[0] + came[0], "sent and received")
            expect_uniform(left[0] - left[1], "what a member sends to one and to the other")


def train(three, seed: int) -> dict:
    """Some steps of a model, and sums; the shapes of all frames, by sender and receiver."""
    parties = sojourn.parties(*three.owners)
    net = network(seed).to(parties.device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    table = parties.rows("patients")

    def step(x, y):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()

    for batch in table.batches(COLUMNS, label="relapse", size=60, epochs=3, seed=seed, drop_last=True):
        with sojourn.step():
            step(*batch)
    sojourn.loop(step, table.batches(COLUMNS, label="relapse", size=60, epochs=16, seed=seed, drop_last=True))
    sojourn.publish(net.state_dict())
    sojourn.publish(table["image"].long().sum(0))
    parties.close()
    found = three.frames_of_closed_group()
    assert any(each.ready for frames in found.values() for each in frames), "steps commit with the next one's terms"
    return {way: [shape for each in frames for shape in each.shapes] for way, frames in found.items()}


def test_traffic_has_one_shape_for_all_rows(tapped, rng):
    seed = rng.randrange(1000)
    plain, zeros, edges = tapped(), tapped(fill=0.0), tapped(fill=8.0)
    shapes = train(plain, seed)
    assert all(len(frames) > 10 for frames in shapes.values())
    assert train(zeros, seed) == shapes, "rows of zeros"
    assert train(edges, seed) == shapes, "rows at the bounds"
