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

/// Registers tables with an owner in this process.
class Registrar {
public:
  virtual ~Registrar() = default;
  virtual void add(const std::string &name, const Source &source, const RegisterOptions &options) = 0;
  /// `keys`: of other owners, 64 hexadecimal digits each.
  virtual void share(const std::string &name, const std::vector<std::string> &keys, const std::string &level) = 0;
};
} // namespace frontend

/// Registers device "owner" with torch. Linking the library already does this; calling again does nothing.
void initialize();

/// The source of a registered or plain table: a .csv, .parquet, .arrow, .feather or .npz file, or
/// one-dimensional CPU tensors of one length (bool, uint8, int8..int64, float16, float32, float64).
struct Source {
  Source(std::string file) : path(std::move(file)) {}
  Source(const char *file) : path(file) {}
  Source(std::vector<std::pair<std::string, at::Tensor>> arrays) : columns(std::move(arrays)) {}
  std::string path;
  std::vector<std::pair<std::string, at::Tensor>> columns;
};

struct RegisterOptions {
  /// "open" (values may be published) or "private" (values leave only with noise, charged to a budget).
  std::string policy = "private";
  /// Column -> closed range; its values are clamped to it.
  std::map<std::string, std::pair<double, double>> bounds;
  /// Column -> number that replaces missing and non-finite entries, which are otherwise refused.
  std::map<std::string, double> fills;
  /// The column that names each row's subject, the person that policy "private" protects. Duplicates are refused; the
  /// column is not part of the table. Empty: each row is a separate subject.
  std::string subject = {};
  /// A common name for tables about the same people, which share one cap. Empty: the table's name.
  std::string population = {};
  /// Column -> its categories, which clients see. An entry of a file (a text or a whole number) becomes its position
  /// among them; tensors of int64 hold the positions already. A private table needs them for every column of text.
  std::map<std::string, Meaning> meanings = {};
  /// For a file: column -> fill, or bounds, in words: a category, or a date such as "2024-03-01".
  std::map<std::string, std::string> fillTexts = {};
  std::map<std::string, std::pair<std::string, std::string>> boundTexts = {};
};

/// A value at an owner that has a name.
struct ValueInfo {
  std::string name;
  std::vector<std::string> tags;
  at::ScalarType dtype;
  std::vector<int64_t> shape;
  uint64_t bytes = 0;              ///< of its elements
  int64_t namedMs = 0, usedMs = 0; ///< milliseconds since 1970
  int64_t leaseMs = 0;             ///< how long it keeps the name after its last use
};

/// A connection to one owner. Copies share it.
class Owner {
public:
  explicit Owner(std::shared_ptr<frontend::Session> session, std::shared_ptr<frontend::Registrar> registrar = nullptr)
      : session_(std::move(session)), registrar_(std::move(registrar)) {}
  /// Device "owner:N"; `tensor.to(owner.device())` uploads a tensor.
  c10::Device device() const;
  /// The data owner's name for this client: "local" in its own process, empty without an identity.
  std::string account() const;
  /// The owner's public key, which verifies receipts, as 64 hexadecimal digits; empty without an identity.
  std::string key() const;
  /// Every table of this owner.
  std::vector<Table> datasets() const;
  /// Of these the ones with each word of `text` in the name, the description, a tag or the name of a column, in
  /// whatever case, with the tag, and with all of the columns. Empty arguments ask for nothing.
  std::vector<Table> search(const std::string &text, const std::string &tag = "",
                            const std::vector<std::string> &columns = {}) const;
  /// The table with this name. An unknown name throws Error, which lists the known names.
  Table dataset(const std::string &name) const;
  /// Registers a table with an embedded owner (you are its data owner). Throws Error at any other owner.
  Table registerDataset(const std::string &name, const Source &source, const RegisterOptions &options = {}) const;
  /// Says what other owners may see of a table of an embedded owner in steps of a group (`parties`): "clear", whatever
  /// the client may see, too, "sums", totals over rows of all members, or "none". Throws Error at any other owner.
  void share(const std::string &name, const std::vector<Owner> &with, const std::string &level = "clear") const;
  /// Values here to which this client has given names (`nameValues`), in the order of names; with a tag, or all.
  std::vector<ValueInfo> values(const std::string &tag = "") const;
  /// Values by their names, in one request: all of them, or an Error that lists the names there are. Later updates in
  /// place change the value that has the name, here and after this session.
  std::vector<at::Tensor> takeValues(const std::vector<std::string> &names) const;
  /// Takes names away, all or none; a value goes where no session has it.
  void releaseNames(const std::vector<std::string> &names) const;
  /// Sends all recorded work that was not sent yet.
  void flush() const;
  void close() const;
  std::map<std::string, uint64_t> counters() const;
  const std::shared_ptr<frontend::Session> &session() const { return session_; }

private:
  std::shared_ptr<frontend::Session> session_;
  std::shared_ptr<frontend::Registrar> registrar_;
};

