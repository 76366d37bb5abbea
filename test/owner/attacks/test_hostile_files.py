# SPDX-License-Identifier: Apache-2.0
"""Attack: files that are given to the data owner to import. Errors of Arrow showed the row that it could not read, links
showed lines of other files, a FIFO stopped the command for good, and 27 KB of an .npz filled 8 GiB."""

import os
import pathlib
import secrets
import socket
import struct
import time
import zlib

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from imports_support import FORMATS, TERMS, bring, large_csv, left, table_file, text_file, tool

import sojourn


@pytest.fixture
def canary():
    return "canary" + secrets.token_hex(4)


@pytest.fixture
def store(tmp_path):
    """Nothing of a refused import stays."""
    yield tmp_path / "store"
    assert left(tmp_path / "store") == set()


def rows_of(canary, count=6):
    return [("who", "x", "y"), *((f"{canary}-{row}", row / 10, 1) for row in range(count))]


def ragged(rows):
    rows[4] = (*rows[4], "more")
    return text_file(rows), "row 3 (counting from 0) has 4 columns, the first line has 3"


def short(rows):
    rows[2] = rows[2][:2]
    return text_file(rows), "row 1 (counting from 0) has 2 columns, the first line has 3"


def quotes(rows):
    rows[3] = ('"' + rows[3][0], *rows[3][1:])
    return text_file(rows), "cannot read"


def no_utf8(rows):
    return text_file(rows).replace(b"-4", b"-\xff\xfe"), "that is no UTF-8 text"


def overflow(rows):
    rows[1] = (rows[1][0], "9" * 400, 1)
    return text_file(rows), "row 0 (counting from 0)"


def a_text_among_numbers(rows):
    rows[2] = (rows[2][0], rows[2][0], 1)
    return text_file(rows), "column 'x'"


@pytest.mark.parametrize("damage", [ragged, short, quotes, no_utf8, overflow, a_text_among_numbers])
def test_errors_of_texts_show_no_row(damage, canary, store, tmp_path):
    content, problem = damage(rows_of(canary))
    for name, text in (("t.csv", content), ("t.tsv", content.replace(b",", b"\t"))):
        (tmp_path / name).write_bytes(text)
        shown = bring(tmp_path / name, store, "--bound=y=0:1", *(term for term in TERMS if "x=0.5" not in term))
        assert canary not in shown and problem in shown, shown
        with pytest.raises(sojourn.Error) as failure, sojourn.local() as owner:
            owner.register("t", tmp_path / name, policy="open", categories={"who": ["a", "b"]}, fills={"who": "a"})
        text = str(failure.value)
        assert canary not in text and (str(tmp_path / name) in text or "column" in text)


def test_a_ragged_row_far_down(canary, store, tmp_path):
    """Its number is known where several threads read the file, too."""
    rows = [(f"{canary}-{row}", 0.5) for row in range(1_500_000)]
    rows[1_400_000] = (canary,)
    (tmp_path / "t.csv").write_bytes(text_file([("who", "x"), *rows]))
    shown = bring(tmp_path / "t.csv", store, *TERMS)
    assert "row 1400000 (counting from 0) has 1 columns, the first line has 2" in shown and canary not in shown


@pytest.mark.parametrize("kind", FORMATS)
def test_damaged_files(kind, canary, tmp_path, generator):
    """Cut off anywhere, or with bytes changed: an error that names the file, or a table; no crash, and no row."""
    store, whole = tmp_path / "store", tmp_path / f"whole.{kind}"
    table_file(kind, whole, canary, 64, generator)
    terms = TERMS if kind != "npz" else ["--rows-are-subjects", "--bound=x=0:1", "--bound=who=0:9e18", "--fill=x=0.5"]
    content = whole.read_bytes()
    files = [content[: int(at)] for at in generator.integers(0, len(content), 6)]
    for _ in range(8):
        changed = bytearray(content)
        for at in generator.integers(0, len(content), int(generator.integers(1, 6))):
            changed[at] = int(generator.integers(0, 256))
        files.append(bytes(changed))
    # The sizes at the end of a file of a columnar format.
    files += [content[:-12] + struct.pack("<I", 2**31 - 1) + content[-8:], content[:-8] + b"\xff" * 4 + content[-4:]]
    assert canary not in bring(whole, store, *terms, name="whole", code=0)
    before = left(store)
    for number, each in enumerate(files):
        path = tmp_path / f"t{number}.{kind}"
        path.write_bytes(each)
        try:
            shown = bring(path, store, *terms, name=f"t{number}")
        except AssertionError as error:
            status, shown = error.args[0]
            assert status == 0, shown
            before = left(store)
        else:
            assert left(store) == before
            assert path.name in shown or "column" in shown or "the source has 0 rows" in shown, shown
            assert "ended by" not in shown, shown
        assert canary not in shown and str(int.from_bytes(canary[:8].encode(), "little")) not in shown
    with sojourn.local(store) as owner:
        assert "whole" in [table.name for table in owner.datasets()]


