// SPDX-License-Identifier: Apache-2.0
// Sojourn for C++ programs: connect to an owner, write ordinary libtorch code on its device, end
// each step with one round trip. Link `sojourn_frontend`; no Python is needed.
//
//   sojourn::Owner owner = sojourn::connect("ipc:///run/o.sock");
//   torch::nn::Sequential model(sojourn::toOwner(*onCpu, owner));
//   for (auto [x, y] : owner.dataset("patients").batches({.features = {"age"}, .label = "y"})) {
//     at::Tensor loss = sojourn::step([&] { return train(x, y); });   // one round trip
//   }
//   at::Tensor value = sojourn::publish(loss);
//
// Errors: sojourn::Error (a c10::Error) with a kind; shapes and arguments fail with torch's own.
#ifndef SOJOURN_FRONTEND_SOJOURN_H
#define SOJOURN_FRONTEND_SOJOURN_H

#include "frontend/Error.h"
#include "frontend/tables/Table.h"
#include "runtime/wire/Message.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace sojourn {

struct Source;
struct RegisterOptions;

namespace frontend {
class Session;
struct PublishedState;

/// How tables get into an owner of this process.
class Registrar {
public:
  virtual ~Registrar() = default;
  virtual void add(const std::string &name, const Source &source, const RegisterOptions &options) = 0;
};
} // namespace frontend

/// Registers device "owner" with torch. Linking the library does it; calling again does nothing.
void initialize();

/// Where a registered or plain table comes from: a .csv, .parquet, .arrow, .feather or .npz file, or
/// one-dimensional CPU tensors of one length (bool, uint8, int8..int64, float16, float32, float64).
struct Source {
  Source(std::string file) : path(std::move(file)) {}
  Source(const char *file) : path(file) {}
  Source(std::vector<std::pair<std::string, at::Tensor>> arrays) : columns(std::move(arrays)) {}
  std::string path;
  std::vector<std::pair<std::string, at::Tensor>> columns;
};

struct RegisterOptions {
  /// "open" (values may be published) or "private" (values leave with noise only, paid from a budget).
  std::string policy = "private";
  /// Column -> closed range that its values are clamped to.
  std::map<std::string, std::pair<double, double>> bounds;
  /// Column -> what replaces missing and non-finite entries, which are refused otherwise.
  std::map<std::string, double> fills;
  /// Whom policy private protects: the column that names each row's subject, none twice (it is no part of the table);
  /// empty: each row is a subject of its own.
  std::string subject = {};
  /// Tables of the same people have one name here, and one cap; empty: the table's own.
  std::string population = {};
};

/// A connection to one owner. Copies share it.
class Owner {
public:
  explicit Owner(std::shared_ptr<frontend::Session> session, std::shared_ptr<frontend::Registrar> registrar = nullptr)
      : session_(std::move(session)), registrar_(std::move(registrar)) {}
  /// Device "owner:N": `tensor.to(owner.device())` uploads a tensor of the caller's own.
  c10::Device device() const;
  /// What the data owner calls this client; empty without an identity. "local" in its own process.
  std::string account() const;
  /// The owner's public key, which checks receipts, as 64 hexadecimal digits; empty without an identity.
  std::string key() const;
  /// Every table of this owner.
  std::vector<Table> datasets() const;
  /// A table by name. Throws Error with the names there are.
  Table dataset(const std::string &name) const;
  /// Registers a table with an embedded owner (there you are the owner). Throws Error at any other.
  Table registerDataset(const std::string &name, const Source &source, const RegisterOptions &options = {}) const;
  /// Sends what is recorded and not yet sent.
  void flush() const;
  void close() const;
  std::map<std::string, uint64_t> counters() const;
  const std::shared_ptr<frontend::Session> &session() const { return session_; }

private:
  std::shared_ptr<frontend::Session> session_;
  std::shared_ptr<frontend::Registrar> registrar_;
};

/// An owner in this process; `store`: folder that keeps its tables (empty: in memory); `profile`:
/// folder for the times of its programs' instructions (empty: none are taken). Link `sojourn_local`,
/// which holds an owner; a client of remote owners does without.
Owner local(const std::string &store = "", const std::string &profile = "");

struct PlainOptions {
  std::string name = ""; ///< of the table; default: the file's
  std::map<std::string, std::pair<double, double>> bounds = {};
  std::map<std::string, double> fills = {};
  std::vector<std::string> columns = {}; ///< keep only these, in this order
};

/// The Table interface over CPU tensors in this process, with the same batches and the checks of
/// registration. Link `sojourn_local`.
Table plain(const Source &source, const PlainOptions &options = {});

/// Who a client is, to an owner that gives it a budget; without, it is nobody.
struct Credentials {
  /// The secret key that `sojourn keygen FILE` made; the data owner has added FILE.pub.
  std::string identity = {};
  /// The owner that is expected, as 64 hexadecimal digits (`sojourn-owner key`). Empty: the one that was met first at
  /// this address, which is kept in FILE.owners.
  std::string ownerKey = {};
};

