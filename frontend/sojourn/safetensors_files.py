# SPDX-License-Identifier: Apache-2.0
"""Files of the package `safetensors`: one read for all tensors of a file that is saved, and files loaded onto an owner."""

from __future__ import annotations

import functools
import importlib.abc
import importlib.util
import sys

import torch

from . import reads


class _Opened:
    """A file whose tensors move to an owner's device. The package's own reader knows the names of stock devices only."""

    def __init__(self, file, device: torch.device):
        self._file, self._device = file, device

    def __enter__(self):
        self._file.__enter__()
        return self

    def __exit__(self, *exception):
        return self._file.__exit__(*exception)

    def __getattr__(self, name):
        return getattr(self._file, name)

    def get_tensor(self, name):
        return self._file.get_tensor(name).to(self._device)

    def get_tensors(self, *args, **kwargs):
        return {name: value.to(self._device) for name, value in self._file.get_tensors(*args, **kwargs).items()}


def _guard_open(original):
    @functools.wraps(original)
    def safe_open(filename, framework, device="cpu", **kwargs):
        if not str(device).startswith("owner"):
            return original(filename, framework, device, **kwargs)
        return _Opened(original(filename, framework, "cpu", **kwargs), torch.device(device))

    return safe_open


def _at_once(original):
    @functools.wraps(original)
    def flatten(tensors, *args, **kwargs):
        with reads.together(tensors):
            return original(tensors, *args, **kwargs)

    return flatten


def _patch_package(module) -> None:
    module.safe_open = _guard_open(module.safe_open)


def _patch_torch(module) -> None:
    module.safe_open = sys.modules["safetensors"].safe_open
    for name in ("_flatten", "_flatten_as_ptr"):  # of its versions
        if hasattr(module, name):
            setattr(module, name, _at_once(getattr(module, name)))


_PATCHES = {"safetensors": _patch_package, "safetensors.torch": _patch_torch}


class _Finder(importlib.abc.MetaPathFinder):
    """Patches the package when a program imports it, because this package does not depend on it."""

    def __init__(self):
        self._waiting = set(_PATCHES)

    def find_spec(self, name, path=None, target=None):
        if name not in self._waiting:
            return None
        self._waiting.remove(name)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            self._waiting.add(name)
            return None
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            _PATCHES[name](module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]  # of this one import
        return spec


def install() -> None:
    """Patches the package, now or when it is imported; once."""
    for name, patch in _PATCHES.items():
        if name in sys.modules:
            patch(sys.modules[name])
    if "safetensors.torch" not in sys.modules:
        sys.meta_path.insert(0, _Finder())