@pytest.mark.parametrize("kind", FORMATS)
def test_a_link_to_another_file(kind, canary, store, tmp_path):
    (tmp_path / "secret").write_text(f"root:{canary}:0:0:root:/root\n" * 2 + f"{canary} {canary}\n{canary}")
    (tmp_path / f"t.{kind}").symlink_to("secret")
    assert canary not in bring(tmp_path / f"t.{kind}", store, *TERMS)


@pytest.mark.parametrize(
    "secret", ["password = {0}", "{0} = 1\n{0} = 2", "{0}", "[{0}", "a = 1\na = '{0}'", 'x = "{0}\n', "\xff{0}"]
)
def test_links_in_place_of_terms(secret, canary, store, tmp_path):
    (tmp_path / "t.csv").write_text("who,x\na,0.5\n")
    (tmp_path / "secret").write_text(secret.format(canary) + f"\n{canary}\n{canary}\n", encoding="latin-1")
    (tmp_path / "terms").symlink_to("secret")
    for given in ([f"--categories=who=@{tmp_path}/terms"], ["--bounds", tmp_path / "terms", "--categories=who=a,b"]):
        shown = bring(tmp_path / "t.csv", store, "--rows-are-subjects", "--bound=x=0:1", *given)
        assert canary not in shown, shown


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to other accounts")
def test_a_link_that_another_account_made(store, tmp_path):
    """In a folder that several may write to."""
    (tmp_path / "mine.csv").write_text("x\n0.5\n")
    link = tmp_path / "t.csv"
    link.symlink_to("mine.csv")
    os.lchown(link, 4242, 4242)
    assert "a link that another account has made" in bring(link, store, "--policy=open")
    os.chown(tmp_path / "mine.csv", 4242, 4242)  # its own
    bring(link, tmp_path / "other", "--policy=open", code=0)


def fifo(path):
    os.mkfifo(path)


def unix_socket(path):
    here = os.getcwd()
    os.chdir(path.parent)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)
    os.chdir(here)


def folder(path):
    path.mkdir()


def device(path):
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("make", [fifo, unix_socket, folder, device])
def test_what_is_no_file_is_refused_at_once(make, store, tmp_path):
    (tmp_path / "t.csv").write_text("x\n0.5\n")
    kind = {fifo: "a FIFO", unix_socket: "a socket", folder: "a folder", device: "a device"}[make]
    for name in (*(f"u.{each}" for each in FORMATS), "terms"):
        make(tmp_path / name)
        file = tmp_path / ("t.csv" if name == "terms" else name)
        ways = [[]] if name != "terms" else [["--bounds", tmp_path / name], [f"--categories=x=@{tmp_path / name}"]]
        for way in ways:
            shown = bring(file, store, "--policy=open", *way, seconds=30)
            assert f"it is {kind}, expected a file" in shown, shown
        if name != "terms":
            with pytest.raises(sojourn.Error, match=f"it is {kind}, expected a file"), sojourn.local() as owner:
                owner.register("t", tmp_path / name, policy="open")


def npy(shape: str, data: bytes, descr="<f8") -> bytes:
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


def archive(members: int, content: bytes, claimed=None) -> bytes:
    """All members are one and the same part of the file."""
    packer = zlib.compressobj(9, wbits=-15)
    packed = packer.compress(content) + packer.flush()
    head = struct.pack("<HHHIII", 8, 0, 0, zlib.crc32(content), len(packed), claimed or len(content))
    body = b"PK\x03\x04\x14\0\0\0" + head + struct.pack("<HH", 1, 0) + b"x" + packed
    entry = b"PK\x01\x02\x14\0\x14\0\0\0" + head
    names = [f"c{number}.npy".encode() for number in range(members)]
    directory = b"".join(entry + struct.pack("<HHHHHII", len(name), 0, 0, 0, 0, 0, 0) + name for name in names)
    end = struct.pack("<4sHHHHIIH", b"PK\x05\x06", 0, 0, members, members, len(directory), len(body), 0)
    return body + directory + end


def test_members_of_an_archive_that_share_their_bytes(store, tmp_path):
    """27 KB that claim 8 GiB, each member within deflate's ratio."""
    content = npy("(1048576,)", bytes(8 * 2**20))
    (tmp_path / "t.npz").write_bytes(archive(1, content))
    shown = bring(tmp_path / "t.npz", tmp_path / "other", "--policy=open", code=0)
    assert "1048576 rows" in shown
    (tmp_path / "t.npz").write_bytes(archive(1_000, content))
    assert (tmp_path / "t.npz").stat().st_size < 100_000
    begin = time.monotonic()
    shown = bring(tmp_path / "t.npz", store, "--policy=open")
    assert "its members have more bytes than the file" in shown and time.monotonic() - begin < 30


