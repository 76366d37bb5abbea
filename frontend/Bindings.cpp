// SPDX-License-Identifier: Apache-2.0
// The Python extension: converts and forwards. Everything here exists in C++ too.
#include "frontend/BindArtifact.h"
#include "frontend/Frames.h"
#include "frontend/Session.h"
#include "frontend/Sojourn.h"
#include "owner/Owner.h"

#include <torch/extension.h>

#include <llvm/Support/Error.h>
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

namespace py = pybind11;
using namespace sojourn;
using namespace sojourn::frontend;

namespace {

/// The module that holds the exception classes, set by the package.
py::object *errorModule = nullptr;

/// Raises the Python class of a kind, from any thread.
void raisePython(ErrorKind kind, const std::string &message) {
  py::gil_scoped_acquire lock;
  if (!errorModule) {
    return;
  }
  py::object cls = errorModule->attr(errorKindName(kind));
  PyErr_SetString(cls.ptr(), message.c_str());
  // torch turns python_error back into the Python exception on every path, backward's included.
  python_error error;
  error.persist();
  throw error;
}

/// A Python callable that C++ keeps. Dropped only while there is an interpreter.
std::shared_ptr<py::object> keepCallable(const py::object &callable) {
  return {new py::object(callable), [](py::object *kept) {
            if (Py_IsInitialized()) {
              py::gil_scoped_acquire lock;
              delete kept;
            }
          }};
}

/// The embedded owner: in this process, reached through the same bytes as any other.
struct EmbeddedOwner {
  explicit EmbeddedOwner(const std::string &store) : owner(owner::Environment::system(store)) {
    if (std::string status = owner.status(); !status.empty()) {
      raise(ErrorKind::Error, status);
    }
  }

  void registerDataset(const std::string &name, const py::object &source, const std::string &policy,
                       const std::map<std::string, std::pair<double, double>> &bounds,
                       const std::map<std::string, double> &fills) {
    owner::RegisterOptions options;
    options.name = name;
    auto parsed = owner::parsePolicy(policy);
    if (!parsed) {
      raise(ErrorKind::Error, "policy '" + policy + "' is unknown; expected 'open' or 'private'");
    }
    options.policy = *parsed;
    for (const auto &[column, range] : bounds) {
      options.bounds[column] = {range.first, range.second};
    }
    options.fills = fills;
    owner::DatasetSource dataset;
    std::vector<py::array> keep;
    if (py::isinstance<py::dict>(source)) {
      for (auto [key, value] : source.cast<py::dict>()) {
        auto array = py::array::ensure(py::module_::import("numpy").attr("ascontiguousarray")(value));
        std::string column = py::str(key);
        if (!array || array.ndim() != 1) {
          raise(ErrorKind::Error, "column '" + column + "' must be a one-dimensional array, found " +
                                      std::to_string(array ? array.ndim() : 0) + " dimensions");
        }
        dataset.arrays.push_back({column, elementOfArray(column, array), array.shape(0), array.data()});
        keep.push_back(std::move(array));
      }
    } else {
      dataset.path = py::str(source);
    }
    std::string failure;
    {
      py::gil_scoped_release unlock;
      if (llvm::Error error = owner.registerDataset(dataset, options)) {
        failure = llvm::toString(std::move(error));
      }
    }
    if (!failure.empty()) {
      raise(ErrorKind::Error, failure);
    }
  }

  static runtime::Element elementOfArray(const std::string &column, const py::array &array) {
    using E = runtime::Element;
    char kind = array.dtype().kind();
    auto size = array.itemsize();
    if (kind == 'f' && (size == 2 || size == 4 || size == 8)) {
      return size == 2 ? E::f16 : size == 4 ? E::f32 : E::f64;
    }
    if (kind == 'i') {
      return size == 1 ? E::i8 : size == 2 ? E::i16 : size == 4 ? E::i32 : E::i64;
    }
    if (kind == 'u' && size == 1) {
      return E::u8;
    }
    if (kind == 'b') {
      return E::i1;
    }
    raise(ErrorKind::Error, "column '" + column + "' has dtype " + std::string(py::str(array.dtype())) +
                                "; expected bool, uint8, int8..int64, float16, float32 or float64");
  }

