// SPDX-License-Identifier: Apache-2.0
// The Python extension: converts and forwards. Everything here exists in C++ too.
#include "frontend/bind/Bind.h"
#include "frontend/bind/Frames.h"
#include "frontend/recording/Record.h"
#include "frontend/recording/Slots.h"
#include "frontend/recording/Packed.h"
#include "frontend/flight/Flights.h"
#include "frontend/Interrupt.h"
#include "frontend/local/Local.h"
#include "frontend/session/BackOff.h"

#include <pybind11/stl.h>

namespace py = pybind11;
using namespace sojourn;
using namespace sojourn::frontend;

namespace {

/// Other Python threads run while the owner answers; an owner may be one of them.
using WhileOwnerWorks = py::call_guard<py::gil_scoped_release>;

/// The module that holds the exception classes, set by the package.
py::object *errorModule = nullptr;

/// torch turns python_error back into the Python exception on every path, backward's included.
class PythonError : public python_error, public HasErrorKind {
public:
  explicit PythonError(ErrorKind kind) : raised(kind) {}
  ErrorKind kind() const override { return raised; }

private:
  ErrorKind raised;
};

/// Raises the Python class of a kind, from any thread.
void raisePython(ErrorKind kind, const std::string &message) {
  py::gil_scoped_acquire lock;
  if (!errorModule) {
    return;
  }
  py::object cls = errorModule->attr(errorKindName(kind));
  // A name out of a damaged file need not be UTF-8.
  auto text = py::reinterpret_steal<py::object>(
      PyUnicode_DecodeUTF8(message.data(), static_cast<Py_ssize_t>(message.size()), "replace"));
  PyErr_SetObject(cls.ptr(), text.ptr());
  PythonError error(kind);
  error.persist();
  throw error;
}

/// What a handler of a signal raises in this thread; handlers run in the main thread alone.
std::exception_ptr heardSignal() {
  if (!Py_IsInitialized() || _Py_IsFinalizing()) {
    return nullptr;
  }
  py::gil_scoped_acquire lock;
  if (PyErr_Occurred() || PyErr_CheckSignals() == 0) {
    return nullptr;
  }
  python_error error;
  error.persist();
  return std::make_exception_ptr(error);
}

/// Raises it in the main thread once that runs Python again.
void raiseLater(std::exception_ptr interruption) {
  auto *kept = new std::exception_ptr(std::move(interruption));
  auto raiseNow = [](void *given) {
    std::unique_ptr<std::exception_ptr> raised(static_cast<std::exception_ptr *>(given));
    try {
      std::rethrow_exception(*raised);
    } catch (python_error &error) {
      error.restore();
    } catch (const std::exception &error) {
      PyErr_SetString(PyExc_RuntimeError, error.what());
    }
    return -1;
  };
  if (Py_AddPendingCall(raiseNow, kept) != 0) {
    delete kept;
    PyErr_SetInterrupt(); // many wait already
  }
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

std::shared_ptr<Session> openSession(const py::object &transport, const std::string &name, std::optional<int> timeoutMs,
                                     const std::string &identity, const std::string &ownerKey, bool plainTcp) {
  Credentials credentials{identity, ownerKey};
  initialize();
  // The calling thread records backward too: no hop, and the caller's line is known.
  py::module_::import("torch").attr("autograd").attr("set_multithreading_enabled")(false);
  if (py::isinstance<py::str>(transport)) {
    auto url = transport.cast<std::string>();
    py::gil_scoped_release unlock;
    return connect(url, timeoutMs.value_or(60000), credentials, plainTcp).session();
  }
  if (py::isinstance<EmbeddedOwner>(transport)) {
    auto embedded = transport.cast<std::shared_ptr<EmbeddedOwner>>();
    return connect(
               name, [embedded](std::string_view request) { return embedded->handle(request); }, credentials)
        .session();
  }
  auto function = keepCallable(transport);
  auto call = [function](std::string_view request) {
    if (!Py_IsInitialized()) {
      throw Error(ErrorKind::ConnectionLost, "the interpreter of this transport has ended");
    }
    py::gil_scoped_acquire lock;
    try {
      py::object reply = (*function)(py::bytes(request.data(), request.size()));
      return wire::Message::of(reply.cast<std::string>());
    } catch (py::error_already_set &error) {
      if (errorModule && error.matches(errorModule->attr("ConnectionLost"))) {
        // What a transport says of itself: the client decides what that means.
        throw Error(ErrorKind::ConnectionLost, py::str(error.value()));
      }
      throw;
    }
  };
  return connect(name, call, credentials, timeoutMs.value_or(0)).session();
}

} // namespace

PYBIND11_MODULE(_sojourn, m) {
  m.doc() = "Sojourn's C++ core; use the package `sojourn`.";
  initialize();

  m.def("install", [](py::object module, const std::string &torchFolder, const std::string &sojournFolder,
                      const std::vector<std::string> &installed) {
    // Outlives the interpreter: exceptions may be raised until the very end.
    errorModule = new py::object(std::move(module));
    setRaiser(&raisePython);
    setLockWaiter([](std::mutex &mutex) {
      if (!PyGILState_Check()) {
        return mutex.lock();
      }
      py::gil_scoped_release unlock;
      mutex.lock();
    });
    setInterruptSource(&heardSignal, &raiseLater);
    setReclaimer([] {
      py::gil_scoped_acquire interpreter;
      py::module_::import("sojourn.owner").attr("reclaim")();
    });
    installFrameSource(torchFolder, sojournFolder, installed);
  });

  py::class_<EmbeddedOwner, std::shared_ptr<EmbeddedOwner>>(m, "EmbeddedOwner")
      .def(py::init<const std::string &, const std::string &>(), py::arg("store") = "", py::arg("profile") = "")
      .def(
          "register",
          [](EmbeddedOwner &self, const std::string &name, const py::object &source, const std::string &policy,
             const Ranges &bounds, const std::map<std::string, double> &fills, const std::string &subject,
             const std::string &population, const std::map<std::string, PythonMeaning> &meanings,
             const Words &fillTexts, const WordPairs &boundTexts) {
            Source columns = sourceOf(source);
            RegisterOptions options{policy,    bounds,    fills, subject, population, meaningsOf(meanings),
                                    fillTexts, boundTexts};
            py::gil_scoped_release unlock;
            self.add(name, columns, options);
          },
          py::arg("name"), py::arg("source"), py::arg("policy"), py::arg("bounds") = Ranges(),
          py::arg("fills") = std::map<std::string, double>(), py::arg("subject") = "", py::arg("population") = "",
          py::arg("meanings") = std::map<std::string, PythonMeaning>(), py::arg("fill_texts") = Words(),
          py::arg("bound_texts") = WordPairs())
      .def("describe", &EmbeddedOwner::describe, py::arg("dataset"), py::arg("text"), py::arg("tags"))
      .def("share", &EmbeddedOwner::share, py::arg("dataset"), py::arg("keys"), py::arg("level"))
      .def("set_defaults", &EmbeddedOwner::setDefaults, py::arg("dataset"), py::arg("noise_multiplier"),
           py::arg("clip"), py::arg("metric_bound"))
      .def_property_readonly("key", &EmbeddedOwner::key)
      .def("grant", &EmbeddedOwner::grant, py::arg("dataset"), py::arg("epsilon"), py::arg("delta"))
      .def("handle",
           [](EmbeddedOwner &self, const py::bytes &request) {
             wire::Message reply;
             std::string_view view = request;
             {
               py::gil_scoped_release unlock;
               reply = self.handle(view);
             }
             return py::bytes(reply.bytes.data(), reply.bytes.size());
           })
      .def_property_readonly("requests", [](EmbeddedOwner &self) { return self.requests(); })
      .def_property_readonly("steps", [](EmbeddedOwner &self) { return self.steps(); });

  py::class_<Session, std::shared_ptr<Session>>(m, "Session")
      .def(py::init(&openSession), py::arg("transport"), py::arg("name"), py::arg("timeout_ms") = py::none(),
           py::arg("identity") = "", py::arg("owner_key") = "", py::arg("plain_tcp") = false)
      .def_static("offline",
                  [] {
                    py::module_::import("torch").attr("autograd").attr("set_multithreading_enabled")(false);
                    return Session::openOffline();
                  })
      .def_property_readonly("account", &Session::account)
      .def_property_readonly("owner_key", &Session::ownerKey)
      .def_property_readonly("is_elsewhere", &Session::isElsewhere)
      .def_property_readonly("is_closed", &Session::isClosed)
      .def_property_readonly("index", [](Session &self) { return static_cast<int>(self.index()); })
      .def(
          "datasets", [](const std::shared_ptr<Session> &self) { return Owner(self).datasets(); }, WhileOwnerWorks())
      .def(
          "search",
          [](const std::shared_ptr<Session> &self, const std::string &text, const std::string &tag,
             const std::vector<std::string> &columns) { return Owner(self).search(text, tag, columns); },
          py::arg("text") = "", py::arg("tag") = "", py::arg("columns") = std::vector<std::string>(), WhileOwnerWorks())
      .def(
          "dataset",
          [](const std::shared_ptr<Session> &self, const std::string &name) { return Owner(self).dataset(name); },
          WhileOwnerWorks())
      .def(
          "programs",
          [](Session &self, bool withText) {
            std::vector<ProgramSummary> programs;
            {
              py::gil_scoped_release unlock;
              programs = self.programs(withText);
            }
            py::list all;
            for (const ProgramSummary &program : programs) {
              all.append(py::dict(py::arg("hash") = py::bytes(program.hash).attr("hex")(),
                                  py::arg("client") = program.client, py::arg("runs") = program.runs,
                                  py::arg("ops") = program.ops, py::arg("text") = program.text,
                                  py::arg("privacy") = program.privacy));
            }
            return all;
          },
          py::arg("with_text") = false)
      .def("counters", [](const std::shared_ptr<Session> &self) { return Owner(self).counters(); })
      .def("close", &Session::close, WhileOwnerWorks())
      .def(
          "flush", [](const std::shared_ptr<Session> &self) { flush(self); }, WhileOwnerWorks());

  py::class_<Published>(m, "Published")
      .def_property_readonly("ready", &Published::ready)
      .def("value", &Published::value)
      .def_property_readonly("error", &Published::error)
      .def_property_readonly("receipt", [](const Published &self) { return py::bytes(self.receipt()); })
      .def_property_readonly("receipt_text", &Published::receiptText);
  m.def(
      "publish",
      [](const std::vector<at::Tensor> &tensors, double bound, double epsilon, double delta) {
        return publishLater(tensors, {bound, epsilon, delta});
      },
      py::arg("tensors"), py::arg("bound") = 0.0, py::arg("epsilon") = 0.0, py::arg("delta") = 0.0);
  bindParties(m);
  bindPrivacy(m);
  // Waiting for a session politely needs no release here: nobody waits with the interpreter held.
  m.def(
      "step_begin", [] { return Steps::begin(); }, "Whether this step is the outermost.");
  m.def(
      "step_end", [](const std::shared_ptr<Trip> &trip) { endStep(trip); }, py::arg("trip") = nullptr,
      WhileOwnerWorks(), "A trip counts the step.");
  m.def("step_abort", [] { Steps::abort(); });
  m.def(
      "slots_hint", [](const std::string &text) { return slotsHint(text); },
      "The hint for an error whose text names the rows and the slots of a private draw.");
  m.def("step_active", [] { return Steps::active(); });
  m.def(
      "current_step", [] { return Steps::current(); }, "Number of the open step, 0 if none is open.");
  m.def(
      "flush", [] { flushAll(); }, WhileOwnerWorks());
  m.def("take_news", &News::takeAny, "Whether an owner has sent notes since the last call.");
  m.def("take_explanations", [](Session &session) {
    py::list all;
    for (const Explanation &each : session.news().takeExplanations()) {
      all.append(py::make_tuple(each.why, each.op, each.argument, each.before, each.now, each.line.file, each.line.line,
                                each.ops, each.isGeneral, each.seconds, each.program));
    }
    return all;
  });
  m.def("describe_operator", &describeOperator, py::arg("name"),
        "The treatment of its calls, and the reason for a refusal.");
  m.def("same_storage", [](const at::Tensor &a, const at::Tensor &b) {
    return remoteImpl(a)->remoteStorage() == remoteImpl(b)->remoteStorage();
  });
  m.def(
      "has_value", [](const at::Tensor &tensor) { return !remoteImpl(tensor)->remoteStorage()->lost; },
      "False for a tensor of a dropped step.");
  m.def("copied_bytes", &wire::copiedBytes, "Bytes of tensors copied into or out of messages so far.");
  m.def("force_hash_collisions", &forceHashCollisions);
  m.def(
      "set_first_pause", [](int milliseconds) { setFirstPause(std::chrono::milliseconds(milliseconds)); },
      "For tests: how long a request waits before it is repeated for the first time.");
  m.def(
      "set_busy_pauses",
      [](int first, int longest, int most, int told) {
        using std::chrono::milliseconds;
        setBusyPauses(milliseconds(first), milliseconds(longest), milliseconds(most), milliseconds(told));
      },
      py::arg("first") = 50, py::arg("longest") = 2'000, py::arg("most") = 120'000, py::arg("told") = 5'000,
      "For tests, in ms: pauses before a step is repeated for which an owner was busy, how long it is tried for, and "
      "after which time a warning says so.");
  m.def("set_upload_bounds", &setUploadBounds, py::arg("in_message"), py::arg("part"),
        "For tests: limits, in bytes, of the uploads in one step's message, and of a part of the uploads sent ahead.");
  m.def(
      "set_gathering",
      [](size_t from, size_t many, uint64_t age) {
        setGathering({from, many, age});
      },
      py::arg("from_values") = Gathering().from, py::arg("many") = Gathering().many, py::arg("age") = Gathering().age,
      "For tests: from how many live values on small ones are gathered, how many at a time, after how many steps.");
  m.def("device_count", [] { return Session::all().size(); });
  m.def("connected_count", [] {
    const auto all = Session::all();
    return std::count_if(all.begin(), all.end(), [](const auto &session) { return session && !session->isClosed(); });
  });
  m.def("counters", [] { return counters(); });
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
  bindForeign(m);
  bindReads(m);
  bindReplay(m);
  bindTable(m);
  bindGenerator(m);
  bindNumpy(m);
  bindTrip(m);
  bindUses(m);
  bindValues(m);
  bindArtifact(m);
}
