# SPDX-License-Identifier: Apache-2.0
"""The protocol: sessions, handles, steps, plans, datasets. Each refusal by code and by what it says."""

import re
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from numpy_builder import Client, ProgramBuilder, published, request, t
from numpy_steps import X, add_program, failed, rows_program

from sojourn_numpy import NumpyOwner, OwnerError, errors, limits, wire
from sojourn_numpy.datasets import make_dataset
from sojourn_numpy.types import F64, I64
from sojourn_wire import format as wire_format


def bump_program() -> bytes:
    """state += slot * 2^0; publishes the old value."""
    p = ProgramBuilder()
    s = p.arg("state", t("f32", 3))
    k = p.arg("slot", t("f64"))
    c = p.op("convert", [k], t("f32"))
    y = p.op("add", [s, c], t("f32", 3))
    p.result("publish", s)
    p.result("commit", y, 0)
    return p.encode()


def slot(value: float) -> int:
    return int(np.array(value, np.float64).view(np.uint64))


@pytest.fixture
def client():
    return Client(NumpyOwner())


def test_step_publishes_and_keeps(client):
    reply = client.step(add_program(), uploads=[X, X], results=[7])
    np.testing.assert_array_equal(published(reply)[0], 2 * X)
    program = bump_program()
    for expected in (2 * X, 2 * X + 1.5, 2 * X + 3):
        reply = client.step(program, states=[7], slots=[slot(1.5)])
        np.testing.assert_array_equal(published(reply)[0], expected)
    assert client.owner.requests == 5 and client.owner.steps == 4


def test_program_is_asked_for_once(client):
    program = add_program()
    assert client.step(program, send_program=False, uploads=[X, X], results=[1]).kind == "NeedProgram"
    assert client.step(program, uploads=[X, X], results=[1]).kind == "Done"
    other = Client(client.owner)
    assert other.step(program, send_program=False, uploads=[X, X], results=[1]).kind == "Done"


def test_hash_must_match(client):
    reply = client.step(add_program(), program_hash=bytes(32), uploads=[X, X], results=[1])
    failed(reply, errors.MALFORMED, "hash")
    failed(client.step(add_program(), program_hash=bytes(31)), errors.MALFORMED, "31 bytes")


@pytest.mark.parametrize("field", ["protocol_version", "format_version", "dialect_version"])
def test_versions(client, field):
    versions = {
        "protocol_version": wire_format.PROTOCOL_VERSION,
        "format_version": wire_format.FORMAT_VERSION,
        "dialect_version": wire_format.DIALECT_VERSION,
        field: 9,
    }
    failed(client.send("Hello", **versions), errors.VERSION, "version 9")


def test_sessions_are_apart(client):
    client.step(add_program(), uploads=[X, X], results=[7])
    other = Client(client.owner)
    failed(other.step(bump_program(), states=[7], slots=[0]), errors.HANDLE, "unknown handle 7")
    failed(other.step(bump_program(), session=12345, states=[7], slots=[0]), errors.SESSION, "session")
    failed(client.send("Release", session=other.session, handles=[7]), errors.HANDLE, "unknown handle 7")
    assert client.send("Bye", session=client.session).kind == "Done"
    failed(client.step(bump_program(), states=[7], slots=[0]), errors.SESSION, "session")


def test_session_lease_ends():
    now = [0.0]
    client = Client(NumpyOwner(clock=lambda: now[0]))
    now[0] = limits.SESSION_LEASE_SECONDS + 1
    failed(client.send("Release", session=client.session), errors.SESSION, "session")


def test_release(client):
    client.step(add_program(), uploads=[X, X], results=[7])
    assert client.send("Release", session=client.session, handles=[7]).kind == "Done"
    failed(client.step(bump_program(), states=[7], slots=[0]), errors.HANDLE, "unknown handle 7")
    client.step(add_program(), uploads=[X, X], results=[8])
    assert client.step(bump_program(), states=[8], slots=[0], releases=[8]).kind == "Done"
    failed(client.send("Release", session=client.session, handles=[8]), errors.HANDLE, "unknown handle 8")


