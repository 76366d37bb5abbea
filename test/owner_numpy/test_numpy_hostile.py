# SPDX-License-Identifier: Apache-2.0
"""Bytes that no honest client sends: cut, flipped, overlapping, oversized. One Error reply for each."""

import struct
import time

import numpy as np
import pytest
from numpy_builder import Client, ProgramBuilder, request, t
from numpy_steps import X, add_program, failed

from sojourn_numpy import NumpyOwner, OwnerError, decode, errors, limits, wire
from sojourn_numpy.datasets import make_dataset
from sojourn_numpy.program import program_hash
from sojourn_numpy.types import F64, U8, TableType
from sojourn_wire import format as wire_format


def rich_program() -> ProgramBuilder:
    """Every vector of the format in use."""
    p = ProgramBuilder()
    s = p.arg("state", t("f32", 3, 2))
    u = p.arg("upload", t("f32", 3, 2))
    k = p.arg("slot", t("f64"))
    seed = p.arg("seed", t("i64"))
    table = p.arg("table", TableType(4, (("age", F64), ("scan", U8)), ((), (2, 1))))
    i, part = p.op("iota", [], t("i64", 3), dim=0), {"fractions": (0.75, 0.5), "sides": (0, 1)}
    i = p.op("sample_rows", [i, seed, seed, table], t("i64", 3), **part, split=False, expected=2)
    i = p.op("sample_rows", [i, seed, seed, table], t("i64", 3), **part, split=True)
    r = p.op("read_rows", [table, i], t("f32", 3, 1), columns=["age"])
    scan = p.op("read_rows", [table, i], t("f32", 3, 2, 1), columns=["scan"])
    y = p.op("dot", [u, s], t("f32", 3, 3), lhs_batch=(), rhs_batch=(), lhs_contract=(1,), rhs_contract=(1,))
    c = p.op("compare", [y, p.op("convert", [k], t("f32"))], t("i1", 3, 3), predicate="lt")
    z = p.op("select", [c, y, p.op("constant", [], t("f32"), value=2.0)], t("f32", 3, 3), location=[("m.py", 3)])
    z = p.op("concat", [z, r, s], t("f32", 3, 6), dim=1, location=[("m.py", 4), ("t.py", 9)])
    v, _ = p.op("sort", [z], [t("f32", 3, 6), t("i64", 3, 6)], dim=1, descending=True)
    p.result("commit", p.op("slice", [v], t("f32", 3, 2), start=(0, 0), limit=(3, 2), stride=(1, 1)), 0)
    p.result("keep", v)
    p.result("publish", v)
    p.result("publish", scan)
    return p


# A version is a hash of the contents, so every owner that registers these rows has this one.
ROWS = {"age": np.arange(4.0), "scan": np.arange(8, dtype=np.uint8).reshape(4, 2, 1)}
TABLE = make_dataset("d", ROWS, "open", None, None, None)


def rich_request(client: Client, program: bytes, debug: bytes, results=(5,)) -> bytes:
    return request(
        "Step", session=client.session, sequence=client.steps + 1, program_hash=program_hash(program), program=program,
        debug=debug, states=[4],
        uploads=[np.ones((3, 2), np.float32)], slots=[0], seeds=[1], tables=[("d", TABLE.version)], results=list(results), releases=[],
    )  # fmt: skip


@pytest.fixture
def client():
    client = Client(NumpyOwner())
    client.owner.register("d", ROWS)
    p = ProgramBuilder()
    p.result("keep", p.arg("upload", t("f32", 3, 2)))
    client.step(p.encode(), uploads=[np.ones((3, 2), np.float32)], results=[4])
    return client


def test_the_rich_program_runs(client):
    p = rich_program()
    assert client.raw(rich_request(client, p.encode(), p.encode_debug())).kind == "Done"


def test_truncations(client):
    p = rich_program()
    data = rich_request(client, p.encode(), p.encode_debug())
    for length in range(0, len(data), 7):
        assert client.raw(data[:length]).kind == "Error", length


