# SPDX-License-Identifier: Apache-2.0
"""The owner's protocol as a function of bytes: sessions, handles, plans, steps."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sojourn_wire import format as wire_format

from . import limits, messages, replies, wire
from .datasets import Dataset, make_dataset
from .describe import describe
from .descriptions import described
from .errors import DATASET, HANDLE, INTERNAL, LIMIT, REFUSED, SESSION, UNSUPPORTED, VERSION, OwnerError, found, need
from .program import Arg, Program, check_versions, decode, program_hash
from .run import run
from .search import Search
from .types import TensorType


@dataclass
class PartialUpload:
    """An upload that arrives in parts, ahead of the step that binds it."""

    data: np.ndarray  # u8
    received: int = 0  # from the start


@dataclass
class LastStep:
    """The last message of a session with a committed step, kept in case it is repeated."""

    sequence: int = 0  # 0: none yet
    request: str = ""  # hash of its bytes
    reply: bytes = b""  # empty: it was too large to be remembered
    steps: int = 0  # of its message, committed
    failure: OwnerError | None = None  # of the step after these


@dataclass
class Session:
    client: str
    seen: float
    handles: dict[int, np.ndarray] = field(default_factory=dict)
    bytes: int = 0
    uploads: dict[int, PartialUpload] = field(default_factory=dict)
    last: LastStep = field(default_factory=LastStep)
    progress: int = 0  # steps of the message that runs which have committed
    mark: int = 0  # of that message
    stop: bool = False  # no further one begins

    def drop(self, handle: int) -> None:
        self.bytes -= self.handles.pop(handle).nbytes


@dataclass
class Plan:
    program: Program
    client: str
    runs: int = 0


def _fault_of(fault: Exception) -> OwnerError:
    if isinstance(fault, OwnerError):
        return fault
    if isinstance(fault, MemoryError):
        return OwnerError(LIMIT, "out of memory")
    # A mistake of ours. Its text could quote data, so only its kind is told.
    return OwnerError(INTERNAL, f"internal error ({type(fault).__name__})")


def _parts(step: wire.Record):
    """The steps of a message: each states how its bindings differ from the previous step."""
    yield step
    before = step
    for part in step.repetitions:
        for name in ("states", "uploads", "slots"):
            if not len(getattr(part, name)):
                setattr(part, name, getattr(before, name))
        part.tables, before = step.tables, part
        yield part


def _owned(value: np.ndarray) -> np.ndarray:
    """The value in its own memory: a view would keep its whole base array alive."""
    return value if value.base is None and value.flags.c_contiguous else value.copy(order="C")


class NumpyOwner:
    """A whole owner for open tables: `handle` answers every input with exactly one reply.

    `clock` gives seconds, `random_bytes(n)` n bytes that a client cannot guess; `watch(index, op,
    results)`, if set, sees every intermediate of every step. Calls from several threads take turns.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        random_bytes: Callable[[int], bytes] = os.urandom,
        watch: Callable | None = None,
    ):
        self._clock, self._random_bytes, self.watch = clock, random_bytes, watch
        self._datasets: dict[str, Dataset] = {}
        self._sessions: dict[int, Session] = {}
        self._plans: OrderedDict[bytes, Plan] = OrderedDict()
        self._lock = threading.Lock()
        self.requests = 0  # every call of handle
        self.steps = 0  # steps that committed

    # Registration is the owner's own act; it raises, it does not reply.

    def register(
        self,
        name: str,
        source,
        policy: str = "open",
        bounds: dict | None = None,
        fills: dict | None = None,
        columns: list | None = None,
        meanings: dict | None = None,
    ) -> None:
        """Adds a table: `source` is a dict of arrays, or a path to .npz, .csv, .parquet, .arrow.

        The first dimension of an array counts rows; the others are the shape of a row's entry.

        `bounds` clamp a column's values. `fills` replace missing and non-finite values, which are
        refused otherwise. `columns` names the columns to keep, in their order. `meanings`: of columns,
        a tuple that starts with their categories (str or int, or None) and their unit.
        """
        with self._lock:
            need(name not in self._datasets, f"a dataset named '{name}' is already registered", DATASET)
            self._datasets[name] = make_dataset(name, source, policy, bounds, fills, columns, meanings)

    def describe(self, name: str, text: str, tags: list[str]) -> None:
        """Words and tags of a table, in place of those before."""
        with self._lock:
            dataset = found(self._datasets.get(name), f"no dataset is named '{name}'", DATASET)
            dataset.description = described(text, tags)

    def handle(self, request: bytes, peer: str = "owner") -> bytes:
        """Answers one request. Never raises, for any bytes.

        `peer` is "client" for bytes from a transport that others can reach; requests reserved for the
        data owner are then refused.
        """
        self.requests += 1
        try:
            body = wire.read(request, "Request", b"SJM1")
            if body.body_type == "Watch":
                return self._watch(body.body)  # while a step has its turn
            with self._lock:
                if body.body_type == "ListPrograms" and peer != "owner":
                    text = "the log of programs holds other people's source lines; only the data owner reads it"
                    raise OwnerError(REFUSED, text)
                if body.body_type == "Step":
                    return self._step(body.body, request)
                if body.body_type == "Hello":
                    return self._hello(body.body, peer)
                return _HANDLERS[body.body_type](self, body.body)
        except Exception as fault:
            return replies.error(_fault_of(fault))

    def _hello(self, hello: wire.Record, peer: str) -> bytes:
        known = wire_format.PROTOCOL_VERSION
        need(hello.protocol_version == known, f"client speaks protocol version {hello.protocol_version}, this "
             f"owner speaks version {known}", VERSION)  # fmt: skip
        check_versions(hello.format_version, hello.dialect_version)
        if len(hello.identity):
            _no_identities(self, hello)
        now = self._clock()
        for number, session in list(self._sessions.items()):
            if now - session.seen > limits.SESSION_LEASE_SECONDS:
                del self._sessions[number]
        need(len(self._sessions) < limits.SESSIONS_MAX, f"{limits.SESSIONS_MAX} sessions are open", LIMIT)
        number = 0
        while number == 0 or number in self._sessions:
            number = int.from_bytes(self._random_bytes(8), "little")
        # A name that a client gives itself is no identity; in quotes it is nobody else's.
        self._sessions[number] = Session("local" if peer == "owner" else f"'{hello.client}'", now)
        return replies.welcome(number, limits.TEXT)

    def _session(self, number: int) -> Session:
        session, now = self._sessions.get(number), self._clock()
        if session is not None and now - session.seen > limits.SESSION_LEASE_SECONDS:
            del self._sessions[number]
            session = None
        session = found(session, "unknown or closed session; connect again", SESSION)
        session.seen = now
        return session

    def _list_datasets(self, request: wire.Record) -> bytes:
        search = Search(request.text or "", request.tag or "", tuple(request.columns))
        return replies.datasets([each for each in self._datasets.values() if search.finds(each)])

    def _release(self, message: wire.Record) -> bytes:
        session, handles = self._session(message.session), message.handles.tolist()
        self._check_releases(session, handles)
        for handle in handles:
            session.drop(handle)
        return replies.done([])

    def _upload(self, part: wire.Record) -> bytes:
        session, number, size = self._session(part.session), part.upload, part.size
        if size == 0:
            self._drop_upload(session, number)
            return replies.received(0)
        if number not in session.uploads:
            need(number > 0, "uploads are numbered from 1")
            need(len(session.uploads) < limits.UPLOADS_MAX, "session has too many uploads under way", LIMIT)
            need(session.bytes + size <= limits.HANDLE_BYTES_MAX, f"no room for an upload of {size} bytes", LIMIT)
            session.uploads[number] = PartialUpload(np.empty(size, np.uint8))
            session.bytes += size
        upload, end = session.uploads[number], part.offset + len(part.data)
        need(size == len(upload.data) and end <= size, f"a part of {len(part.data)} bytes at {part.offset} of {size} "
             f"lies outside of upload {number} of {len(upload.data)} bytes")  # fmt: skip
        if part.offset == upload.received:
            upload.data[part.offset : end] = part.data
            upload.received = end
        return replies.received(upload.received)

    @staticmethod
    def _drop_upload(session: Session, number: int) -> None:
        if number in session.uploads:
            session.bytes -= len(session.uploads.pop(number).data)

    def _watch(self, message: wire.Record) -> bytes:
        # Leases end in requests that take turns.
        session = found(self._sessions.get(message.session), "unknown or closed session; connect again", SESSION)
        # A mark names the message that is meant; a request that comes late stops no other.
        session.stop = session.stop or (bool(message.stop) and message.mark in (0, session.mark))
        return replies.progress(session.progress if message.mark in (0, session.mark) else 0)

    def _bye(self, message: wire.Record) -> bytes:
        self._sessions.pop(message.session, None)
        return replies.done([])

    def _list_programs(self, message: wire.Record) -> bytes:
        listed, left = [], limits.REPLY_TEXT_MAX
        for plan in reversed(self._plans.values()):
            text = describe(plan.program) if message.with_text and left > 0 else ""
            left -= len(text)
            listed.append((plan.program.hash, plan.runs, len(plan.program.ops), text, plan.client))
        return replies.programs(listed[::-1])

    def _step(self, step: wire.Record, message: bytes) -> bytes:
        try:
            session = self._session(step.session)
        except OwnerError as fault:
            # The same bytes may have been sent before, to a session that lived then.
            raise OwnerError(fault.code, fault.message + "; whether this step ran is unknown") from None
        request = hashlib.blake2b(message, digest_size=16).hexdigest()
        repeated = self._from_memory(step.sequence, request, session.last)
        if repeated:
            return repeated
        plan = self._plan(step, session)
        if plan is None:
            return replies.need_program()
        program = plan.program
        steps = 1 + len(step.repetitions)
        need(steps <= limits.STEPS_PER_MESSAGE_MAX, f"the message has {steps} steps", LIMIT)
        out = steps * sum(
            program.result_type(r).nbytes + limits.VALUE_ROOM for r in program.results if r.kind == "publish"
        )
        need(out <= limits.PUBLISHED_BYTES_MAX, f"a reply to {steps} steps takes {out} bytes", LIMIT)
        session.progress, session.stop, session.mark = 0, False, step.mark
        begin, last, published = self._clock(), LastStep(step.sequence, request), []
        for part in _parts(step):
            is_late = step.deadline_ms and (self._clock() - begin) * 1000 >= step.deadline_ms
            if last.steps and (is_late or session.stop):
                break
            try:
                published += self._run_one(part, session, program)
            except Exception as fault:
                if last.steps == 0:
                    raise
                last.failure = _fault_of(fault)  # the steps before it stand
                break
            last.steps += 1
            session.progress, session.last = last.steps, last
        reply = replies.done(published, last.steps, last.failure)
        last.reply = reply if len(reply) <= limits.REMEMBERED_REPLY_BYTES_MAX else b""
        plan.runs, self.steps = plan.runs + last.steps, self.steps + last.steps
        return reply

    def _run_one(self, step: wire.Record, session: Session, program: Program) -> list[np.ndarray]:
        """One step of a message: it commits as a whole. Returns the published values."""
        args = self._bind(step, session, program)
        keeps = [index for index, result in enumerate(program.results) if result.kind == "keep"]
        new, released = messages.results_of(step), messages.releases_of(step)
        self._check_results(step, session, program, keeps, new)
        self._check_releases(session, released)
        values = run(program, args, self.watch)
        published = [_owned(value) for value, result in zip(values, program.results) if result.kind == "publish"]
        stored = {at: _owned(values[at]) for at, r in enumerate(program.results) if r.kind != "publish"}
        # Nothing below can fail.
        fresh = dict(zip(keeps, new))
        states = step.states.tolist()
        for index, value in stored.items():
            result = program.results[index]
            self._store(session, states[result.target] if result.kind == "commit" else fresh[index], value)
        for tensor in step.uploads:
            self._drop_upload(session, tensor.sent_ahead)
        for handle in released:
            session.drop(handle)
        return published

    @staticmethod
    def _from_memory(sequence: int, request: str, last: LastStep) -> bytes:
        """The reply to a repetition of the session's last step; empty if this is the next step."""
        if sequence == last.sequence + 1:
            return b""
        repeat = f", or {last.sequence} to repeat the last one" if last.sequence else ""
        need(0 < sequence == last.sequence, f"step has sequence number {sequence}, expected {last.sequence + 1}{repeat}: "
             "steps of a session are numbered from 1")  # fmt: skip
        need(request == last.request, f"step {sequence} was already committed with other content: its request had "
             f"hash {last.request}, this one has {request}")  # fmt: skip
        return last.reply or replies.committed(last.steps, last.failure)

    def _plan(self, step: wire.Record, session: Session) -> Plan | None:
        digest = step.program_hash.tobytes()
        need(len(digest) == 32, f"program hash has {len(digest)} bytes, expected 32")
        plan = self._plans.get(digest)
        if plan is not None:
            self._plans.move_to_end(digest)
            return plan
        if len(step.program) == 0:
            return None
        data = step.program.tobytes()
        need(program_hash(data) == digest, "the program's bytes do not match the given hash")
        plan = self._plans[digest] = Plan(decode(data, step.debug.tobytes()), session.client)
        total = sum(p.program.size for p in self._plans.values())
        while len(self._plans) > 1 and (len(self._plans) > limits.PLANS_MAX or total > limits.PLAN_BYTES_MAX):
            total -= self._plans.popitem(last=False)[1].program.size
        return plan

    def _bind(self, step: wire.Record, session: Session, program: Program) -> list:
        """The program's arguments, each checked against the type it declares."""
        ahead = [tensor.sent_ahead for tensor in step.uploads if tensor.sent_ahead]
        need(len(set(ahead)) == len(ahead), "an upload is bound twice")

        def take(index: int, arg: Arg, given: Any) -> Any:
            expected: Any = arg.type  # of a table its columns, else a tensor's: the reader has seen to it
            if arg.kind == "state":
                return self._state(session, given, expected)
            if arg.kind == "upload":
                return replies.upload(given, self._bytes_of(session, given), expected, f"argument {index}")
            if arg.kind == "table":
                return self._table(given, expected, program.parts.get(index, ()))
            return replies.number(given, expected)

        return messages.arguments(program, step, take)

    def _table(self, given: wire.Record, expected: Any, parts: Sequence) -> Dataset:
        dataset = found(self._datasets.get(given.name), f"unknown dataset '{given.name}'", DATASET)
        need(given.version == dataset.version, f"dataset '{given.name}' has version {dataset.version}, the "
             f"step was made for version {given.version}", DATASET)  # fmt: skip
        dataset.serves(expected)
        for sides in parts:
            dataset.has_part(sides)
        return dataset

    @staticmethod
    def _bytes_of(session: Session, tensor: wire.Record) -> np.ndarray:
        if not tensor.sent_ahead:
            return tensor.data
        text = f"upload {tensor.sent_ahead} is incomplete"
        upload = found(session.uploads.get(tensor.sent_ahead), text, HANDLE)
        need(upload.received == len(upload.data), text, HANDLE)
        return upload.data

    def _state(self, session: Session, handle: int, expected: TensorType) -> np.ndarray:
        value = found(session.handles.get(handle), f"unknown handle {handle}", HANDLE)
        fits = value.dtype == expected.dtype and value.shape == expected.shape
        need(fits, f"handle {handle} holds {value.dtype}{list(value.shape)}, the program expects {expected}")
        return value

    def _check_results(
        self, step: wire.Record, session: Session, program: Program, keeps: list[int], fresh: list[int]
    ) -> None:
        """Handles and sizes, which could make committing fail."""
        states = step.states.tolist()
        need(len(fresh) == len(keeps), f"step names {len(fresh)} new handles, the program keeps {len(keeps)}")
        need(len(set(fresh)) == len(fresh), "step names a new handle twice")
        used = [handle for handle in fresh if handle in session.handles]
        need(not used, f"handle {used[0] if used else 0} is in use")
        need(len(session.handles) + len(fresh) <= limits.HANDLES_MAX, "session holds too many handles", LIMIT)
        written = [states[result.target] for result in program.results if result.kind == "commit"]
        need(len(set(written)) == len(written), "one handle is bound to two states that are both committed")
        kept = sum(program.result_type(program.results[index]).nbytes for index in keeps)
        # What was sent ahead is counted already, and gone when the step has committed.
        ahead = [session.uploads[tensor.sent_ahead] for tensor in step.uploads if tensor.sent_ahead]
        kept -= sum(len(upload.data) for upload in ahead)
        need(session.bytes + kept <= limits.HANDLE_BYTES_MAX, "session holds too many bytes", LIMIT)

    @staticmethod
    def _check_releases(session: Session, handles: list[int]) -> None:
        need(len(set(handles)) == len(handles), "a handle is released twice")
        unknown = [handle for handle in handles if handle not in session.handles]
        need(not unknown, f"unknown handle {unknown[0] if unknown else 0} is released", HANDLE)

    @staticmethod
    def _store(session: Session, handle: int, value: np.ndarray) -> None:
        if handle in session.handles:
            session.drop(handle)
        session.handles[handle] = value
        session.bytes += value.nbytes


def _no_budgets(owner, body):
    raise OwnerError(REFUSED, "this owner serves open tables only and keeps no budgets; use the native runtime")


def _no_identities(owner, body):
    raise OwnerError(REFUSED, "this owner serves open tables only and knows no clients; connect without an identity")


def _no_groups(owner, body):
    raise OwnerError(
        UNSUPPORTED, "this owner takes part in no groups: it knows no other owners; use the native runtime"
    )


def _no_names(owner, body):
    raise OwnerError(
        UNSUPPORTED, "this owner has no names for values: they end with their session; use the native runtime"
    )


_HANDLERS = {
    "ListDatasets": NumpyOwner._list_datasets,
    "Release": NumpyOwner._release,
    "Bye": NumpyOwner._bye,
    "ListPrograms": NumpyOwner._list_programs,
    "Upload": NumpyOwner._upload,
    "GetBudget": _no_budgets,
    "Prove": _no_identities,
    "Join": _no_groups,
    "Borrow": _no_groups,
    "NameValues": _no_names,
    "ListValues": _no_names,
    "TakeValues": _no_names,
    "ReleaseNames": _no_names,
}