/// Gives remote tensors of one owner names in the account of this client, all of them or none: they stay at the owner
/// when the session ends, until they are released or no client has used them for the owner's lease, and updates in
/// place go along. A name that another value has moves. Throws Error within a step, for views, and for tensors of a
/// group; Refused without an identity.
void nameValues(const std::vector<std::pair<std::string, at::Tensor>> &values,
                const std::vector<std::string> &tags = {});

/// Several owners, whose tables are used as one: steps on its device are computed by all of them together, one message
/// to each, and committed by all or by none. Copies share it.
class Parties {
public:
  explicit Parties(std::shared_ptr<frontend::Session> session) : session_(std::move(session)) {}
  c10::Device device() const;
  /// The tables of this name, one of each member, as one table; or these, in the order of the members. They have the
  /// same columns, and rows about different people. Throws Error where the columns differ or a table is private.
  Table rows(const std::string &name) const;
  Table rows(const std::vector<Table> &tables) const;
  void flush() const;
  void close() const;
  std::map<std::string, uint64_t> counters() const;
  const std::shared_ptr<frontend::Session> &session() const { return session_; }

private:
  std::shared_ptr<frontend::Session> session_;
};

/// A group of 2 to 16 owners that know each other. `masked`: whether members see of each other's sums over rows the
/// totals alone (three members or more; floats on a grid of step 2^-42, NaN where a part is beyond 2^20 / members); by
/// default where a member shares a table as sums. Throws Error where one of them refuses.
Parties parties(const std::vector<Owner> &owners, std::optional<bool> masked = std::nullopt);
/// Plain tables (`plain`) as one, whose batches are those of a group with the same tables; or tables that are described
/// for the parties of a step ahead of time (`specTable`), with their numbers of rows.
Table pooled(const std::vector<Table> &tables);

/// An owner in this process. `store`: folder that keeps its tables (empty: in memory). `profile`:
/// folder for the times of its programs' instructions (empty: no times are taken). Link `sojourn_local`,
/// which contains an owner; clients of remote owners do not need it.
Owner local(const std::string &store = "", const std::string &profile = "");

struct PlainOptions {
  std::string name = ""; ///< name of the table; default: the file's name
  std::map<std::string, std::pair<double, double>> bounds = {};
  std::map<std::string, double> fills = {};
  std::vector<std::string> columns = {};        ///< keep only these, in this order
  std::map<std::string, Meaning> meanings = {}; ///< as in RegisterOptions, with the two below
  std::map<std::string, std::string> fillTexts = {};
  std::map<std::string, std::pair<std::string, std::string>> boundTexts = {};
};

/// The Table interface over CPU tensors in this process, with the same batches and the checks of
/// registration. Link `sojourn_local`.
Table plain(const Source &source, const PlainOptions &options = {});

/// The identity of a client, to which an owner grants a budget. Without an identity a client is anonymous.
struct Credentials {
  /// File of the secret key made by `sojourn keygen FILE`; the data owner adds FILE.pub.
  std::string identity = {};
  /// The expected owner's key, as 64 hexadecimal digits (`sojourn-owner key`). Empty: the key first seen at this
  /// address, which is stored in FILE.owners; over tls+tcp:// without an identity in ~/.config/sojourn/owners.
  std::string ownerKey = {};
};

/// Connects to `sojourn-owner serve` at ipc:///path/to/socket or tls+tcp://host:port; `plainTcp`: also, without
/// encryption, at a tcp:// address of this machine, for tests. Throws ConnectionLost if no owner answers within
/// `timeoutMs`, Refused if the owner rejects the identity or is not the expected owner. A connection that breaks later
/// is made anew within `timeoutMs`, as long as somebody listens at the address.
Owner connect(const std::string &url, int timeoutMs = 60000, const Credentials &credentials = {},
              bool plainTcp = false);