  owner::Owner owner;
};

std::shared_ptr<Session> openSession(const py::object &transport, const std::string &name, int timeoutMs) {
  initialize();
  // The calling thread records backward too: no hop, and the caller's line is known.
  py::module_::import("torch").attr("autograd").attr("set_multithreading_enabled")(false);
  if (py::isinstance<py::str>(transport)) {
    auto url = transport.cast<std::string>();
    py::gil_scoped_release unlock;
    return connect(url, timeoutMs).session();
  }
  if (py::isinstance<EmbeddedOwner>(transport)) {
    auto embedded = transport.cast<std::shared_ptr<EmbeddedOwner>>();
    return connect(name, [embedded](std::string_view request) { return embedded->owner.handle(request); }).session();
  }
  auto function = keepCallable(transport);
  auto call = [function](std::string_view request) {
    py::gil_scoped_acquire lock;
    py::object reply = (*function)(py::bytes(request.data(), request.size()));
    return reply.cast<std::string>();
  };
  return connect(name, call).session();
}

py::dict describeDataset(const DatasetInfo &info) {
  static const char *names[] = {"i1", "u8", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64", "c64", "c128"};
  py::list columns;
  for (const ColumnInfo &column : info.columns) {
    py::object lower = py::none(), upper = py::none();
    if (column.bounds) {
      lower = py::float_(column.bounds->first);
      upper = py::float_(column.bounds->second);
    }
    columns.append(py::dict(py::arg("name") = column.name, py::arg("dtype") = names[static_cast<int>(column.element)],
                            py::arg("lower") = lower, py::arg("upper") = upper));
  }
  return py::dict(py::arg("name") = info.name, py::arg("rows") = info.rows, py::arg("policy") = info.policy,
                  py::arg("version") = info.version, py::arg("columns") = columns);
}

at::ScalarType dtypeOf(const py::object &dtype) {
  if (!THPDtype_Check(dtype.ptr())) {
    raise(ErrorKind::Error, "expected a torch.dtype, got " + std::string(py::str(dtype)));
  }
  return reinterpret_cast<THPDtype *>(dtype.ptr())->scalar_type;
}

} // namespace

PYBIND11_MODULE(_sojourn, m) {
  m.doc() = "Sojourn's C++ core; use the package `sojourn`.";
  initialize();

  m.def("install", [](py::object module, const std::string &torchFolder, const std::string &sojournFolder) {
    // Outlives the interpreter: exceptions may be raised until the very end.
    errorModule = new py::object(std::move(module));
    setRaiser(&raisePython);
    setLockWaiter([](std::recursive_mutex &mutex) {
      if (!PyGILState_Check()) {
        return mutex.lock();
      }
      py::gil_scoped_release unlock;
      mutex.lock();
    });
    installFrameSource(torchFolder, sojournFolder);
  });

  py::class_<EmbeddedOwner, std::shared_ptr<EmbeddedOwner>>(m, "EmbeddedOwner")
      .def(py::init<const std::string &>(), py::arg("store") = "")
      .def("register", &EmbeddedOwner::registerDataset, py::arg("name"), py::arg("source"), py::arg("policy"),
           py::arg("bounds") = std::map<std::string, std::pair<double, double>>(),
           py::arg("fills") = std::map<std::string, double>())
      .def("handle",
           [](EmbeddedOwner &self, const py::bytes &request) {
             std::string reply;
             std::string_view view = request;
             {
               py::gil_scoped_release unlock;
               reply = self.owner.handle(view);
             }
             return py::bytes(reply);
           })
      .def_property_readonly("requests", [](EmbeddedOwner &self) { return self.owner.requests(); });

  py::class_<Session, std::shared_ptr<Session>>(m, "Session")
      .def(py::init(&openSession), py::arg("transport"), py::arg("name"), py::arg("timeout_ms") = 60000)
      .def_static("offline",
                  [] {
                    py::module_::import("torch").attr("autograd").attr("set_multithreading_enabled")(false);
                    return Session::openOffline();
                  })
      .def_property_readonly("index", [](Session &self) { return static_cast<int>(self.index()); })
      .def("datasets",
           [](Session &self) {
             py::list all;
             for (const DatasetInfo &info : self.datasets()) {
               all.append(describeDataset(info));
             }
             return all;
           })
      .def(
          "programs",
          [](Session &self, bool withText) {
            py::list all;
            for (const ProgramSummary &program : self.programs(withText)) {
              all.append(py::dict(py::arg("hash") = py::bytes(program.hash).attr("hex")(),
                                  py::arg("client") = program.client, py::arg("runs") = program.runs,
                                  py::arg("ops") = program.ops, py::arg("text") = program.text));
            }
            return all;
          },
          py::arg("with_text") = false)
      .def("counters", [](const std::shared_ptr<Session> &self) { return Owner(self).counters(); })
      .def("close", &Session::close)
      .def("flush", &Session::flush)
      .def(
          "sample",
          [](const std::shared_ptr<Session> &self, int64_t rows, int64_t size, int64_t seed, int64_t epoch,
             int64_t start) { return Owner(self).sample(rows, size, seed, epoch, start); },
          py::arg("rows"), py::arg("size"), py::arg("seed"), py::arg("epoch"), py::arg("start"))
      .def(
          "range",
          [](const std::shared_ptr<Session> &self, int64_t size, int64_t start) {
            return Owner(self).range(size, start);
          },
          py::arg("size"), py::arg("start"))
      .def(
          "rows",
          [](const std::shared_ptr<Session> &self, const std::string &dataset, const std::vector<std::string> &columns,
             const py::object &dtype,
             const at::Tensor &indices) { return Owner(self).rows(dataset, columns, dtypeOf(dtype), indices); },
          py::arg("dataset"), py::arg("columns"), py::arg("dtype"), py::arg("indices"));

  py::class_<PublishedState, std::shared_ptr<PublishedState>>(m, "Published")
      .def_property_readonly("ready", [](PublishedState &self) { return self.value.defined(); })
      .def_property_readonly("failure", [](PublishedState &self) { return self.failure; })
      .def("value", [](const std::shared_ptr<PublishedState> &self) { return Published(self).value(); });

  m.def("publish", [](const std::vector<at::Tensor> &tensors) {
    std::vector<std::shared_ptr<PublishedState>> states;
    for (const at::Tensor &tensor : tensors) {
      states.push_back(remoteImpl(tensor)->remoteStorage()->session->publish({tensor}).front());
    }
    return states;
  });
  m.def("step_begin", [] { Steps::begin(); });
  m.def(
      "step_end", [] { Steps::end(); }, py::call_guard<py::gil_scoped_release>());
  m.def("step_abort", [] { Steps::abort(); });
  m.def("step_active", [] { return Steps::active(); });
  m.def(
      "flush", [] { flushAll(); }, py::call_guard<py::gil_scoped_release>());
  m.def("same_storage", [](const at::Tensor &a, const at::Tensor &b) {
    return remoteImpl(a)->remoteStorage() == remoteImpl(b)->remoteStorage();
  });
  m.def(
      "has_value", [](const at::Tensor &tensor) { return !remoteImpl(tensor)->remoteStorage()->lost; },
      "False for a tensor of a dropped step.");
  m.def("force_hash_collisions", &forceHashCollisions);
  m.def("device_count", [] { return Session::all().size(); });
  m.def("all_counters", [] {
    std::vector<std::map<std::string, uint64_t>> all;
    for (const auto &session : Session::all()) {
      all.push_back(Owner(session).counters());
    }
    return all;
  });
  m.def(
      "set_phase_listener",
      [](const py::object &listener) {
        if (listener.is_none()) {
          return setPhaseListener({});
        }
        auto function = keepCallable(listener);
        setPhaseListener([function](const std::string &phase, const std::string &text) {
          py::gil_scoped_acquire lock;
          (*function)(phase, text);
        });
      },
      py::arg("listener"), "Calls listener(phase, text) after every phase of every compilation; None removes it.");
  bindArtifact(m);
}