def test_new_handles_are_new(client):
    program = add_program()
    client.step(program, uploads=[X, X], results=[7])
    failed(client.step(program, uploads=[X, X], results=[7]), errors.MALFORMED, "in use")
    failed(client.step(program, uploads=[X, X], results=[]), errors.MALFORMED, "0 new handles")
    failed(client.step(program, uploads=[X, X], results=[1, 2]), errors.MALFORMED, "2 new handles")


def test_bindings_are_checked(client):
    program = add_program()
    failed(client.step(program, uploads=[X], results=[1]), errors.MALFORMED, "1 upload")
    failed(client.step(program, uploads=[X, X[:2]], results=[1]), errors.MALFORMED, "shape (2,)")
    failed(client.step(program, uploads=[X, X.astype(np.float64)], results=[1]), errors.MALFORMED, "element")
    failed(client.step(program, uploads=[X, (8, (3,), b"short")], results=[1]), errors.MALFORMED, "5 bytes")
    failed(client.step(program, uploads=[X, X], slots=[1], results=[1]), errors.MALFORMED, "1 slot")
    failed(client.step(program, uploads=[X, X], results=[1], releases=[5]), errors.HANDLE, "unknown handle 5")
    client.step(add_program((2,)), uploads=[X[:2], X[:2]], results=[1])
    failed(client.step(bump_program(), states=[1], slots=[0]), errors.MALFORMED, "holds float32[2]")


def test_a_failed_step_changes_nothing(client):
    client.step(add_program(), uploads=[X, X], results=[7])
    failed(client.step(bump_program(), states=[7], slots=[slot(1)], releases=[99]), errors.HANDLE, "99")
    np.testing.assert_array_equal(published(client.step(bump_program(), states=[7], slots=[slot(1)]))[0], 2 * X)


def test_a_handle_gets_one_new_value(client):
    client.step(add_program(), uploads=[X, X], results=[7])
    p = ProgramBuilder()
    a, b = (p.arg("state", t("f32", 3)) for _ in range(2))
    p.result("commit", p.op("add", [a, b], t("f32", 3)), 0)
    assert client.step(p.encode(), states=[7, 7]).kind == "Done"
    p.result("commit", a, 1)
    failed(client.step(p.encode(), states=[7, 7]), errors.MALFORMED, "both committed")


def test_kept_values_are_their_own(client):
    """Keeping an upload, or the same value twice, gives independent handles."""
    p = ProgramBuilder()
    a = p.arg("upload", t("f32", 3))
    for _ in range(2):
        p.result("keep", a)
    client.step(p.encode(), uploads=[X], results=[1, 2])
    client.step(bump_program(), states=[1], slots=[slot(1)])
    np.testing.assert_array_equal(published(client.step(bump_program(), states=[2], slots=[slot(1)]))[0], X)


def test_list_programs(client):
    p = ProgramBuilder()
    a = p.arg("upload", t("f32", 3))
    p.result("publish", p.op("neg", [a], t("f32", 3), location=[("train.py", 12)]))
    client.step(p.encode(), debug=p.encode_debug(), uploads=[X])
    client.step(p.encode(), uploads=[X])
    reply = wire.read(client.owner.handle(request("ListPrograms"), peer="client"), "Reply", b"SJM1")
    assert (reply.body_type, reply.body.code) == ("Error", errors.REFUSED)

    def listed(**fields):
        return client.send("ListPrograms", **fields).programs

    (info,) = listed(with_text=True)
    assert (info.runs, info.ops, info.client, len(info.hash)) == (2, 1, "local", 32)
    assert "sojourn.neg" in info.text and "train.py:12" in info.text
    assert listed()[0].text == ""


def test_errors_name_the_line(client):
    p = ProgramBuilder()
    a = p.arg("upload", t("f32", 3))
    p.op("neg", [a], t("f32", 4), location=[("model.py", 5), ("train.py", 31)])
    reply = client.step(p.encode(), debug=p.encode_debug(), uploads=[X])
    failed(reply, errors.MALFORMED, "expected tensor<3xf32>")
    assert (reply.op, reply.location) == ("neg", "model.py:5:1 (called from train.py:31:1)")


