# SPDX-License-Identifier: Apache-2.0
"""Tables with columns of arrays: what comes in, at rest, row by row, and a network trained on it.

Values are compared with NumPy's, for each way in and each kind of table: in this process, at the
embedded owner and at the NumPy owner.
"""

import sqlite3
import subprocess

import numpy as np
import pyarrow
import pytest
import torch
from owner_process import ROOT
from pyarrow import feather, parquet
from torch import nn

import sojourn

KINDS = ["plain", "native", "numpy"]


# Columns of the catalogue that came with private tables.
LATER = ("subject", "population", "noise_multiplier", "clip", "metric_bound", "subjects_file")


@pytest.fixture
def register():
    """register(kind, source, **options): a table of that kind; its owner is closed when the test ends."""
    owners = {}

    def make(kind, source, **options):
        if kind == "plain":
            return sojourn.plain(source, name="t", **options)
        if kind not in owners:
            owners[kind] = sojourn.local(runtime=kind)
        return owners[kind].register(f"t{len(owners[kind].datasets())}", source, policy="open", **options)

    yield make
    for owner in owners.values():
        owner.close()


def values(tensor) -> np.ndarray:
    return sojourn.publish(tensor).numpy()


def same(got: np.ndarray, expected: np.ndarray):
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got, expected)


@pytest.fixture
def numbers(seed):
    return np.random.default_rng(seed)


def nested(x: np.ndarray) -> pyarrow.Array:
    array = pyarrow.array(x.reshape(-1))
    for size in x.shape[:0:-1]:
        array = pyarrow.FixedSizeListArray.from_arrays(array, size)
    return array


def files(folder, image, word, digit) -> list:
    """The same table as NPZ in both orders and as Arrow, Feather and Parquet, in one piece and in two."""
    np.savez(folder / "c.npz", image=image, word=word, digit=digit)
    np.savez_compressed(folder / "f.npz", image=np.asfortranarray(image), word=word, digit=digit)
    table = pyarrow.table({"image": nested(image), "word": nested(word), "digit": digit})
    two = pyarrow.concat_tables([table[:4], table[4:]])
    paths = [folder / "c.npz", folder / "f.npz"]
    for suffix, write in (("arrow", feather.write_feather), ("parquet", parquet.write_table)):
        for name, part in (("one", table), ("two", two)):
            paths.append(folder / f"{name}.{suffix}")
            write(part, str(paths[-1]))
    return paths


@pytest.mark.parametrize("kind", KINDS)
def test_every_way_in(kind, register, numbers, tmp_path):
    image = numbers.integers(0, 256, (9, 4, 3), np.uint8)
    word, digit = numbers.integers(-(2**62), 2**62, (9, 5)), numbers.integers(0, 10, 9)
    arrays = {"image": image, "word": word, "digit": digit}
    tensors = {"image": torch.from_numpy(image), "word": torch.from_numpy(word), "digit": torch.from_numpy(digit)}
    turned = {"image": np.asfortranarray(image), "word": word.tolist(), "digit": digit}
    for source in (arrays, tensors, turned, *files(tmp_path, image, word, digit)):
        table = register(kind, source)
        assert [column.shape for column in table.columns] == [(4, 3), (5,), ()], source
        assert [column.dtype for column in table.columns] == [torch.uint8, torch.int64, torch.int64]
        same(values(table["image"]), image)
        same(values(table["word"]), word)
        same(values(table.rows(features="image")), image)
        same(values(table.rows(features="image", dtype=torch.float32)), image.astype(np.float32))
        same(values(table.rows(features="digit")), digit)


@pytest.mark.parametrize("kind", KINDS)
def test_batches_follow_the_order(kind, register, numbers):
    image, digit = numbers.integers(0, 256, (11, 3, 2), np.uint8), numbers.integers(0, 10, 11)
    table = register(kind, {"image": image, "digit": digit})
    order = sojourn.batch_indices(11, 4, 7, 0)
    for rows, (x, y) in zip(order, table.batches(features="image", label="digit", size=4, seed=7), strict=True):
        same(values(x), image[rows.numpy()])
        same(values(y), digit[rows.numpy()])


@pytest.mark.parametrize("kind", KINDS)
def test_bounds_and_fills_are_per_element(kind, register, numbers):
    x = numbers.normal(0, 3, (6, 2, 2))
    broken = x.copy()
    broken[1, 0, 1], broken[4, 1, 1] = np.nan, -np.inf
    with pytest.raises(sojourn.Error, match="column 'x'.* row 1"):
        register(kind, {"x": broken})
    table = register(kind, {"x": broken}, bounds={"x": (-1, 2)}, fills={"x": 0.25})
    expected = np.where(np.isfinite(broken), broken, 0.25).clip(-1, 2)
    same(values(table["x"]), expected)
    assert table.columns[0].bounds == (-1, 2)


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_without_rows_is_refused(kind, register):
    with pytest.raises(sojourn.Error, match="has no rows|has 0 rows and 1 columns, expected at least one of each"):
        register(kind, {"x": np.zeros((0, 3))})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "x, text",
    [
        ([[1, 2], [3]], "differ in shape"),
        (np.zeros((3, 0)), "size 0|which are empty"),
        (np.zeros((2,) + (1,) * 9), "9 dimensions"),
        (np.zeros(()), "counts rows|single number"),
        (np.zeros((1, (1 << 24) + 1), np.uint8), "16777216 elements"),
        (np.zeros((3, 2), np.complex64), "complex64"),
    ],
)
def test_wrong_shapes_name_the_column(kind, register, x, text):
    with pytest.raises(sojourn.Error, match=text) as caught:
        register(kind, {"x": x})
    assert "'x'" in str(caught.value), caught.value