def _mutated(rng, data: bytes) -> bytes:
    damaged = bytearray(data)
    for _ in range(int(rng.integers(1, 5))):
        at = int(rng.integers(len(damaged)))
        choice = int(rng.integers(4))
        if choice == 0:
            damaged[at] ^= 1 << int(rng.integers(8))
        elif choice == 1:
            damaged[at] = int(rng.choice([0, 1, 0x7F, 0x80, 0xFF]))
        elif choice == 2 and at + 4 <= len(damaged):
            struct.pack_into("<I", damaged, at & ~3 if at & ~3 <= len(damaged) - 4 else 0, int(rng.integers(1 << 32)))
        else:
            del damaged[at : at + int(rng.integers(1, 9))]
            damaged = damaged or bytearray(1)
    return bytes(damaged)


def _one_bit(rng, data: bytes) -> bytes:
    """Half of the mutants: one bit of those that more changes would hide."""
    damaged = bytearray(data)
    damaged[int(rng.integers(len(damaged)))] ^= 1 << int(rng.integers(8))
    return bytes(damaged)


@pytest.mark.alone
def test_mutated_requests(client, rng):
    """Bit flips anywhere: a reply each time, never an internal error, never long."""
    p = rich_program()
    done = 0
    for n in range(400):
        # Each keeps its value under a handle of its own: else none after the first would be Done.
        data = rich_request(client, p.encode(), p.encode_debug(), [100 + n])
        started = time.monotonic()
        # Whatever its kind says: a flipped bit may make another kind of request of it.
        reply = client.raw_step(_mutated(rng, data) if n % 2 else _one_bit(rng, data))
        done += reply.kind == "Done"
        assert reply.kind != "Error" or reply.code != errors.INTERNAL, reply.message
        assert time.monotonic() - started < 5
    assert done >= 120, f"{done} of 400 requests were Done: hardly any got past the first checks"


def test_mutated_programs(client, rng):
    """The same with the hash made right again, so that the program's own checks are reached."""
    program, debug = rich_program().encode(), rich_program().encode_debug()
    codes, done = set(), 0
    for n in range(900):
        # Of three: many changes, one bit of the program, one bit of its debug table.
        damaged = (_mutated(rng, program), _one_bit(rng, program), program)[n % 3]
        lines = (_mutated(rng, debug) if n % 2 else debug, debug, _one_bit(rng, debug))[n % 3]
        reply = client.raw_step(rich_request(client, damaged, lines, [100 + n]))
        assert reply.kind in ("Done", "Error")
        done += reply.kind == "Done"
        if reply.kind == "Error":
            codes.add(reply.code)
            assert reply.code not in (errors.INTERNAL, errors.EXECUTION), reply.message
    assert errors.MALFORMED in codes
    assert done >= 200, f"{done} of 900 programs ran: hardly any got past the first checks"


def test_random_bytes(client, rng):
    for _ in range(200):
        data = rng.bytes(int(rng.integers(0, 200)))
        assert client.raw(data).kind == "Error"
        assert client.raw(data[:4] + b"SJM1" + data[8:]).kind == "Error"


@pytest.mark.parametrize("junk", [None, 7, "text", [1, 2]])
def test_not_even_bytes(junk):
    assert wire.read(NumpyOwner().handle(junk), "Reply", b"SJM1").body_type == "Error"


def broken(message: str, code: int = errors.MALFORMED):
    """Names what must be found wrong in the program that the decorated function damages."""

    def mark(damage):
        damage.expected = (message, code)
        return damage

    return mark


@broken(f"version 1, this owner reads version {wire_format.FORMAT_VERSION}", errors.VERSION)
def format_version(p):
    p.format_version = 1


@broken("version 7", errors.VERSION)
def dialect_version(p):
    p.dialect_version = 7


@broken("features", errors.VERSION)
def features(p):
    p.features = 4


@broken("promotion rules")
def promotion(p):
    p.promotion = "pandas"


@broken("file identifier")
def identifier(p):
    p.identifier = b"SJD1"


@broken("not defined before")
def operand_that_is_its_own_result(p):
    result = len(p.args)
    for _, begin, count, results, *_ in p.ops:
        if count:
            p.operands[begin] = result
            return
        result += results