def test_unknown_op_is_unsupported(client):
    p = ProgramBuilder()
    a = p.arg("upload", t("f32", 3))
    p.op("aten", [a], t("f32", 3))
    failed(client.step(p.encode(), uploads=[X]), errors.UNSUPPORTED, "core form only")


def test_replies_read_with_generated_accessors():
    """The layouts of wire.py are not the only ones that can read a reply."""
    from sojourn_wire.Done import Done
    from sojourn_wire.Reply import Reply
    from sojourn_wire.ReplyBody import ReplyBody

    client = Client(NumpyOwner())
    from sojourn_numpy.program import program_hash

    program = add_program()
    data = client.owner.handle(
        request("Step", session=client.session, sequence=1, program=program, program_hash=program_hash(program), uploads=[X, X],
                results=[1])
    )  # fmt: skip
    assert data[4:8] == b"SJM1"
    reply = Reply.GetRootAs(data, 0)
    assert reply.BodyType() == ReplyBody.Done
    done = Done()
    done.Init(reply.Body().Bytes, reply.Body().Pos)
    tensor = done.Published(0)
    assert tensor.Element() == 8 and tensor.DimsAsNumpy().tolist() == [3]
    np.testing.assert_array_equal(tensor.DataAsNumpy().view(np.float32), 2 * X)


# Datasets.

COLUMNS = {"age": np.array([1.0, 2, 3, 4]), "y": np.array([0, 1, 0, 1])}


def test_rows_are_read(client):
    client.owner.register("d", COLUMNS)
    indices = np.array([3, -1, 4])
    reply = client.step(rows_program(), uploads=[indices], tables=["d"])
    np.testing.assert_array_equal(published(reply)[0], np.array([[4, 1], [0, 0], [0, 0]], np.float32))


def test_tables_are_checked(client):
    client.owner.register("d", COLUMNS)
    i = np.arange(3)
    failed(client.step(rows_program(), uploads=[i], tables=["e"]), errors.DATASET, "unknown dataset 'e'")
    failed(client.step(rows_program(rows=5), uploads=[i], tables=["d"]), errors.DATASET, "has 4 rows")
    program = rows_program(columns=(("nope", F64),))
    failed(client.step(program, uploads=[i], tables=["d"]), errors.DATASET, "no column 'nope'")
    program = rows_program(columns=(("y", F64),))
    failed(client.step(program, uploads=[i], tables=["d"]), errors.DATASET, "expects f64")


def test_datasets_are_listed(client):
    client.owner.register("d", COLUMNS, bounds={"age": (0, 3)})
    (dataset,) = client.send("ListDatasets").datasets
    assert (dataset.name, dataset.rows, dataset.policy) == ("d", 4, "open")
    age, y = dataset.columns
    assert (age.name, age.element, age.bounded, age.lower, age.upper) == ("age", F64, 1, 0, 3)
    assert (y.name, y.element, y.bounded) == ("y", I64, 0)
    reply = client.step(rows_program(), uploads=[np.array([3, 2, 1])], tables=["d"])
    np.testing.assert_array_equal(published(reply)[0][:, 0], [3, 3, 2])