/// Connects to `sojourn-owner serve`. Throws ConnectionLost if nobody answers within `timeoutMs`, Refused if the owner
/// does not take the identity, or is not the one expected.
Owner connect(const std::string &url, int timeoutMs = 60000, const Credentials &credentials = {});
/// Any function from request bytes to reply bytes.
Owner connect(const std::string &name, std::function<wire::Message(std::string_view)> handle,
              const Credentials &credentials = {});

/// One round trip for everything recorded between construction and end(); destruction without
/// end() (an exception) drops what was recorded and returns tensors to their committed values. What
/// an optimizer keeps on the host (step counts, state it made in this step) is not taken back: make
/// the optimizer anew, or restore it from a copy.
class Step {
public:
  Step();
  ~Step();
  Step(const Step &) = delete;
  Step &operator=(const Step &) = delete;
  void end();

private:
  bool open_ = true;
};

/// While it lives, factory ops that are given no device, such as those in torch::nn's constructors,
/// make their tensors on this one. Per thread. (`torch::tensor({...})` names the CPU itself.)
class DeviceScope {
public:
  explicit DeviceScope(c10::Device device);
  ~DeviceScope();
  DeviceScope(const DeviceScope &) = delete;
  DeviceScope &operator=(const DeviceScope &) = delete;

private:
  std::optional<c10::Device> before_;
  bool wasOn_;
};

/// A copy of a torch::nn module (as `*model`) at an owner. `Module::to` cannot move one there: it
/// exchanges data within a tensor, which tensors of different kinds do not allow. As with any
/// `clone`, parameters that two modules share are shared no more.
template <class Module>
std::shared_ptr<Module> toOwner(const Module &module, const Owner &owner) {
  DeviceScope scope(owner.device());
  auto copy = std::dynamic_pointer_cast<Module>(module.clone(owner.device()));
  auto copied = copy->named_parameters();
  for (const auto &parameter : module.named_parameters()) {
    copied[parameter.key()].set_requires_grad(parameter.value().requires_grad());
  }
  return copy;
}

/// Calls `body` within a step and returns what it returns.
template <class Body>
auto step(Body &&body) {
  Step step;
  if constexpr (std::is_void_v<decltype(body())>) {
    body();
    step.end();
  } else {
    auto result = body();
    step.end();
    return result;
  }
}

/// A published value: filled by the reply of the step it was published in. CPU tensors give the
/// same, so that one program serves both.
class Published {
public:
  explicit Published(std::shared_ptr<frontend::PublishedState> state);
  bool ready() const;
  /// CPU tensor. Throws ValueNeeded before the step has ended.
  at::Tensor value() const;
  /// Standard deviation of the noise in each number, where tables are private and the value is linear
  /// in its noise; else NaN. 0 of what has no noise.
  double error() const;
  /// What the owner signed for a release with a price of its own, and the same for people (JSON);
  /// else empty.
  std::string receipt() const;
  std::string receiptText() const;
  const std::shared_ptr<frontend::PublishedState> &state() const { return state_; }

private:
  std::shared_ptr<frontend::PublishedState> state_;
  uint64_t step_; ///< it was published in; 0: none
};

/// Of values of private tables: what one row adds is clamped to `bound` (0: the dataset's default);
/// `epsilon` is a price of its own, of all values of a call together (0: a part of the step's), with `delta` of
/// Gaussian noise (0: Laplace).
struct PublishOptions {
  double bound = 0, epsilon = 0, delta = 0;
};
/// Inside a step: the value arrives with the step's reply. Throws Error for options that no owner takes.
std::vector<Published> publishLater(const std::vector<at::Tensor> &tensors, const PublishOptions &options = {});
/// Ends the implicit step and returns the value as a CPU tensor.
at::Tensor publish(const at::Tensor &tensor, const PublishOptions &options = {});
/// What publishing a tensor of private tables would release.
struct ReleaseQuote {
  bool isFree = true;             ///< exact and without a price: released already, or of open tables
  double error = 0;               ///< standard deviation of the noise; NaN where the value is not linear in it
  int64_t numbers = 0;            ///< released together
  bool isLaplace = false;         ///< discrete Laplace noise, else Gaussian
  double delta = 0;               ///< of the budget that would pay, whatever was asked; 0 of what is free
  std::vector<std::string> notes; ///< what the owner would change in the program
};
/// What `publish` would release now for a price of its own; nothing is spent, sent or run. Without a budget it takes
/// `options.delta`. Throws Error for options that no owner takes, Refused where the owner would refuse.
ReleaseQuote quote(const at::Tensor &tensor, const PublishOptions &options);
/// Ends the implicit step; inside an explicit one it does nothing.
void flush();
/// Counters since start, summed over open connections: round_trips, bytes_up, bytes_down,
/// ops_recorded, programs_compiled, cache_hits, live_handles and others.
std::map<std::string, uint64_t> counters();

} // namespace sojourn

#endif // SOJOURN_FRONTEND_SOJOURN_H