@pytest.mark.parametrize("shape", ["(1152921504606846976,)", "(8, 1152921504606846976)", "(2305843009213693952, 8)"])
def test_shapes_beyond_the_data(shape, store, tmp_path):
    (tmp_path / "t.npz").write_bytes(archive(1, npy(shape, bytes(64))))
    shown = bring(tmp_path / "t.npz", store, "--policy=open")
    assert "has fewer values than its shape says" in shown or "overflows" in shown
    (tmp_path / "t.npz").write_bytes(archive(1, npy("(8,)", bytes(64)), claimed=2**31))
    assert "has an invalid size" in bring(tmp_path / "t.npz", store, "--policy=open")


def repeated(kind: str, path: pathlib.Path, rows: int):
    """A small file that holds a large table."""
    table = pyarrow.table({"x": np.zeros(rows), "y": np.zeros(rows)})
    if kind == "npz":
        np.savez_compressed(path, x=np.zeros(rows), y=np.zeros(rows))
    elif kind == "parquet":
        pyarrow.parquet.write_table(table, path, compression="zstd")
    elif kind == "texts.parquet":
        text = pyarrow.DictionaryArray.from_arrays(np.zeros(rows, np.int8), ["x" * 1_000])
        pyarrow.parquet.write_table(pyarrow.table({"x": text}), path, store_schema=False)
    else:
        options = pyarrow.ipc.IpcWriteOptions(compression="zstd")
        with pyarrow.ipc.new_file(path, table.schema, options=options) as file:
            file.write_table(table)


@pytest.mark.parametrize("kind", ["npz", "parquet", "texts.parquet", "arrow", "feather"])
def test_files_that_expand(kind, store, tmp_path):
    """Held against the limit before memory fills; within it, they are read."""
    rows = 2_000_000
    path = tmp_path / f"t.{kind}"
    repeated(kind, path, rows)
    size = rows * (1_000 if kind == "texts.parquet" else 16)
    assert path.stat().st_size < size / 20
    limit = 24 * 2**20
    shown = bring(path, store, "--policy=open", "--max-bytes", limit)
    assert f"the limit of an import is {limit}" in shown or f"more than {limit} bytes of memory" in shown, shown
    if kind != "texts.parquet":
        bring(path, tmp_path / "other", "--policy=open", "--max-bytes", 4 * size, code=0)


def test_a_text_beyond_the_limit(store, tmp_path):
    """Arrow's reader ended its process where an allocation failed."""
    large_csv(tmp_path / "t.csv", 4)
    problem = f"it takes more than {2**20} bytes of memory, the limit of an import"
    assert problem in bring(tmp_path / "t.csv", store, "--policy=open", "--max-bytes", 2**20)
    bring(tmp_path / "t.csv", tmp_path / "other", "--policy=open", "--max-bytes", 2**27, code=0)


def test_a_table_beyond_the_limit(store, tmp_path):
    """Of columns without any value, which take no room in their file."""
    table = pyarrow.table(
        {"x": pyarrow.chunked_array([pyarrow.nulls(2**30)]), "y": pyarrow.chunked_array([pyarrow.nulls(2**30)])}
    )
    with pyarrow.ipc.new_file(tmp_path / "t.arrow", table.schema) as file:
        file.write_table(table)
    for more in (["--fill=x=0", "--fill=y=0"], ["--categories=x=a,b", "--fill=x=a", "--fill=y=0"]):
        shown = bring(tmp_path / "t.arrow", store, "--policy=open", f"--max-bytes={2**30}", *more)
        assert str(2**30) in shown and "--max-bytes" in shown


def test_a_file_that_is_no_table_in_the_store(tmp_path):
    """A damaged table of the store is an error of the command and of the library, not a crash."""
    (tmp_path / "t.csv").write_text("x\n0.5\n")
    store = tmp_path / "store"
    bring(tmp_path / "t.csv", store, "--policy=open", code=0)
    (file,) = (store / "datasets").glob("*.arrow")
    content = file.read_bytes()
    for damaged in (b"", content[:40], content[:-9], content[:-6], content[: len(content) // 2] + content[-40:]):
        file.write_bytes(damaged)
        with sojourn.local(store) as owner, pytest.raises(sojourn.OwnerError, match="Dataset"):
            sojourn.publish(owner.dataset("t")["x"].sum())
    file.write_bytes(content)
    with sojourn.local(store) as owner:
        assert float(sojourn.publish(owner.dataset("t")["x"].sum())) == 0.5
    assert "t:" in tool("datasets", "--store", store)
