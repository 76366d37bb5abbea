# SPDX-License-Identifier: Apache-2.0
"""Writes the owner's replies, and reads the tensors and numbers of requests."""

from __future__ import annotations

import flatbuffers

import numpy as np
import sojourn_wire.Column as column_wire
import sojourn_wire.Committed as committed_wire
import sojourn_wire.Dataset as dataset_wire
import sojourn_wire.Datasets as datasets_wire
import sojourn_wire.Done as done_wire
import sojourn_wire.Error as error_wire
import sojourn_wire.NeedProgram as need_wire
import sojourn_wire.ProgramInfo as info_wire
import sojourn_wire.Programs as programs_wire
import sojourn_wire.Progress as progress_wire
import sojourn_wire.Received as received_wire
import sojourn_wire.Reply as reply_wire
import sojourn_wire.Tensor as tensor_wire
import sojourn_wire.Welcome as welcome_wire
from sojourn_wire.ReplyBody import ReplyBody

from . import types, wire
from .errors import OwnerError, need
from .types import TensorType


def _finish(builder: flatbuffers.Builder, kind: int, body: int) -> bytes:
    reply_wire.ReplyStart(builder)
    reply_wire.ReplyAddBodyType(builder, kind)
    reply_wire.ReplyAddBody(builder, body)
    builder.Finish(reply_wire.ReplyEnd(builder), file_identifier=b"SJM1")
    return bytes(builder.Output())


def _offsets(builder: flatbuffers.Builder, offsets: list[int]) -> int:
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return builder.EndVector()


def _error(builder: flatbuffers.Builder, fault: OwnerError) -> int:
    # Texts can quote what came in; they stay short, and whole characters.
    message, location, op = (
        builder.CreateString(text[:2000]) for text in (fault.message, fault.location, fault.op)
    )  # fmt: skip
    error_wire.ErrorStart(builder)
    error_wire.ErrorAddCode(builder, fault.code)
    error_wire.ErrorAddMessage(builder, message)
    error_wire.ErrorAddLocation(builder, location)
    error_wire.ErrorAddOp(builder, op)
    return error_wire.ErrorEnd(builder)


def error(fault: OwnerError) -> bytes:
    builder = flatbuffers.Builder(256)
    return _finish(builder, ReplyBody.Error, _error(builder, fault))


def welcome(session: int, limits_text: str) -> bytes:
    builder = flatbuffers.Builder(256)
    owner, text = builder.CreateString("numpy"), builder.CreateString(limits_text)
    welcome_wire.WelcomeStart(builder)
    welcome_wire.WelcomeAddSession(builder, session)
    welcome_wire.WelcomeAddOwner(builder, owner)
    welcome_wire.WelcomeAddLimitsText(builder, text)
    return _finish(builder, ReplyBody.Welcome, welcome_wire.WelcomeEnd(builder))


def need_program() -> bytes:
    builder = flatbuffers.Builder(64)
    need_wire.NeedProgramStart(builder)
    return _finish(builder, ReplyBody.NeedProgram, need_wire.NeedProgramEnd(builder))


def committed(steps: int = 1, failure: OwnerError | None = None) -> bytes:
    builder = flatbuffers.Builder(64)
    fault = None if failure is None else _error(builder, failure)
    committed_wire.CommittedStart(builder)
    committed_wire.CommittedAddSteps(builder, steps)
    if fault is not None:
        committed_wire.CommittedAddFailure(builder, fault)
    return _finish(builder, ReplyBody.Committed, committed_wire.CommittedEnd(builder))


def progress(steps: int) -> bytes:
    builder = flatbuffers.Builder(64)
    progress_wire.ProgressStart(builder)
    progress_wire.ProgressAddSteps(builder, steps)
    return _finish(builder, ReplyBody.Progress, progress_wire.ProgressEnd(builder))


def received(count: int) -> bytes:
    builder = flatbuffers.Builder(64)
    received_wire.ReceivedStart(builder)
    received_wire.ReceivedAddBytes(builder, count)
    return _finish(builder, ReplyBody.Received, received_wire.ReceivedEnd(builder))


def _categories(builder: flatbuffers.Builder, categories: tuple) -> tuple[int | None, int | None]:
    """The list of texts, and that of whole numbers."""
    if not categories:
        return None, None
    if isinstance(categories[0], str):
        return _offsets(builder, [builder.CreateString(category) for category in categories]), None
    return None, builder.CreateNumpyVector(np.array(categories, np.int64))


