// SPDX-License-Identifier: Apache-2.0
// Reads of values outside of steps, for the package (sojourn/reads.py).
#include "frontend/bind/Bind.h"
#include "frontend/recording/Tensor.h"
#include "frontend/flight/ReadListener.h"
#include "frontend/flight/Reads.h"
#include "frontend/flight/Undeclared.h"

#include <torch/csrc/Exceptions.h>

#include <pybind11/stl.h>

namespace py = pybind11;

namespace sojourn::frontend {

namespace {

/// What Python raises within a kernel of torch.
void inTorchsWay(const std::function<void()> &body) {
  try {
    body();
  } catch (py::error_already_set &raised) {
    raised.restore();
    python_error error;
    error.persist();
    throw error;
  }
}

/// Null for a wrapper of a remote tensor (torch.func): it has no storage.
const RemoteTensorImpl *plain(const at::Tensor &tensor) {
  return dynamic_cast<const RemoteTensorImpl *>(tensor.unsafeGetTensorImpl());
}

} // namespace

void bindReads(py::module_ &m) {
  m.def(
      "shown_storage",
      [](const at::Tensor &tensor) -> py::object {
        const RemoteTensorImpl *impl = plain(tensor);
        return impl ? py::reinterpret_steal<py::object>(torch::createPyObject(shownStorage(impl->remoteStorage())))
                    : py::none();
      },
      py::arg("tensor"), "A torch.UntypedStorage without bytes; None for a tensor that wraps a remote one.");
  m.def(
      "shown_address",
      [](const at::Tensor &tensor) -> std::optional<uint64_t> {
        const RemoteTensorImpl *impl = plain(tensor);
        return impl ? std::optional(shownAddress(*impl)) : std::nullopt;
      },
      py::arg("tensor"), "None for a tensor that wraps a remote one.");
  m.def(
      "storage_address",
      [](const py::object &storage) {
        at::Storage shown = torch::createStorage(storage.ptr());
        return reinterpret_cast<uint64_t>(shown.unsafeGetStorageImpl()->_mutable_data_ptr_no_checks().get());
      },
      py::arg("storage"), "Of a torch.UntypedStorage of a remote tensor.");
  m.def("forget_read", &forgetRead, py::arg("tensors"));
  m.def("read_values", &readValues, py::arg("tensors"), py::arg("keep") = false,
        "Dense CPU copies of remote tensors, in one trip per owner; not inside of a step.");
  m.def("mark_step", &markStep, py::arg("optimizer"), "Outside of steps: an undeclared step ends here.");
  m.def("mark_batch", &markBatch, "Outside of steps: the next batch begins.");
  m.def(
      "set_read_listener",
      [](py::function before, py::function after) {
        // Outlive the interpreter: a value may be read until the very end.
        auto *first = new py::function(std::move(before)), *last = new py::function(std::move(after));
        setReadListener({[first](bool isExtra) {
                           py::gil_scoped_acquire lock;
                           inTorchsWay([&] { (*first)(isExtra); });
                         },
                         [last](bool isExtra) {
                           py::gil_scoped_acquire lock;
                           inTorchsWay([&] { (*last)(isExtra); });
                         },
                         [](const std::function<void()> &trip) {
                           if (!PyGILState_Check()) {
                             return trip();
                           }
                           py::gil_scoped_release unlock;
                           trip();
                         }});
      },
      py::arg("before"), py::arg("after"),
      "before(is_extra) may raise to prevent the read; after(is_extra) follows a trip.");
}

} // namespace sojourn::frontend