@broken("not defined before")
def operand_from_the_future(p):
    p.operands[0] = 99


@broken("exceeds its vector")
def operand_range(p):
    p.ops[0] = (*p.ops[0][:1], 10_000, *p.ops[0][2:])


@broken("exceeds its vector")
def attr_range(p):
    p.ops[0] = (*p.ops[0][:4], 4_000_000_000, 1)


@broken("outside the string table")
def name_outside(p):
    p.ops[0] = (1_000, *p.ops[0][1:])


@broken("unknown element type")
def element_unknown(p):
    p.types[0] = (12, *p.types[0][1:])


@broken("rank 200", errors.LIMIT)
def rank_too_high(p):
    p.types[0] = (8, 200, 0, 0)


@broken("negative size")
def negative_dim(p):
    p.dims[0] = -1


@broken("too large", errors.LIMIT)
def huge_dim(p):
    p.dims[0] = 1 << 62


@broken("too large", errors.LIMIT)
def too_many_elements(p):
    p.dims[0] = wire_format.VALUE_ELEMENTS_MAX // 2 + 1


@broken("larger than", errors.LIMIT)
def huge_value(p):
    p.dims[0] = wire_format.VALUE_ELEMENTS_MAX // 2


@broken("is not zero")
def reserved_field(p):
    p.types[0] = (*p.types[0][:2], 1, p.types[0][3])


@broken("unknown kind 9")
def arg_kind(p):
    p.args[0] = (p.args[0][0], 9, 0, 0)


@broken("not ordered")
def arg_order(p):
    p.args[0], p.args[1] = p.args[1], p.args[0]


@broken("unknown kind 8")
def attr_kind(p):
    p.attrs[0] = (*p.attrs[0][:3], 8, *p.attrs[0][4:])


@broken("of kind reals and type f32")
def reals_of_another_type(p):
    at = next(k for k, attr in enumerate(p.attrs) if attr[3] == 7)
    p.attrs[at] = (*p.attrs[at][:4], 8, 0)


@broken("of kind integers, expected reals")
def reals_as_integers(p):
    at = next(k for k, attr in enumerate(p.attrs) if attr[3] == 7)
    p.attrs[at] = (*p.attrs[at][:3], 3, 5, 0)


@broken("not above 0 and below 1")
def fraction_that_is_no_number(p):
    at = next(attr[1] for attr in p.attrs if attr[3] == 7)
    p.ints[at] = 0x7FF0000000000001  # a signalling NaN


@broken("more result types")
def result_types_left(p):
    p.result_types.append(0)


@broken("exceeds its vector")
def result_types_missing(p):
    p.result_types.pop()


@broken("does not exist")
def result_value(p):
    p.results[1] = (999, *p.results[1][1:])


@broken("commits to no state")
def commit_to_upload(p):
    p.results[0] = (p.results[0][0], 1, 0, 0, 0)


@broken("committed twice")
def commit_twice(p):
    p.results.append(p.results[0])


@broken("is a table")
def publish_table(p):
    p.results[2] = (4, 0, 2, 0, 0)


@broken("commits nothing")
def target_of_keep(p):
    p.results[1] = (p.results[1][0], 1, 1, 0, 0)


@broken("unknown kind 5")
def result_kind(p):
    p.results[1] = (p.results[1][0], 0, 5, 0, 0)


@broken("repeats a string")
def string_twice(p):
    p.strings.append(p.strings[0])


@broken("a table has -2 rows")
def negative_rows(p):
    p.tables[0] = (-2, *p.tables[0][1:])


@broken("too long", errors.LIMIT)
def too_many_rows(p):
    p.tables[0] = (wire_format.TABLE_ROWS_MAX + 1, *p.tables[0][1:])


@broken("differ in number")
def column_elements(p):
    p.tables[0] = (4, p.tables[0][1], [], ())


DAMAGES = [f for f in list(globals().values()) if hasattr(f, "expected")]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda f: f.__name__)
def test_each_field_is_checked(damage):
    p = rich_program()
    damage(p)
    text, code = damage.expected
    with pytest.raises(OwnerError) as caught:
        decode(p.encode(), b"")
    assert text in caught.value.message and caught.value.code == code, caught.value.message


