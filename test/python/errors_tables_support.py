# SPDX-License-Identifier: Apache-2.0
"""Refusals of tables: registering, reading, batches, scaling."""

import numpy as np
import pyarrow
import torch
from errors_support import example

import sojourn
from sojourn import Error


@example(Error, "Unknown table", "no dataset 'huoses'", "did you mean 'houses'")
def _(owner, houses):
    owner.dataset("huoses")


@example(Error, "Unknown column", "table 'houses' has no column 'aeg'", "did you mean 'age'")
def _(houses):
    houses["aeg"]


@example(Error, "A column name of another type", "a column name must be a str, got int")
def _(houses):
    houses[3]


@example(Error, "Features of another type", "must be a column name or a list of names, got 3")
def _(houses):
    houses.batches(3, label="ill")


@example(Error, "No features", "features must name at least one column")
def _(houses):
    houses.batches([], label="ill")


@example(Error, "No columns to read", "features must name at least one column")
def _(houses):
    houses.rows([])


@example(
    Error, "A column of arrays in a list of columns", "entries of shape [2, 2]", 'read it alone, by its name: "image"'
)
def _():
    pictures = sojourn.plain({"image": np.zeros((4, 2, 2)), "digit": np.arange(4)})
    pictures.batches(["image"], label="digit")


@example(Error, "A batch of no tensors", "features must name at least one tensor", "got an empty dict")
def _(houses):
    houses.batches({}, label="ill")


@example(Error, "A tensor's name of another type", "features must map names to columns", "must be a str, got 1")
def _(houses):
    houses.batches({1: ["age"]}, label="ill")


@example(Error, "A tensor without columns", "features['row'] must name at least one column, got an empty list")
def _(houses):
    houses.batches({"row": []}, label="ill")


@example(Error, "A dict inside a dict of features", "features['row'] must be a column name or a list of names, got")
def _(houses):
    houses.batches({"row": {"first": "age"}}, label="ill")


@example(Error, "One dtype for several tensors", "dtype is torch.float64", "dict of 2 tensors", "x['row'].to(")
def _(houses):
    houses.batches({"row": ["age"], "dose": "dose"}, dtype=torch.float64)


@example(Error, "Batches without rows", "size must be an integer of at least 1, got 0")
def _(houses):
    houses.batches(["age"], size=0)


@example(Error, "A negative number of epochs", "epochs must be an integer of at least 0, got -1")
def _(houses):
    houses.batches(["age"], epochs=-1)


@example(
    Error, "A batch larger than the table, without short batches", "'houses' has 96 rows", "it has no batch of 100"
)
def _(houses):
    houses.batches(["age"], size=100, drop_last=True)


@example(Error, "Too many batches", "epochs have too many batches")
def _(houses):
    houses.batches(["age"], epochs=2**62)


@example(Error, "A number that is not an integer", "size must be an integer, got 2.5")
def _(houses):
    houses.batches(["age"], size=2.5)


@example(Error, "An integer beyond 64 bits", "seed must be a 64-bit integer, got 9223372036854775808")
def _(houses):
    houses.batches(["age"], seed=2**63)


@example(Error, "Invalid dtype", "dtype must be a torch.dtype or None, got")
def _(houses):
    houses.batches(["age"], dtype="float")


@example(Error, "Invalid fraction", "fraction must be a number between 0 and 1, got 'half'")
def _(houses):
    houses.split("half")


@example(Error, "A split with an empty side", "a split of 96 rows at 0.001 leaves one side empty")
def _(houses):
    houses.split(0.001)


@example(Error, "Too many rows to order", "rows must be a number in [0, 2^40], got 2199023255552")
def _():
    sojourn.batch_indices(rows=2**41, size=3, seed=0, epoch=0)


@example(Error, "Row numbers of an invalid split", "fraction must lie between 0 and 1, got 2.0")
def _():
    sojourn.split_indices(rows=8, fraction=2.0, seed=0)