@pytest.mark.parametrize("kind", KINDS)
def test_other_lists_are_refused(kind, register, tmp_path):
    parquet.write_table(pyarrow.table({"x": [[1, 2], [3]]}), str(tmp_path / "t.parquet"))
    with pytest.raises(sojourn.Error, match="column 'x'.*list<.*fixed-size list"):
        register(kind, tmp_path / "t.parquet")
    tensors = pyarrow.FixedShapeTensorArray.from_numpy_ndarray(np.zeros((2, 3, 2)))
    feather.write_feather(pyarrow.table({"x": tensors}), str(tmp_path / "t.arrow"))
    with pytest.raises(sojourn.Error, match="column 'x'.*extension.*nested fixed-size lists"):
        register(kind, tmp_path / "t.arrow")


@pytest.mark.parametrize("kind", KINDS)
def test_random_tables(kind, register, numbers, tmp_path):
    """Small tables of any types and shapes; what is read is what NumPy reads."""
    for round_ in range(12):
        rows, source = int(numbers.integers(1, 7)), {}
        for k in range(int(numbers.integers(1, 4))):
            shape = (rows, *(int(n) for n in numbers.integers(1, 4, int(numbers.integers(0, 4)))))
            code = str(numbers.choice(["?", "u1", "i1", "i2", "i4", "i8", "f4", "f8"]))
            source[f"c{k}"] = (numbers.normal(size=shape) * 40).astype(code)
        path = tmp_path / f"{round_}.arrow"
        feather.write_feather(pyarrow.table({name: nested(x) for name, x in source.items()}), str(path))
        table = register(kind, source if round_ % 2 else path)
        for column in table.columns:
            x = source[column.name]
            assert column.shape == x.shape[1:]
            same(values(table[column.name]), x)
            whole = values(table.rows(features=column.name, dtype=torch.float32))
            same(whole, x.astype(np.float32))


def test_a_store_keeps_shapes(numbers, tmp_path):
    """Restarted from disk; the tool lists the shapes, and a catalogue of the time before them still opens."""
    image, digit = numbers.integers(0, 256, (5, 2, 3), np.uint8), numbers.integers(0, 10, 5)
    store = tmp_path / "store"
    with sojourn.local(store=str(store)) as owner:
        owner.register("pictures", {"image": image, "digit": digit}, policy="open")
        owner.register("numbers", {"digit": digit}, policy="open")
    with sojourn.local(store=str(store)) as owner:
        table = owner.dataset("pictures")
        assert [column.shape for column in table.columns] == [(2, 3), ()]
        same(values(table["image"]), image)

    def listing():
        command = [ROOT / "build/bin/sojourn-owner", "datasets", "--store", store]
        return subprocess.run(command, capture_output=True, text=True)

    assert "2x3xu8" in listing().stdout
    with sqlite3.connect(store / "catalogue.db") as books:
        books.executescript(
            "DELETE FROM datasets WHERE name = 'pictures'; DELETE FROM columns WHERE dataset = 'pictures';"
            "ALTER TABLE columns DROP COLUMN dims; DROP TABLE reports; PRAGMA user_version = 1;"
            + "".join(f"ALTER TABLE datasets DROP COLUMN {name};" for name in LATER)
        )
    books.close()
    with sojourn.local(store=str(store)) as owner:
        same(values(owner.dataset("numbers")["digit"]), digit)
        owner.register("more", {"image": image}, policy="open")
    assert "2x3xu8" in listing().stdout
    books = sqlite3.connect(store / "catalogue.db")
    books.executescript("UPDATE columns SET dims = '2,x' WHERE dims <> ''")
    books.close()
    assert "'2,x' is not a valid column shape" in listing().stderr
    books = sqlite3.connect(store / "catalogue.db")
    books.executescript("PRAGMA user_version = 5;")
    books.close()
    assert "catalogue version 5" in listing().stderr


class Digits(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(1, 4, 3, padding=1)
        self.head = nn.Linear(4 * 4 * 4, 10)

    def forward(self, image):
        x = image.float().div(255).unsqueeze(1)
        x = nn.functional.max_pool2d(nn.functional.relu(self.convolution(x)), 2)
        return self.head(x.flatten(1))


def train(table, device, seed) -> list[float]:
    torch.manual_seed(seed)
    model = Digits()
    if device is not None:
        model = model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    losses = []
    for image, digit in table.batches(features="image", label="digit", size=16, epochs=3, seed=seed):
        assert image.dtype == torch.uint8 and image.shape[1:] == (8, 8)
        assert digit.dtype == torch.int64
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(image), digit)
        loss.backward()
        optimizer.step()
        losses.append(float(sojourn.publish(loss.detach())))
    return losses


def test_a_network_trains_on_images(numbers, seed):
    """Equal losses in this process and at both owners, over shuffled epochs with a short last batch."""
    digit = numbers.integers(0, 10, 41)
    image = (numbers.integers(0, 80, (41, 8, 8)) + 17 * digit[:, None, None]).astype(np.uint8)
    source = {"image": image, "digit": digit}
    expected = train(sojourn.plain(source), None, seed)
    assert len(expected) == 9
    for runtime in ("native", "numpy"):
        with sojourn.local(runtime=runtime) as owner:
            losses = train(owner.register("digits", source, policy="open"), owner.device, seed)
        np.testing.assert_allclose(losses, expected, rtol=2e-5, err_msg=runtime)