def datasets(listed: list) -> bytes:
    builder = flatbuffers.Builder(1024)
    offsets = []
    for dataset in listed:
        columns = []
        for column in dataset.columns:
            name = builder.CreateString(column.name)
            dims = builder.CreateNumpyVector(np.array(column.dims, np.int64)) if column.dims else None
            texts, numbers = _categories(builder, column.meaning.categories)
            column_wire.ColumnStart(builder)
            column_wire.ColumnAddName(builder, name)
            column_wire.ColumnAddElement(builder, column.element)
            if column.bounds is not None:
                column_wire.ColumnAddBounded(builder, True)
                column_wire.ColumnAddLower(builder, column.bounds[0])
                column_wire.ColumnAddUpper(builder, column.bounds[1])
            if dims is not None:
                column_wire.ColumnAddDims(builder, dims)
            if texts is not None:
                column_wire.ColumnAddCategories(builder, texts)
            if numbers is not None:
                column_wire.ColumnAddCategoryNumbers(builder, numbers)
            column_wire.ColumnAddUnit(builder, column.meaning.unit)
            if column.meaning.fill is not None:
                column_wire.ColumnAddFilled(builder, True)
                column_wire.ColumnAddFill(builder, column.meaning.fill)
            columns.append(column_wire.ColumnEnd(builder))
        column_list = _offsets(builder, columns)
        name, policy, version = map(builder.CreateString, (dataset.name, dataset.policy, dataset.version))
        words, tags = dataset.description
        description = builder.CreateString(words) if words else None
        tag_list = _offsets(builder, [builder.CreateString(tag) for tag in tags]) if tags else None
        dataset_wire.DatasetStart(builder)
        dataset_wire.DatasetAddName(builder, name)
        dataset_wire.DatasetAddRows(builder, dataset.rows)
        dataset_wire.DatasetAddColumns(builder, column_list)
        dataset_wire.DatasetAddPolicy(builder, policy)
        dataset_wire.DatasetAddVersion(builder, version)
        if description is not None:
            dataset_wire.DatasetAddDescription(builder, description)
        if tag_list is not None:
            dataset_wire.DatasetAddTags(builder, tag_list)
        offsets.append(dataset_wire.DatasetEnd(builder))
    dataset_list = _offsets(builder, offsets)
    datasets_wire.DatasetsStart(builder)
    datasets_wire.DatasetsAddDatasets(builder, dataset_list)
    return _finish(builder, ReplyBody.Datasets, datasets_wire.DatasetsEnd(builder))


def done(published: list[np.ndarray], steps: int = 1, failure: OwnerError | None = None) -> bytes:
    """`published`: of all steps, in order. `failure`: of the step after these."""
    builder = flatbuffers.Builder(256 + sum(value.nbytes + 128 for value in published))
    tensors = []
    for value in published:
        data = builder.CreateNumpyVector(np.ascontiguousarray(value).reshape(-1).view(np.uint8))
        dims = builder.CreateNumpyVector(np.array(value.shape, np.int64))
        tensor_wire.TensorStart(builder)
        tensor_wire.TensorAddElement(builder, types.ELEMENT_OF[value.dtype])
        tensor_wire.TensorAddDims(builder, dims)
        tensor_wire.TensorAddData(builder, data)
        tensors.append(tensor_wire.TensorEnd(builder))
    tensor_list = _offsets(builder, tensors)
    fault = None if failure is None else _error(builder, failure)
    done_wire.DoneStart(builder)
    done_wire.DoneAddPublished(builder, tensor_list)
    done_wire.DoneAddSteps(builder, steps)
    if fault is not None:
        done_wire.DoneAddFailure(builder, fault)
    return _finish(builder, ReplyBody.Done, done_wire.DoneEnd(builder))


def programs(ran: list[tuple[bytes, int, int, str, str]]) -> bytes:
    """Hash, runs, ops, text and client of each program."""
    builder = flatbuffers.Builder(1024)
    offsets = []
    for program_hash, runs, ops, text, client in ran:
        digest = builder.CreateByteVector(program_hash)
        text, client = builder.CreateString(text), builder.CreateString(client)
        info_wire.ProgramInfoStart(builder)
        info_wire.ProgramInfoAddHash(builder, digest)
        info_wire.ProgramInfoAddRuns(builder, runs)
        info_wire.ProgramInfoAddOps(builder, ops)
        info_wire.ProgramInfoAddText(builder, text)
        info_wire.ProgramInfoAddClient(builder, client)
        offsets.append(info_wire.ProgramInfoEnd(builder))
    listed = _offsets(builder, offsets)
    programs_wire.ProgramsStart(builder)
    programs_wire.ProgramsAddPrograms(builder, listed)
    return _finish(builder, ReplyBody.Programs, programs_wire.ProgramsEnd(builder))


def upload(tensor: wire.Record, data: np.ndarray, expected: TensorType, what: str) -> np.ndarray:
    """The array of an uploaded tensor (bytes `data`), which must have exactly the type the program declares."""
    shape = tuple(tensor.dims.tolist())
    need(tensor.element == expected.element and shape == expected.shape, f"{what} has element "
         f"{tensor.element} and shape {shape}, the program expects {expected}")  # fmt: skip
    need(len(data) == expected.nbytes, f"{what} holds {len(data)} bytes, {expected} has {expected.nbytes}")
    if expected.element == types.I1:
        need(bool((data <= 1).all()), f"{what} has booleans other than 0 and 1")
        return data.astype(np.bool_).reshape(shape)
    return np.frombuffer(data.tobytes(), expected.dtype).reshape(shape)


def number(bits: int, expected: TensorType) -> np.ndarray:
    """A slot or seed: 64 bits, read as the argument's type says."""
    word = np.array(bits, np.uint64)
    if expected.element == types.I1:
        need(bits <= 1, f"a boolean slot has the bits {bits}, expected 0 or 1")
        return np.asarray(word != 0)
    return word.view(expected.dtype)