@example(Error, "Scaling a non-tensor", "scaled takes a tensor of this table's columns, got list")
def _(houses):
    houses.scaled([1.0, 2.0])


@example(Error, "Scaling a batch of several tensors", "got dict; scale its tensors one by one")
def _(patients):
    patients.scaled(next(iter(patients.batches({"row": ["age", "dose"]}, size=8))))


@example(Error, "Scaling a computed tensor", "unknown columns of table 'patients'", "scaled(x, features)")
def _(patients):
    patients.scaled(patients["age"] * 2.0)


@example(Error, "Scaling a tensor of another width", "2 columns need a tensor of shape [..., 2], got (96,)")
def _(patients):
    patients.scaled(patients["age"], ["age", "dose"])


@example(Error, "Scaling without bounds", "declares no bounds for 'age'", "bounds={column: (lower, upper)}")
def _(houses):
    houses.scaled(houses["age"])


@example(Error, "Duplicate table name", "houses", "already")
def _(owner, houses):
    owner.register("houses", {"age": np.arange(4)}, policy="open")


@example(Error, "Unknown policy", "policy 'secret' is unknown; expected 'open' or 'private'")
def _(owner):
    owner.register("cars", {"age": np.arange(4)}, policy="secret")


@example(Error, "A private table without bounds", "1 of 1 have none: 'age'", "Declare them (bounds")
def _(owner):
    owner.register("people", {"age": np.arange(4)}, policy="private")


@example(Error, "A subject with two rows", "rows 0 and 2 (counting from 0)", "same subject in column 'who'")
def _(owner):
    columns = {"who": np.array([7, 8, 7]), "age": np.array([50, 60, 51])}
    owner.register("people", columns, bounds={"age": (0, 120)}, subject="who")


@example(Error, "Unknown subject column", "unknown column 'who' for the subject")
def _(owner):
    owner.register("people", {"age": np.arange(4)}, bounds={"age": (0, 120)}, subject="who")


@example(Error, "A subject of another type", "subject must be a str, got 7")
def _(owner):
    owner.register("people", {"age": np.arange(4)}, bounds={"age": (0, 120)}, subject=7)


@example(Error, "A missing entry", "column 'age', row 1", "NaN found, expected a finite number", "fill")
def _(owner):
    owner.register("cars", {"age": np.array([1.0, np.nan])}, policy="open")


@example(Error, "Columns of different lengths", "column 'b' has 3 rows, but column 'a' has 2")
def _(owner):
    owner.register("cars", {"a": np.zeros(2), "b": np.zeros(3)}, policy="open")


@example(Error, "A table without rows", "0 rows and 1 columns, expected at least one of each")
def _(owner):
    owner.register("cars", {"a": np.zeros(0)}, policy="open")


@example(Error, "A column of bytes", "column 'a' has type binary; a table holds bool", "besides text and dates")
def _(owner):
    owner.register("cars", {"a": [b"x", b"y"]}, policy="open")


@example(Error, "A column of mixed types", "column 'a' has type object; a table holds bool")
def _(owner):
    owner.register("cars", {"a": [1, "x"]}, policy="open")


@example(Error, "An Arrow column of an unsupported type", "column 'a' has type struct<", "besides text and dates")
def _(owner):
    owner.register("cars", pyarrow.table({"a": [{"x": 1}]}), policy="open")


@example(Error, "A source that is none", "source must be a path, a dict of arrays, a DataFrame", "got int")
def _(owner):
    owner.register("cars", 7, policy="open")


@example(Error, "Two columns of one name", "several columns named 'a'", "rename them")
def _(owner):
    owner.register("cars", pyarrow.table([[1], [2]], names=["a", "a"]), policy="open")


@example(
    Error, "Text in a private table without declared categories", "column 'arm' holds text or categories",
    "must be declared", "categories={'arm': [...]}",
)  # fmt: skip
def _(owner):
    owner.register("trial", {"arm": ["low", "high"]}, policy="private")