@pytest.mark.parametrize(
    "args, kwargs, text",
    [
        (("d", COLUMNS), {"policy": "private"}, "open tables only"),
        (("d", COLUMNS), {"policy": "other"}, "unknown policy"),
        (("", COLUMNS), {}, "needs a name"),
        (("d", {}), {}, "no columns"),
        (("d", {"a": np.array([1.0, np.nan])}), {}, "row 1 is nan"),
        (("d", {"a": np.array([1.0, -np.inf], np.float32)}), {}, "row 1 is -inf"),
        (("d", {"a": np.zeros(0)}), {}, "no rows"),
        (("d", COLUMNS), {"fills": {"y": 0.5}}, "fill 0.5"),
        (("d", COLUMNS), {"fills": {"age": 9}, "bounds": {"age": (0, 5)}}, "fill 9"),
        (("d", COLUMNS), {"columns": ["z"]}, "missing columns ['z']"),
        (("d", COLUMNS), {"columns": ["y"], "bounds": {"age": (0, 5)}}, "bounds name"),
        (("d", COLUMNS), {"bounds": {"y": (0.2, 0.8)}}, "no int64 lies in"),
        (("d", COLUMNS), {"bounds": {"y": (0, np.inf)}}, "not ordered finite"),
        (("d", {"a": np.array(["x"])}), {}, "expected numbers"),
        (("d", {"a": np.array([1.0]), "b": np.array([1.0, 2])}), {}, "differ in length"),
        (("d", COLUMNS), {"bounds": {"b": (0, 1)}}, "missing columns ['b']"),
        (("d", COLUMNS), {"bounds": {"age": (2, 1)}}, "not ordered"),
        (("d", COLUMNS), {"bounds": {"age": (float("nan"), 1)}}, "not ordered"),
        (("d", "/no/such/file.csv"), {}, "no such file"),
        (("d", "/etc/hostname"), {}, "expected .npz"),
        (("d", 3), {}, "source is a int"),
    ],
)
def test_registration_refuses(args, kwargs, text):
    with pytest.raises(OwnerError, match=re.escape(text)):
        NumpyOwner().register(*args, **kwargs)


@pytest.mark.parametrize(
    "categories, text",
    [
        (("low", "high", "low"), "has a category twice; name each category once"),
        ((7, 5, 7), "has a category twice; name each category once"),
        (("low", 1, "high"), "has texts and whole numbers as categories, expected one kind"),
        (("low", "\ud800", "high"), "category 1 is no UTF-8 text"),
        (("low", "é" * 513, "high"), "category 1 has 1026 bytes, at most 1024"),
        (tuple(range(wire_format.CATEGORIES_MAX + 1)), "has 65537 categories, at most 65536"),
        (("low", "high"), "its codes must be int64 in [0, 1]"),
    ],
)
def test_categories_that_a_client_would_refuse(categories, text):
    with pytest.raises(OwnerError, match=re.escape(text)):
        NumpyOwner().register("d", {"a": np.array([0, 2, 1])}, meanings={"a": (categories, 0)})


@pytest.mark.parametrize(
    "terms, text",
    [
        ({"bounds": {"a": (0, 1)}}, "its bounds must be those of its 3 categories, 0 to 2, or left out"),
        ({"bounds": {"a": (0, 3)}}, "its bounds must be those of its 3 categories, 0 to 2, or left out"),
        ({"fills": {"a": 3}}, "its fill 3 must be a code, one of those of its 3 categories, 0 to 2"),
        ({"fills": {"a": -1}}, "its fill -1 must be a code"),
        ({"fills": {"a": 0.5}}, "its fill 0.5 must be a code"),
        ({"fills": {"a": float("nan")}}, "its fill nan must be a code"),
    ],
)
def test_terms_of_categories_are_their_codes(client, terms, text):
    meanings = {"a": (("low", "high", "other"), 0)}
    with pytest.raises(OwnerError, match=re.escape(text)):
        client.owner.register("d", {"a": np.array([0, 2, 1])}, meanings=meanings, **terms)
    client.owner.register("d", {"a": np.array([0, 2, 1])}, meanings=meanings, bounds={"a": (0, 2)}, fills={"a": 2.0})
    column = client.send("ListDatasets").datasets[0].columns[0]
    assert (column.upper, column.filled, column.fill, column.categories) == (2, 1, 2, ["low", "high", "other"])


def test_a_name_is_registered_once():
    owner = NumpyOwner()
    owner.register("d", COLUMNS)
    with pytest.raises(OwnerError, match="already registered"):
        owner.register("d", COLUMNS)


def test_the_owner_keeps_its_own_copy(client):
    mine = np.array([1.0, 2, 3, 4])
    client.owner.register("d", {"age": mine, "y": COLUMNS["y"]})
    mine[:] = 0
    reply = client.step(rows_program(), uploads=[np.arange(3)], tables=["d"])
    np.testing.assert_array_equal(published(reply)[0][:, 0], [1, 2, 3])


