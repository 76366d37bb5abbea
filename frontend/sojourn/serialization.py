# SPDX-License-Identifier: Apache-2.0
"""Files of tensors at owners: plain PyTorch loads them onto the CPU, and this package where they were.

A file holds CPU tensors. Each names its owner in the part of a tensor's record that torch keeps for backends and does
not read otherwise. Storages stay in this process when a file is loaded; their tensors move to the owner.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import warnings

import torch

from . import connections, published, reads
from . import storage as storages

_MARK = "sojourn:"


class _Copies:
    """The CPU copies of one file: tensors that share memory at an owner share it there, too."""

    def __init__(self, tensors):
        self._tensors = tensors  # keeps their storages' identities
        windows: dict = {}
        for tensor in tensors:
            if storage := _storage_of(tensor):
                windows.setdefault(storage, {})[_window(tensor)] = tensor
        self._wholes = {storage: _whole(next(iter(of.values()))) for storage, of in windows.items() if len(of) > 1}
        self._made: dict = {}

    def needed(self) -> list[torch.Tensor]:
        """The tensors to read."""
        alone = [tensor for tensor in self._tensors if _storage_of(tensor) not in self._wholes]
        return [*alone, *self._wholes.values()]

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        storage = _storage_of(tensor)
        if storage is None:
            return tensor.detach().cpu()
        whole = self._wholes.get(storage)
        key = storage if whole is not None else (storage, _window(tensor))
        if key not in self._made:
            self._made[key] = (tensor if whole is None else whole).detach().cpu()
        if whole is None:
            return self._made[key].detach()
        return self._made[key].as_strided(*_window(tensor))


def _storage_of(tensor):
    """The memory of a tensor, as one dtype; None for a class of a library, a wrapper of torch.func, or a view that is
    conjugate or negated."""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.is_conj() or tensor.is_neg():
        return None
    storage = storages.of(tensor)
    return None if storage is None else (storage._cdata, tensor.dtype)


def _window(tensor):
    return tuple(tensor.shape), tensor.stride(), tensor.storage_offset()


def _whole(tensor):
    count = tensor.untyped_storage().nbytes() // tensor.element_size()
    return tensor.detach().as_strided((count,), (1,), 0)


class _Saving(threading.local):
    copies: _Copies | None = None


_saving = _Saving()


def reduced(tensor: torch.Tensor, protocol):
    """The record of a remote tensor for pickle: a CPU tensor that names its owner."""
    here = tensor.detach().cpu() if _saving.copies is None else _saving.copies.of(tensor)
    return _marked(
        here.requires_grad_(tensor.requires_grad).__reduce_ex__(protocol), connections.mark_of(tensor.device)
    )


def _marked(reduced, mark: str | None):
    function, args = reduced
    if mark is None:
        return reduced
    if function is torch._tensor._rebuild_from_type_v2:
        inner, kind, inner_args, state = args
        inner, inner_args = _marked((inner, inner_args), mark)
        return function, (inner, kind, inner_args, state)
    if function is torch._utils._rebuild_tensor_v2:
        metadata = args[6] if len(args) > 6 else {}
        args = (*args[:6], {**metadata, _MARK + mark: True})
    return function, args


def _guard_save() -> None:
    original = torch.save

    @functools.wraps(original)
    def save(obj, *args, **kwargs):
        obj = published.plain(obj)
        before, _saving.copies = _saving.copies, _Copies(reads.remote_leaves(obj))
        try:
            with reads.together(_saving.copies.needed()):
                return original(obj, *args, **kwargs)
        finally:
            _saving.copies = before

    torch.save = torch.serialization.save = save


class _Load:
    """One call of torch.load, or one of its two passes over a file of the format before torch 1.6.

    In that format storages get their contents after all tensors have been made. The first pass then only collects the
    storages, and the second one finds their contents there.
    """

    def __init__(self, location_given: bool, is_first: bool = False, filled: list | None = None):
        self.location_given = location_given
        self.is_first = is_first
        self.wants_owner = self.told = False
        self.met: list[torch.UntypedStorage] = []
        self._numbers: set[int] = set()
        self._filled = filled

    def meet(self, storage: torch.UntypedStorage) -> None:
        if (self.is_first or self._filled is not None) and id(storage) not in self._numbers:
            if self._filled is not None:
                storage.copy_(self._filled[len(self.met)])
            self._numbers.add(id(storage))
            self.met.append(storage)


class _Loading(threading.local):
    now: _Load | None = None


_loading = _Loading()


@contextlib.contextmanager
def _within(load: _Load):
    before, _loading.now = _loading.now, load
    try:
        yield
    finally:
        _loading.now = before


def _send(storage: torch.UntypedStorage, device: torch.device) -> None:
    """Marks a storage with the destination of its tensors."""
    load = _loading.now
    if load is not None and load.is_first:
        load.wants_owner = True
    elif not hasattr(storage, "_sojourn_device"):
        storage._sojourn_device = device  # type: ignore[attr-defined]  # a mark of ours
        storage._sojourn_moved = {}  # type: ignore[attr-defined]  # likewise


def _restored(storage, location: str):
    if not location.startswith("owner"):
        return None
    _send(storage, torch.device(location))
    return storage


def _new(original):
    @functools.wraps(original)
    def load(file, map_location, *args, **kwargs):
        with _within(_Load(map_location is not None)):
            return original(file, map_location, *args, **kwargs)

    return load


def _legacy(original):
    @functools.wraps(original)
    def load(file, map_location, *args, **kwargs):
        start, first = file.tell(), _Load(map_location is not None, is_first=True)
        with _within(first):
            loaded = original(file, map_location, *args, **kwargs)
        if not first.wants_owner:
            return loaded
        file.seek(start)
        with _within(_Load(map_location is not None, filled=first.met)):
            return original(file, map_location, *args, **kwargs)

    return load


def _over(original):
    @functools.wraps(original)  # torch allows it by its name
    def rebuild(storage, offset, size, stride):
        untyped = storage._untyped_storage
        if _loading.now is not None:
            _loading.now.meet(untyped)
        tensor = original(storage, offset, size, stride)
        device = getattr(untyped, "_sojourn_device", None)
        if device is None:
            return tensor
        # One upload for all tensors of a storage, so that those which share memory go on sharing it.
        whole = untyped._sojourn_moved.get(tensor.dtype)
        if whole is None:
            count = untyped.nbytes() // tensor.element_size()
            whole = untyped._sojourn_moved[tensor.dtype] = original(storage, 0, (count,), (1,)).to(device)
        return whole.as_strided(size, stride, offset)

    return rebuild


def _where_it_was(original):
    @functools.wraps(original)  # likewise
    def rebuild(storage, offset, size, stride, requires_grad, hooks, metadata=None):
        mark = next((key[len(_MARK) :] for key in metadata or () if str(key).startswith(_MARK)), None)
        load = _loading.now
        if (
            mark is not None
            and storage._untyped_storage.device.type == "cpu"
            and not (load is not None and load.location_given)
        ):
            device = connections.marked_device(mark)
            if device is not None:
                _send(storage._untyped_storage, device)
            elif load is None or not load.told:
                _tell(load)
        return original(storage, offset, size, stride, requires_grad, hooks, metadata)

    return rebuild


def _tell(load: _Load | None) -> None:
    if load is not None:
        load.told = True
    warnings.warn(
        "tensors of this file were at an owner that is not open in this process, and stay on the CPU; open it first, "
        "or name another owner: torch.load(file, map_location=owner.device)",
        stacklevel=connections.callers_depth(),
    )


def install() -> None:
    """Installs the hooks, once."""
    _guard_save()
    torch.serialization.register_package(15, lambda storage: None, _restored)
    torch._utils._rebuild_tensor = _over(torch._utils._rebuild_tensor)
    torch._utils._rebuild_tensor_v2 = _where_it_was(torch._utils._rebuild_tensor_v2)
    torch._weights_only_unpickler._get_allowed_globals.cache_clear()  # it may know the function replaced above
    torch.serialization._load = _new(torch.serialization._load)
    torch.serialization._legacy_load = _legacy(torch.serialization._legacy_load)