@example(Error, "A text outside of the declared categories", "row 1 (counting from 0): a value found outside of its 1")
def _(owner):
    owner.register("trial", {"arm": ["low", "high"]}, categories={"arm": ["low"]})


@example(Error, "Categories of a column that does not exist", "categories name column 'arms', which the source lacks")
def _(owner):
    owner.register("trial", {"arm": ["low", "high"]}, categories={"arms": ["low", "high"]})


@example(Error, "Categories without a column", "categories must map a column to its categories", "got ['low', 'high']")
def _(owner):
    owner.register("trial", {"arm": ["low", "high"]}, categories=["low", "high"])


@example(Error, "Categories of a column that are no list", "categories of column 'arm' must be a list", "got 'low'")
def _(owner):
    owner.register("trial", {"arm": ["low", "low"]}, categories={"arm": "low"})


@example(Error, "Categories of two types", "categories of column 'arm' must be all str or all int, got ['low', 1]")
def _(owner):
    owner.register("trial", {"arm": ["low", "low"]}, categories={"arm": ["low", 1]})


@example(Error, "A category given twice", "categories of column 'arm' must be different and at least one")
def _(owner):
    owner.register("trial", {"arm": ["low", "low"]}, categories={"arm": ["low", "low"]})


@example(Error, "Categories of another type than the column", "has type int64, its categories are str")
def _(owner):
    owner.register("trial", {"arm": [0, 1]}, categories={"arm": ["low", "high"]})


@example(
    Error,
    "Categories beyond 64 bits",
    "categories of column 'arm' must be texts that UTF-8",
    "or whole numbers of 64 bits, got 1180591620",
)
def _():
    sojourn.table_spec(8, {"arm": torch.int64}, categories={"arm": [2**70]})


@example(
    Error,
    "Categories of a file at the NumPy runtime",
    "the numpy runtime reads files of numbers",
    "read the file first",
)
def _():
    with sojourn.local(runtime="numpy") as owner:
        owner.register("trial", "trial.parquet", policy="open", categories={"arm": ["low", "high"]})


@example(
    Error, "Text in a file of a private table without declared categories", "column 'arm' holds text or categories",
    "must be declared", "--categories arm=A,B",
)  # fmt: skip
def _(owner, folder):
    (folder / "trial.csv").write_text("arm\nlow\nhigh\n")
    owner.register("trial", folder / "trial.csv")


@example(
    Error, "A text of a file outside of the declared categories", "row 1 (counting from 0): a value found outside of its 1",
    "--fill arm=CATEGORY",
)  # fmt: skip
def _(owner, folder):
    (folder / "trial.csv").write_text("arm\nlow\nhigh\n")
    owner.register("trial", folder / "trial.csv", categories={"arm": ["low"]})


@example(Error, "Too many categories", "has 65537 categories, the limit is 65536", "group the rare ones")
def _(owner):
    owner.register("trial", {"arm": list(map(str, range(65_537)))}, policy="open")


@example(Error, "A fill of a file's column in words", "fill 'unknown' of column 'age' must be a number")
def _(owner, folder):
    (folder / "trial.csv").write_text("age\n3\n4\n")
    owner.register("trial", folder / "trial.csv", policy="open", fills={"age": "unknown"})


@example(
    Error, "A fill that is no category", "fill 'none' of column 'arm' is none of its 2 categories; name one of them"
)
def _(owner):
    owner.register("trial", {"arm": ["low", None]}, fills={"arm": "none"}, categories={"arm": ["low", "high"]})


@example(
    Error, "Bounds that would clamp codes", "column 'arm' has 3 categories and other bounds than those of their codes, 0 to 2",
    "leave its bounds out",
)  # fmt: skip
def _(owner):
    owner.register("trial", {"arm": ["low", "high", "other"]}, policy="open", bounds={"arm": (0, 1)})