@pytest.mark.parametrize("suffix", ["npz", "csv", "parquet", "arrow"])
def test_files_are_read(tmp_path, suffix):
    path, data = tmp_path / f"table.{suffix}", {**COLUMNS, "age": COLUMNS["age"] + 0.5}
    if suffix == "npz":
        np.savez(path, **data)
    else:
        import pyarrow
        from pyarrow import csv, feather, parquet

        table = pyarrow.table(data)
        {"csv": csv.write_csv, "parquet": parquet.write_table, "arrow": feather.write_feather}[suffix](table, path)
    client = Client(NumpyOwner())
    client.owner.register("d", str(path))
    reply = client.step(rows_program(), uploads=[np.array([0, 1, 3])], tables=["d"])
    np.testing.assert_array_equal(published(reply)[0], np.array([[1.5, 0], [2.5, 1], [4.5, 1]], np.float32))


def test_missing_values_in_files_are_refused(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,2\n,3\n")
    with pytest.raises(OwnerError, match="1 missing value"):
        NumpyOwner().register("d", tmp_path / "t.csv")
    dataset = make_dataset("d", tmp_path / "t.csv", fills={"a": 7})
    np.testing.assert_array_equal(dataset.by_name["a"].values, [1, 7])
    (tmp_path / "t.parquet").write_text("no parquet")
    with pytest.raises(OwnerError, match="cannot read"):
        NumpyOwner().register("d", tmp_path / "t.parquet")


def test_columns_are_kept_in_known_types():
    """Little-used types widen; bounds are rounded inwards; fills stand in for what is not finite."""
    source = {
        "u2": np.array([0, 65535], np.uint16), "u4": np.array([0, 2**32 - 1], np.uint32),
        "f2": np.array([0.5, 65504], np.float16), "big": np.array([1, 2], ">f8"),
        "f4": np.array([0, 1], np.float32), "b": np.array([True, False]), "i1": np.array([-128, 127], np.int8),
        "gap": np.array([np.nan, np.inf]),
    }  # fmt: skip
    bounds = {"f4": (0.1, 0.1 + 1e-7), "b": (1, 5), "i1": (-3.5, 1e9)}
    made = make_dataset("d", source, bounds=bounds, fills={"gap": -1}, columns=list(source)[::-1])
    kept = {column.name: column.values for column in made.columns}
    assert list(kept) == list(source)[::-1]
    assert [kept[k].dtype for k in ("u2", "u4", "f2", "big")] == [np.int32, np.int64, np.float32, np.float64]
    for name in ("u2", "u4", "f2", "big"):
        np.testing.assert_array_equal(kept[name], source[name])
    assert (kept["f4"].astype(float) >= 0.1).all() and (kept["f4"].astype(float) <= 0.1 + 1e-7).all()
    assert kept["b"].tolist() == [True, True] and kept["i1"].tolist() == [-3, 127] and kept["gap"].tolist() == [-1, -1]


def test_runs_without_torch(python_path, tmp_path):
    """A whole session in a process where importing torch, or any compiled part of ours, fails."""
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.table(COLUMNS), tmp_path / "t.parquet")
    script = f"""
        import sys
        class Blocker:
            def find_spec(self, name, path=None, target=None):
                if name.split(".")[0] in ("torch", "_sojourn", "sojourn"):
                    raise ImportError(name + " is blocked")
        sys.meta_path.insert(0, Blocker())
        sys.path[:0] = [{python_path!r}, {str(__file__.rsplit("/", 1)[0])!r}]
        import numpy as np
        from numpy_builder import Client, published
        from sojourn_numpy import NumpyOwner
        from numpy_steps import X, add_program, rows_program
        client = Client(NumpyOwner())
        client.owner.register("d", {str(tmp_path / "t.parquet")!r})
        published(client.step(rows_program(), uploads=[np.arange(3)], tables=["d"]))
        assert published(client.step(add_program(), uploads=[X, X], results=[1]))[0].tolist() == [2, 4, 6]
        assert "torch" not in sys.modules
        print("ran")
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True)
    assert done.stdout == "ran\n", done.stderr