def test_debug_tables_are_checked():
    p = rich_program()
    program = p.encode()
    p.locations.pop()
    with pytest.raises(OwnerError, match="op_locations for"):
        decode(program, p.encode_debug())


def test_location_cycles_end():
    """A parent chain that never ends is cut, not followed."""
    p = rich_program()
    debug = bytearray(p.encode_debug())
    table = wire.read(bytes(debug), "Debug", b"SJD1")
    raw, first = table.locations.tobytes(), table.locations[0].copy()
    at = bytes(debug).index(raw)
    first["parent"] = 1
    debug[at : at + 16] = first.tobytes()
    (op,) = [op for op in decode(p.encode(), bytes(debug)).ops if op.name == "select"]
    assert op.location.count("m.py") == limits.LOCATION_DEPTH_MAX


def test_overlapping_tables_cost_nothing(client):
    """A vector of many offsets to one large string does not make the reader copy it many times."""
    from flatbuffers import Builder

    from sojourn_wire import Request, RequestBody, Step, TableBinding

    b = Builder(1 << 20)
    name = b.CreateString("x" * 60_000)
    TableBinding.TableBindingStart(b)
    TableBinding.TableBindingAddName(b, name)
    table = TableBinding.TableBindingEnd(b)
    b.StartVector(4, 50_000, 4)
    for _ in range(50_000):
        b.PrependUOffsetTRelative(table)
    tables = b.EndVector()
    Step.StepStart(b)
    Step.StepAddTables(b, tables)
    body = Step.StepEnd(b)
    Request.RequestStart(b)
    Request.RequestAddBodyType(b, RequestBody.RequestBody.Step)
    Request.RequestAddBody(b, body)
    b.Finish(Request.RequestEnd(b), file_identifier=b"SJM1")
    failed(client.raw(bytes(b.Output())), errors.MALFORMED, "overlap")


@pytest.mark.alone
@pytest.mark.parametrize(
    "name, operands, result, attrs, text",
    [
        ("iota", [], t("f32", 1 << 28, 1 << 10), {"dim": 0}, "tensor<268435456x1024xf32> is too large"),
        ("broadcast", ["scalar"], t("f32", 1 << 35), {"dims": ()}, "tensor<34359738368xf32> is too large"),
        ("rng_bits", ["seed"], t("i64", 1 << 32), {"stream": 0}, "tensor<4294967296xi64> is larger"),
        ("pad", ["vector", "scalar"], t("f32", 1 << 32), {"low": (1 << 32,), "high": (-3,), "interior": (0,)},
         "tensor<4294967296xf32> is larger"),
        ("conv", ["image", "image"], t("f32", 1, 1, 2), {"stride": (1 << 39,), "padding": (1 << 39,), "dilation": (1,),
                                                        "groups": 1},
         "padded by (549755813888,) is too large"),
        ("pool_sum", ["image"], t("f32", 1, 1, 1), {"window": (1 << 30,), "stride": (1,), "padding": (1 << 29,),
                                                    "dilation": (1,)},
         "window (1073741824,) is too large"),
        ("concat", ["big"] * 10, t("f32", 10 << 26), {"dim": 0}, "tensor<671088640xf32> is larger"),
    ],
)  # fmt: skip
def test_giant_values_are_refused_before_they_are_made(client, name, operands, result, attrs, text):
    p = ProgramBuilder()
    kinds = {
        "scalar": t("f32"),
        "vector": t("f32", 3),
        "image": t("f32", 1, 1, 3),
        "big": t("f32", 1 << 26),
    }
    ids = {kind: p.arg("upload", type_) for kind, type_ in kinds.items()}
    ids["seed"] = p.arg("seed", t("i64"))
    p.result("publish", p.op(name, [ids[kind] for kind in operands], result, **attrs))
    started = time.monotonic()
    failed(client.step(p.encode()), errors.LIMIT, text)
    assert time.monotonic() - started < 2