/// Connects to any function from request bytes to reply bytes. Where that throws ConnectionLost, a request is repeated
/// once, and again within `timeoutMs`.
Owner connect(const std::string &name, std::function<wire::Message(std::string_view)> handle,
              const Credentials &credentials = {}, int timeoutMs = 0);

/// One round trip for everything recorded between construction and end(). Destruction without
/// end() (an exception) drops the recorded work and returns tensors to their committed values. An
/// optimizer's state on the host (step counts, state made in this step) is not rolled back: make a
/// new optimizer, or restore it from a copy.
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

/// While it lives, factory ops without a device, such as those in torch::nn's constructors, make
/// their tensors on this device. Per thread. (`torch::tensor({...})` names the CPU itself.)
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

namespace frontend {
template <class Module>
std::shared_ptr<Module> copyAt(const Module &module, c10::Device device) {
  DeviceScope scope(device);
  auto copy = std::dynamic_pointer_cast<Module>(module.clone(device));
  auto copied = copy->named_parameters();
  for (const auto &parameter : module.named_parameters()) {
    copied[parameter.key()].set_requires_grad(parameter.value().requires_grad());
  }
  return copy;
}
} // namespace frontend

/// A copy of a torch::nn module (as `*model`) at an owner, or at a group of owners. `Module::to` cannot move a module
/// there: it exchanges data within a tensor, which tensors of different kinds do not allow. As with any `clone`,
/// parameters that two modules share are no longer shared.
template <class Module>
std::shared_ptr<Module> toOwner(const Module &module, const Owner &owner) {
  return frontend::copyAt(module, owner.device());
}
template <class Module>
std::shared_ptr<Module> toOwner(const Module &module, const Parties &group) {
  return frontend::copyAt(module, group.device());
}

/// Calls `body` within a step and returns its result.
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

/// A published value, filled by the reply of its step. Publishing a CPU tensor gives the same type,
/// so one program serves both.
class Published {
public:
  explicit Published(std::shared_ptr<frontend::PublishedState> state);
  bool ready() const;
  /// CPU tensor. Throws ValueNeeded before the step has ended.
  at::Tensor value() const;
  /// Standard deviation of the noise in each number, if tables are private and the value is linear
  /// in its noise; otherwise NaN. 0 without noise.
  double error() const;
  /// The receipt that the owner signed for a release with its own price; otherwise empty.
  /// `receiptText` is the same in readable form (JSON).
  std::string receipt() const;
  std::string receiptText() const;
  const std::shared_ptr<frontend::PublishedState> &state() const { return state_; }

private:
  std::shared_ptr<frontend::PublishedState> state_;
  uint64_t step_; ///< in which it was published; 0: none
};

/// For values of private tables. The contribution of one row is clamped to `bound` (0: the dataset's default).
/// `epsilon` is a separate price for all values of a call together (0: part of the step's price); with `delta` the
/// noise is Gaussian (0: Laplace).
struct PublishOptions {
  double bound = 0, epsilon = 0, delta = 0;
};
/// Inside a step; the value arrives with the step's reply. Throws Error for options that no owner accepts.
std::vector<Published> publishLater(const std::vector<at::Tensor> &tensors, const PublishOptions &options = {});
/// Ends the implicit step and returns the value as a CPU tensor.
at::Tensor publish(const at::Tensor &tensor, const PublishOptions &options = {});
/// The release that publishing a tensor of private tables would make.
struct ReleaseQuote {
  bool isFree = true;             ///< exact and without a price: already released, or from open tables
  double error = 0;               ///< standard deviation of the noise; NaN if the value is not linear in it
  int64_t numbers = 0;            ///< count of numbers released together
  bool isLaplace = false;         ///< discrete Laplace noise; otherwise Gaussian
  double delta = 0;               ///< of the budget to be charged, whatever the options say; 0 if the release is free
  std::vector<std::string> notes; ///< changes that the owner would make in the program
};
/// The release that `publish` would make now for a separate price; nothing is spent, sent or run. Without a budget it
/// uses `options.delta`. Throws Error for options that no owner accepts, Refused if the owner would refuse.
ReleaseQuote quote(const at::Tensor &tensor, const PublishOptions &options);
/// Ends the implicit step; inside an explicit one it does nothing.
void flush();
/// Counters since the start, summed over all connections, closed ones too: round_trips, bytes_up, bytes_down,
/// ops_recorded, programs_compiled, cache_hits, live_handles and others.
std::map<std::string, uint64_t> counters();

} // namespace sojourn

#endif // SOJOURN_FRONTEND_SOJOURN_H
