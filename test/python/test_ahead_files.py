# SPDX-License-Identifier: Apache-2.0
"""Compiled steps as files: one with any byte that was not written so is refused before anything of it is used.

The checksum is computed here by Python's own BLAKE2b. What carries a right one is checked all the same.
"""

import re

import pytest
from ahead_support import CHECKSUM_BYTES, changed_bits, compiled, stamped

import sojourn
from sojourn_wire import Artifact

DAMAGED = (
    r"is damaged: it ends with the checksum (\w*), but the (\d+) bytes before that have the checksum (\w+); "
    r"copy it again, or"
)
BEGINNING = r"is not a compiled step: its {} bytes have no header, or a damaged one; copy it again, or"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "step.sojourn"
    compiled("sgd-momentum", (1, 1, 1, 2), None).save(path)
    return path.read_bytes()


@pytest.fixture
def refusal(tmp_path):
    """What loading some bytes is refused with; VersionMismatch for other versions alone."""
    path = tmp_path / "step.sojourn"

    def told(data: bytes) -> str:
        path.write_bytes(data)
        with pytest.raises(sojourn.Error) as caught:
            sojourn.load(path)
        text = str(caught.value)
        assert text.startswith(f"{path} ")
        assert type(caught.value) is (sojourn.VersionMismatch if "artifact version" in text else sojourn.Error)
        return text

    return told


def field(table, number) -> int:
    """Where a field of a FlatBuffers table is stored."""
    return table._tab.Pos + table._tab.Offset(4 + 2 * number)


def is_damaged(text: str, data: bytes) -> bool:
    """Whether the refusal names the damage with the right numbers."""
    found = re.search(DAMAGED, text)
    content = data[: max(0, len(data) - CHECKSUM_BYTES)]
    return found is not None and found.groups() == (
        data[len(content) :].hex(),
        str(len(content)),
        stamped(content)[len(content) :].hex(),
    )


def test_files_end_with_the_checksum_of_their_content(whole, tmp_path):
    assert whole == stamped(whole[:-CHECKSUM_BYTES])
    path, again = tmp_path / "step.sojourn", tmp_path / "again.sojourn"
    path.write_bytes(whole)
    sojourn.load(path).save(again)
    assert sojourn.load(again).program_hash("steady") == sojourn.load(path).program_hash("steady")


def test_every_changed_byte_is_refused(whole, refusal, rng):
    """With the damage named, but where the bytes that say what the file is are hit themselves."""
    artifact = Artifact.Artifact.GetRootAs(whole, 0)
    root = artifact._tab.Pos
    table = root - int.from_bytes(whole[root : root + 4], "little", signed=True)
    version = field(artifact, 0)
    leads_to_version = {*range(4), *range(root, root + 4), *range(table, table + 6), *range(version, version + 4)}
    for position in range(len(whole)):
        data = bytearray(whole)
        data[position] ^= rng.randrange(1, 256)
        if 4 <= position < 8:
            assert re.search(BEGINNING.format(len(whole)), refusal(data))
        elif position in leads_to_version:
            # What reads as an older version may be one, and these had no checksum.
            text = refusal(data)
            assert is_damaged(text, data) or re.search("has artifact version [123], this build reads 4", text)
        else:
            assert is_damaged(refusal(data), data), position


def test_every_cut_is_refused(whole, refusal):
    for size in range(len(whole)):
        text = refusal(whole[:size])
        assert is_damaged(text, whole[:size]) if size >= 8 else re.search(BEGINNING.format(size), text), size


def test_what_is_appended_is_refused(whole, refusal, rng):
    for more in (b"\0", b"\n", whole[-1:], whole[-CHECKSUM_BYTES:], rng.randbytes(rng.randint(1, 5000)), whole):
        assert is_damaged(refusal(whole + more), whole + more)


def test_what_is_no_file_of_ours_is_named(refusal, tmp_path, rng):
    with pytest.raises(sojourn.Error, match="cannot read"):
        sojourn.load(tmp_path / "none")
    for data in (b"", b"# a script", rng.randbytes(5000), stamped(b""), stamped(b"# another format")):
        assert "is not a compiled step: its " in refusal(data)


def test_other_versions_are_refused(whole, refusal):
    content = bytearray(whole[:-CHECKSUM_BYTES])
    artifact = Artifact.Artifact.GetRootAs(content, 0)
    assert artifact.Version() == 4
    place = field(artifact, 0)
    for version in (1, 2, 3, 6):
        content[place : place + 4] = version.to_bytes(4, "little")
        # Older versions had no checksum; every later one will have it.
        text = refusal(bytes(content) if version < 3 else stamped(content))
        assert f"has artifact version {version}, this build reads 4 and 5; compile it again" in text
    content[place : place + 4] = (5).to_bytes(4, "little")
    assert "it has 0 parties and version 5" in refusal(stamped(content))
    assert is_damaged(refusal(content), content)


def test_a_right_checksum_is_not_believed(whole, tmp_path, rng):
    """Whoever changes a file on purpose can sign it anew: it is refused, here or by the owner, or it is a program."""
    path = tmp_path / "step.sojourn"
    refused = 0
    files = list(changed_bits(whole[:-CHECKSUM_BYTES], rng, 300))
    with sojourn.local() as owner:
        for data in files:
            path.write_bytes(data)
            try:
                assert sojourn.load(path).run(owner, []) == []
            except sojourn.Error as error:
                assert "the owner failed" not in str(error)
                refused += 1
    assert 0 < refused < len(files)