def test_too_much_alive_at_once():
    p = ProgramBuilder()
    seed = p.arg("seed", t("i64"))
    for stream in range(12):
        p.result("keep", p.op("rng_bits", [seed], t("i64", 1 << 27), stream=stream))
    with pytest.raises(OwnerError, match="live at op"):
        decode(p.encode())


def test_too_much_work():
    p = ProgramBuilder()
    a = p.arg("upload", t("f32", 1 << 14, 1 << 14))
    attrs = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (1,), "rhs_contract": (0,)}
    for _ in range(20):
        a = p.op("dot", [a, a], t("f32", 1 << 14, 1 << 14), **attrs)
    with pytest.raises(OwnerError, match="scalar operations"):
        decode(p.encode())


def test_a_table_is_no_tensor():
    p = ProgramBuilder()
    table = p.arg("table", TableType(4, (("age", F64),)))
    p.op("neg", [table], t("f32", 4))
    with pytest.raises(OwnerError, match=r"operand 0 is !sojourn\.table"):
        decode(p.encode())


def test_undeclared_columns_are_out_of_reach():
    p = ProgramBuilder()
    i = p.arg("upload", t("i64", 2))
    table = p.arg("table", TableType(4, (("age", F64),)))
    p.op("read_rows", [table, i], t("f32", 2, 1), columns=["salary"])
    with pytest.raises(OwnerError, match="not among"):
        decode(p.encode())


def test_booleans_are_0_or_1(client):
    p = ProgramBuilder()
    a, k = p.arg("upload", t("i1", 3)), p.arg("slot", t("i1"))
    p.result("publish", p.op("and", [a, k], t("i1", 3)))
    reply = client.step(p.encode(), uploads=[(0, (3,), bytes([1, 0, 1]))], slots=[1])
    np.testing.assert_array_equal(reply.published[0].data, [1, 0, 1])
    failed(client.step(p.encode(), uploads=[(0, (3,), bytes([7, 0, 1]))], slots=[1]), errors.MALFORMED, "booleans")
    failed(client.step(p.encode(), uploads=[(0, (3,), bytes([1, 0, 1]))], slots=[2]), errors.MALFORMED, "boolean slot")


def test_ranges_of_handles(client):
    """Consecutive handles may be given by the first and their number."""
    p = ProgramBuilder()
    x = p.arg("upload", t("f32", 2, 3))
    for _ in range(3):
        x = p.op("neg", [x], t("f32", 2, 3))
        p.result("keep", x)
    program, x = p.encode(), np.ones((2, 3), np.float32)
    reply = client.step(program, uploads=[x], results=[10], first_result=20, result_count=2)
    assert reply.kind == "Done", reply.message
    assert list(client.owner._sessions[client.session].handles) == [4, 10, 20, 21]
    step = {"uploads": [x], "first_result": 30, "result_count": 3}
    failed(client.step(program, **{**step, "result_count": 4}), errors.MALFORMED, "4 new handles, the program keeps 3")
    failed(
        client.step(program, **{**step, "result_count": 2**32 - 1}), errors.MALFORMED, "range has 4294967295 handles"
    )
    failed(client.step(program, **{**step, "first_result": 20}), errors.MALFORMED, "handle 20 is in use")
    failed(client.step(program, **step, first_release=21, release_count=2), errors.HANDLE, "unknown handle 22")
    failed(
        client.step(program, **step, first_release=2**64 - 1, release_count=2), errors.HANDLE, "18446744073709551615"
    )
    failed(client.step(program, **step, releases=[21], first_release=20, release_count=2), errors.MALFORMED, "twice")
    more = {"first_result": 40, "result_count": 3, "first_release": 31, "release_count": 2}
    reply = client.step(program, **step, releases=[10], first_release=20, release_count=2, repetitions=[more])
    assert reply.kind == "Done" and reply.steps == 2
    assert list(client.owner._sessions[client.session].handles) == [4, 30, 40, 41, 42]


def test_add_program_survives(client):
    """After everything above an ordinary step still works on a fresh owner of the same process."""
    assert client.step(add_program(), uploads=[X, X], results=[9]).kind == "Done"
