# SPDX-License-Identifier: Apache-2.0
"""Registration of columns whose rows are arrays: dicts, NPZ, Arrow's fixed-size lists, Parquet."""

import numpy as np
import pyarrow
import pytest
from pyarrow import feather, parquet

from sojourn_numpy import NumpyOwner, OwnerError, errors
from sojourn_numpy.datasets import make_dataset
from sojourn_numpy.types import ELEMENT_OF


def listed(values: np.ndarray, mask=None, list_mask=None) -> pyarrow.Array:
    """Nested fixed-size lists of an array's rows; `mask` marks missing elements, `list_mask` missing rows."""
    array = pyarrow.array(values.reshape(-1), mask=None if mask is None else mask.reshape(-1))
    for size in values.shape[:0:-1]:
        array = pyarrow.FixedSizeListArray.from_arrays(array, size)
    if list_mask is not None:
        type_ = array.type
        rows = [None if gone else row for row, gone in zip(array.to_pylist(), list_mask)]
        array = pyarrow.array(rows, type_)
    return array


def images(rng, rows=7, shape=(3, 2), dtype=np.uint8):
    return rng.integers(0, 256, (rows, *shape)).astype(dtype)


def save(path, table):
    (parquet.write_table if path.suffix == ".parquet" else feather.write_feather)(table, str(path))
    return str(path)


def test_images_from_every_source(rng, tmp_path):
    """Nested lists, flat ones, several chunks, slices, NPZ in both orders: one table."""
    x, digit = images(rng), rng.integers(0, 10, 7)
    flat = images(rng, shape=(6,), dtype=np.int64)
    source = {"image": x, "word": flat, "digit": digit}
    np.savez(tmp_path / "c.npz", **source)
    np.savez_compressed(tmp_path / "f.npz", **{**source, "image": np.asfortranarray(x)})
    padded = pyarrow.table({"image": listed(np.concatenate([x[:2], x])), "word": listed(np.concatenate([flat[:2], flat])),
                            "digit": np.concatenate([digit[:2], digit])})  # fmt: skip
    whole = pyarrow.table({"image": listed(x), "word": listed(flat), "digit": digit})
    paths = [tmp_path / "c.npz", tmp_path / "f.npz"]
    for suffix in ("arrow", "parquet", "feather"):
        paths.append(save(tmp_path / f"a.{suffix}", whole))
        paths.append(save(tmp_path / f"b.{suffix}", pyarrow.concat_tables([whole[:3], padded[5:]])))
    for given in (source, *paths):
        made = make_dataset("d", given)
        assert made.rows == 7, given
        for name, values in source.items():
            column = made.by_name[name]
            assert (column.element, column.dims) == (ELEMENT_OF[values.dtype], values.shape[1:]), given
            np.testing.assert_array_equal(column.values, values)


def test_bounds_and_fills_are_per_element(rng):
    x = rng.normal(0, 3, (5, 2, 2))
    kept = make_dataset("d", {"x": x}, bounds={"x": (-1, 2)}).by_name["x"].values
    np.testing.assert_array_equal(kept, np.clip(x, -1, 2))
    x[3, 1, 0], x[1, 0, 1] = np.nan, np.inf
    kept = make_dataset("d", {"x": x}, fills={"x": 7}).by_name["x"].values
    np.testing.assert_array_equal(kept, np.where(np.isfinite(x), x, 7))
    with pytest.raises(OwnerError, match=r"column 'x': row 1, element \[0, 1\] is inf"):
        make_dataset("d", {"x": x})
    image = images(rng)
    kept = make_dataset("d", {"x": image}, bounds={"x": (10.5, 99)}).by_name["x"].values
    np.testing.assert_array_equal(kept, image.clip(11, 99))


def test_gaps_in_lists(rng, tmp_path):
    """A missing list misses all of its elements; fills stand in for each."""
    x = images(rng, 6, (2, 2), np.int32)
    mask, gone = rng.random((6, 2, 2)) < 0.3, np.array([False, True, False, False, True, False])
    mask[0, 0, 0] = True
    path = save(tmp_path / "t.arrow", pyarrow.table({"x": listed(x, mask, gone)}))
    with pytest.raises(OwnerError, match="column 'x': has [0-9]+ missing values"):
        make_dataset("d", path)
    expected = np.where(mask | gone[:, None, None], -5, x)
    np.testing.assert_array_equal(make_dataset("d", path, fills={"x": -5}).by_name["x"].values, expected)


@pytest.mark.parametrize(
    "values, text, code",
    [
        ([[1, 2], [3]], "rows differ in shape", errors.DATASET),
        (np.zeros((3, 0)), "which are empty", errors.DATASET),
        (np.zeros((3, 2, 0, 1)), "which are empty", errors.DATASET),
        (np.zeros((2,) + (1,) * 9), "9 dimensions, at most 8", errors.LIMIT),
        (np.broadcast_to(np.uint8(0), (1, (1 << 24) + 1)), "at most 16777216 elements", errors.LIMIT),
        (np.zeros((0, 3)), "no rows", errors.DATASET),
        (np.float64(3), "single number", errors.DATASET),
        (np.array([["a", "b"]]), "expected numbers", errors.DATASET),
        (pyarrow.array([[1, 2], [3]]), "lists that may differ in length", errors.DATASET),
        (pyarrow.array([[], []], pyarrow.list_(pyarrow.int64(), 0)), "without elements", errors.DATASET),
        (
            pyarrow.FixedShapeTensorArray.from_numpy_ndarray(np.zeros((2, 3))),
            "an unsupported extension type",
            errors.DATASET,
        ),
        (pyarrow.array([["a"]], pyarrow.list_(pyarrow.string(), 1)), "expected numbers", errors.DATASET),
    ],
)
def test_wrong_shapes_name_the_column(values, text, code):
    with pytest.raises(OwnerError, match="column 'x'|no rows") as caught:
        NumpyOwner().register("d", {"x": values})
    assert text in caught.value.message and caught.value.code == code


def test_columns_differ_in_rows(rng):
    with pytest.raises(OwnerError, match="differ in length"):
        make_dataset("d", {"x": images(rng, 4), "y": np.zeros(3)})


def test_shapes_are_part_of_the_version(rng):
    x = images(rng, 4, (2, 3))
    versions = {make_dataset("d", {"x": x.reshape(shape)}).version for shape in ((4, 6), (4, 2, 3), (4, 3, 2), (24,))}
    assert len(versions) == 4


def test_random_tables(rng, tmp_path):
    """Any small table through Arrow and NPZ is the table as it was."""
    for round_ in range(25):
        rows, source = int(rng.integers(1, 9)), {}
        for k in range(int(rng.integers(1, 4))):
            shape = (rows, *(int(n) for n in rng.integers(1, 4, int(rng.integers(0, 4)))))
            code = str(rng.choice(["?", "u1", "i1", "i2", "i4", "i8", "f4", "f8"]))
            source[f"c{k}"] = (rng.normal(size=shape) * 40).astype(code)
        np.savez(tmp_path / f"{round_}.npz", **source)
        path = save(tmp_path / f"{round_}.arrow", pyarrow.table({name: listed(x) for name, x in source.items()}))
        for given in (source, tmp_path / f"{round_}.npz", path):
            made = make_dataset("d", given)
            for name, values in source.items():
                assert made.by_name[name].values.dtype == values.dtype
                np.testing.assert_array_equal(made.by_name[name].values, values)