@example(
    Error, "A fill of a file that is no category", "fill 'none' of column 'arm' is none of its 2", "declare one of them"
)
def _(owner, folder):
    (folder / "trial.csv").write_text("arm\nlow\nhigh\n")
    owner.register("trial", folder / "trial.csv", policy="open", fills={"arm": "none"})


@example(
    Error, "A fill of a file that is no code", "column 'arm' has a fill of 2, expected one of its categories or a code"
)
def _(owner, folder):
    (folder / "trial.csv").write_text("arm\nlow\nhigh\n")
    owner.register("trial", folder / "trial.csv", policy="open", fills={"arm": 2})


@example(Error, "An integer column with a missing entry", "row 1 (counting from 0): no value found; clean the data")
def _(owner):
    owner.register("cars", {"doors": [4, None]}, policy="open")


@example(
    Error, "A moment beyond those of Python", "must be moments that Python's datetime holds, years 1 to 9999, got np"
)
def _(owner):
    visits = {"visit": np.array(["2024-03-01", "NaT"], "datetime64[D]")}
    owner.register("visits", visits, policy="open", fills={"visit": np.datetime64("10000-01-01")})


@example(Error, "A fraction as the fill of integers", "fill 0.5 of column 'doors' must be a number of its type, int64")
def _(owner):
    owner.register("cars", {"doors": [4, None]}, policy="open", fills={"doors": 0.5})


@example(Error, "Subjects of text in memory", "text for subjects, which only a file may have", "register the path")
def _(owner):
    owner.register("trial", {"who": ["ada"], "age": [36.0]}, bounds={"age": (0, 100)}, subject="who")


@example(Error, "A tensor of an unsupported dtype", "column 'a' has type bfloat16; a table holds bool")
def _(owner):
    owner.register("cars", {"a": torch.zeros(2, dtype=torch.bfloat16)}, policy="open")


@example(Error, "A column of a single number", "column 'a' must be a CPU tensor whose first dimension counts rows")
def _(owner):
    owner.register("cars", {"a": torch.tensor(1.0)}, policy="open")


@example(Error, "A column with rows of different shapes", "the rows of column 'a' differ in shape")
def _(owner):
    owner.register("cars", {"a": [[1.0, 2.0], [3.0]]}, policy="open")


@example(Error, "Missing file", "no such file")
def _(owner, folder):
    owner.register("cars", folder / "cars.csv", policy="open")


@example(Error, "A row of a file with too few entries", "row 1 (counting from 0) has 1 columns", "the first line has 2")
def _(owner, folder):
    (folder / "cars.csv").write_text("age,price\n3,100\n4\n")
    owner.register("cars", folder / "cars.csv", policy="open")


@example(Error, "A damaged file", "it is damaged, cut off, or no Parquet file; write it again")
def _(owner, folder):
    (folder / "cars.parquet").write_text("age,price\n3,100\n")
    owner.register("cars", folder / "cars.parquet", policy="open")


@example(Error, "A folder in place of a file", "it is a folder, expected a file")
def _(owner, folder):
    (folder / "cars.npz").mkdir()
    owner.register("cars", folder / "cars.npz", policy="open")


@example(Error, "A string in a column of numbers of a file", "column 'age' has type string", "encode it as numbers")
def _(owner, folder):
    (folder / "cars.csv").write_text("age,price\n3,100\nold,200\n")
    owner.register("cars", folder / "cars.csv", policy="open")


@example(Error, "Bounds of an unknown column", "aeg")
def _(owner):
    owner.register("cars", {"age": np.arange(4)}, policy="open", bounds={"aeg": (0, 10)})


@example(Error, "Reversed bounds", "age", "10", "0")
def _(owner):
    owner.register("cars", {"age": np.arange(4)}, policy="open", bounds={"age": (10, 0)})


@example(Error, "Row numbers of batches without rows", "size must be an integer of at least 1, got 0")
def _():
    sojourn.batch_indices(rows=8, size=0, seed=0, epoch=0)
