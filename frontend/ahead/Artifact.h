// SPDX-License-Identifier: Apache-2.0
// Ahead of time: a training step compiled to a file without data and without an owner, and run
// against an owner later. Neither needs Python.
//
//   sojourn::Offline offline;
//   auto artifact = sojourn::compile(offline, init, step, {{{64, 30}, at::kFloat}, {{64}, at::kLong}});
//   artifact.save("train.sojourn");
//   sojourn::ArtifactRun run(sojourn::Artifact::load("train.sojourn"), owner);
//   std::vector<at::Tensor> published = run.step({x, y});    // one round trip
//
// Over a table of the owner, of which only the description is needed; a run sends no data:
//
//   sojourn::Table train = sojourn::specTable(
//       offline, {.name = "train", .rows = 569, .columns = {{"age", at::kDouble}, {"y", at::kLong}}});
//   auto artifact = sojourn::compile(offline, init, step, {}, {train.batches({.features = {"age"}, .label = "y",
//                                                                             .epochs = 3, .dropLast = true})});
//   sojourn::ArtifactRun run(artifact, owner, {{"train", "patients"}});
//   for (int64_t i = 0; i < artifact.steps(); ++i) {
//     run.step({});                                          // the next batch, one round trip
//   }
//
// For several owners, by the parties whose tables it reads; a run says which owner plays which:
//
//   sojourn::Offline offline({"a", "b"});
//   Table first = specTable(offline, {.name = "first", ..., .party = "a"}), second = ...;
//   auto artifact = sojourn::compile(offline, init, step, {}, {pooled({first, second}).batches({...})});
//   sojourn::ArtifactRun run(artifact, {{"a", alice}, {"b", bob}}, {{"first", "patients"}, {"second", "patients"}});
#ifndef SOJOURN_FRONTEND_AHEAD_ARTIFACT_H
#define SOJOURN_FRONTEND_AHEAD_ARTIFACT_H

#include "frontend/Sojourn.h"
#include "frontend/session/StepCall.h"

#include <array>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace sojourn {

/// Shape and dtype of an input whose contents are given at run time.
struct Spec {
  std::vector<int64_t> sizes;
  at::ScalarType dtype = at::kFloat;
  /// A number for optimizers (a scheduled learning rate): 0-dim float64. The step reads it with
  /// item<double>() and uses it or its negative.
  bool number = false;
  /// For error texts; up to 128 printable bytes, or none.
  std::string name = {};
};

using ArtifactCall = frontend::StepCall;

/// Full batches that the steps of a run take one after another.
struct ArtifactBatches {
  int64_t size, epochs;
  size_t table;           ///< position in the artifact's tables
  std::vector<Side> part; ///< from the table down
  bool dropLast;          ///< a short last batch is left out; batches of a private table are never short
  /// Above 0: the rows of a batch of a joined table, of which these are the rows of one table. All batches of the
  /// artifact then belong together, and `size` is of the steady step.
  int64_t joint = 0;
};

/// A step for batches of a joined table that take other numbers of rows of its tables than the steady step.
struct ArtifactVariant {
  std::vector<int64_t> sizes; ///< rows of each of the artifact's batches
  ArtifactCall call;          ///< uses the names of steady
};

class Artifact {
public:
  /// Reads and checks a file. Throws Error with the problem of an invalid file; a checksum at its end detects
  /// any changed byte. Throws VersionMismatch for a file of another version.
  static Artifact load(const std::string &path);
  void save(const std::string &path) const;

  /// init, first, steady and short. short uses the names of steady, and has no program if `shortRows` is 0.
  std::array<ArtifactCall, 4> calls;
  /// Publishes the values that `compile` was told to keep readable; uses the names of steady. Without a program there
  /// are none.
  ArtifactCall state;
  /// Rows of the short last batch of an epoch, for which the short step was compiled; of a joined table a variant.
  int64_t shortRows = 0;
  std::vector<ArtifactVariant> variants;
  /// The parties of a step of several owners: the name of each role, in the order of the roles. None for one owner.
  std::vector<std::string> parties;
  std::vector<Spec> inputs;
  /// The owner's tables that it reads, by the names in their descriptions, each with the columns read.
  std::vector<Dataset> tables;
  /// Tables whose columns are read whole: their datasets must have exactly as many rows as described.
  std::set<std::string> wholeTables;
  std::vector<ArtifactBatches> batches;
  /// Number of batches in one epoch of `batches`, by the number of rows of its table; nullopt if that number is open.
  /// Throws Error if an epoch would have a short batch, or no batch.
  std::optional<int64_t> perEpoch(const ArtifactBatches &batches) const;
  /// The call that step `at` of a run takes.
  const ArtifactCall &callOf(int64_t at) const;
  /// Where `batches` number `index` starts in step `at` of a run, among the rows of its part.
  int64_t startOf(size_t index, int64_t at) const;
  /// Throws Error where an epoch has batches that no step was compiled for. The tables have their numbers of rows.
  void checkBatches() const;
  /// Number of steps until its batches end; nullopt if it takes no batches, or a table's number of rows is open.
  std::optional<int64_t> steps() const;
  std::vector<uint64_t> loopFrom, loopTo;
  std::string outputTree, stateTree;

private:
  bool isShort(int64_t at) const;
  /// Of the tables behind `batches`, each in its part.
  std::vector<int64_t> rowsOfBatches() const;
};

namespace frontend {
struct DatasetInfo;
struct Judgement;

/// A table described without data, and the columns read so far.
struct SpecifiedTable {
  Dataset spec;
  std::set<std::string> read;
  bool isWhole = false; ///< whether whole columns were read
};
using SpecifiedTables = std::vector<SpecifiedTable>;

/// The problem with a description of a table (rows, columns, bounds, policy, defaults); empty if it is valid.
std::string checkTableSpec(const Dataset &spec);
/// A description in the form that an owner sends.
DatasetInfo infoOf(const Dataset &spec);
/// An owner's judgement of a call on such tables; throws Refused if an owner would refuse it.
Judgement judge(const Artifact &artifact, const ArtifactCall &call);
/// The problem with the names of a step's parties; empty if they are valid, or if there are none.
std::string checkParties(const std::vector<std::string> &parties);
/// "a, b, c"
std::string partiesText(const std::vector<std::string> &parties);
/// The datasets behind an artifact's tables, in their order; the artifact's tables get their numbers of rows. In a
/// group each table is at the member that plays its party. Throws Error if a dataset is missing or does not match.
std::vector<wire::TableBinding> bindTables(Artifact &artifact, Session &session,
                                           const std::map<std::string, std::string> &names);
/// Throws Error where the last batch of an epoch is short and has other rows than `shortRows`.
void requireFull(const std::string &table, int64_t rows, int64_t size, int64_t shortRows);
inline constexpr const char *kLeaveOut =
    "leave the short batch out with drop_last=True (dropLast in C++), compile a second step "
    "for it with short= (shortRows), or choose a size that divides the rows";
} // namespace frontend

/// An offline device, which records without an owner. It ends with the object.
class Offline {
public:
  /// `parties`: for steps of several owners, the names of 2 to 16 parties in the order of their roles; each table is
  /// then described as one party's. Throws Error for other numbers, and for names that are empty or not different.
  explicit Offline(const std::vector<std::string> &parties = {});
  const std::vector<std::string> &parties() const { return parties_; }
  /// For what is recorded from now on.
  void setParties(const std::vector<std::string> &parties);
  c10::Device device() const;
  const std::shared_ptr<frontend::Session> &session() const { return session_; }
  frontend::SpecifiedTables &tables() const { return *tables_; }

private:
  friend Table specTable(const Offline &offline, Dataset spec);
  std::shared_ptr<frontend::Session> session_;
  std::vector<std::string> parties_;
  std::shared_ptr<frontend::SpecifiedTables> tables_ = std::make_shared<frontend::SpecifiedTables>();
};

/// Describes a table without an owner: its `name` (a run says which dataset it is) and its columns, each
/// with name, dtype, shape and, if the step relies on them, bounds. Batches, splits and whole columns of
/// the table can be recorded. `rows`: whole columns need the number of rows, and the dataset must then have
/// exactly as many. Batches and splits do not need it (std::nullopt); a run uses the dataset's number.
/// Throws Error for an invalid description.
///
/// A private table is described with `policy` "private" and the bounds of every column except booleans. Its
/// batches are then the owner's draws, and a step that cannot be proved is refused when it is compiled. Give
/// `defaults`, or std::nullopt for none. The description is compared with the owner's table when a run starts;
/// no owner trusts it.
///
/// On a device with parties, `party` says whose table it is, and the table is open. `pooled` joins such tables, with
/// their numbers of rows; batches of each by itself need none.
Table specTable(const Offline &offline, Dataset spec);

/// Records `init` once and `step` three times (optimizers make their state in the first step, and
/// the third must repeat the second), and further times where that does not show yet how values take each other's
/// places, and with `state` once more. A run returns the values that `step` publishes with `publishLater`. Throws
/// Unsupported, with the op and its line, if a float differs between steps (a learning rate set from outside, Adam
/// without `capturable`): make it a number input instead.
///
/// `batches`: batches of tables that `specTable` made on this device. Each step takes the next batch of
/// each, like a loop over them. `step` gets their tensors (`Batch::tensors`) before the inputs. A compiled
/// step has one shape, so a last batch that is or may be short throws Error. `dropLast` leaves it out;
/// `shortRows` compiles a second step for a last batch of this many rows (with a single `batches`). A run
/// over a table that leaves another remainder is refused. Batches of a joined table (`pooled`) take other numbers of
/// rows of its tables where these run out: a step is compiled for each kind of batch that the described tables have.
///
/// `state`: called after the steps; a run reads the values of these tensors at any time (`ArtifactRun::state`).
Artifact compile(const Offline &offline, const std::function<void()> &init,
                 const std::function<void(const std::vector<at::Tensor> &)> &step, const std::vector<Spec> &inputs,
                 const std::vector<Batches> &batches = {}, std::optional<int64_t> shortRows = std::nullopt,
                 const std::function<std::vector<at::Tensor>()> &state = {});

/// The privacy cost of a run for the subjects of a private table.
struct RunQuote {
  double epsilon = 0, delta = 0;
  int64_t steps = 0;
  double noiseMultiplier = 0;
  double samplingRate = 1;       ///< of the steady step: the largest among its draws of the table
  double epsilonOfBestOrder = 0; ///< of the run alone, as other accountants quote it
};

/// The price of the first `steps` steps of an artifact for one of its private tables, computed from the
/// artifact alone; nothing runs. Give either `epsilon` (the noise follows) or `noiseMultiplier` (the price
/// follows), and 0 for the other; with neither, the described defaults of the table apply. `rows`: the
/// table's number of rows; default: that of its description. Releases with a separate price are added to
/// this price. Throws Error for invalid numbers, Refused for steps that an owner would refuse.
RunQuote quoteRun(const Artifact &artifact, const std::string &table, double delta, double epsilon,
                  double noiseMultiplier, std::optional<int64_t> steps = std::nullopt,
                  std::optional<int64_t> rows = std::nullopt);

/// The outcome of several steps.
struct ArtifactSteps {
  std::vector<std::vector<at::Tensor>> published; ///< per committed step; empty if the reply was lost
  int64_t committed = 0;
  std::exception_ptr failure; ///< of the next step, or the reason why their values are lost
  bool isStopped = false;     ///< by the follower
};

/// The owners that play the parties of an artifact, in the order of its roles; one, if it plays all of them. Throws
/// Error where a party is missing or unknown, or an owner plays some of them, but not all.
std::vector<Owner> playersOf(const Artifact &artifact, const std::map<std::string, Owner> &parties);

/// Execution at an owner, or at a group of owners: `init` at construction, then one round trip per step or per several
/// steps.
class ArtifactRun {
public:
  /// `tables`: table of the artifact -> the owner's dataset; a table missing here is the dataset of the
  /// same name. Throws Error if the dataset does not exist, or if rows, dtype, shape or specified bounds
  /// of a column differ from those that the step was compiled for.
  /// An owner runs an artifact of several parties by itself, over tables that are all its own.
  ArtifactRun(Artifact artifact, const Owner &owner, const std::map<std::string, std::string> &tables = {});
  /// The members of the group play the parties, in their order. Throws Error where there are more or fewer.
  ArtifactRun(Artifact artifact, const Parties &group, const std::map<std::string, std::string> &tables = {});
  /// Party -> the owner that plays it, in a group that ends with the run; without a group if one plays all.
  ArtifactRun(Artifact artifact, const std::map<std::string, Owner> &parties,
              const std::map<std::string, std::string> &tables = {});
  ~ArtifactRun();
  /// The artifact with the run's tables: their numbers of rows are those of the datasets.
  const Artifact &artifact() const { return artifact_; }
  /// Takes CPU inputs that match the artifact's specs; returns the published values as CPU tensors. The
  /// batches follow from the number of steps that have run. Throws Error if an input does not match its
  /// spec, or if no batch is left.
  std::vector<at::Tensor> step(const std::vector<at::Tensor> &inputs);
  /// One step for each element of `inputs`, in one round trip unless they are large. The first step of a run is
  /// another program and takes a separate trip. Each step commits by itself. While they run, `follow` is called with
  /// the number of committed steps; if it returns false, no further step begins. Throws if no step ran.
  ArtifactSteps steps(const std::vector<std::vector<at::Tensor>> &inputs,
                      const std::function<bool(uint64_t committed)> &follow = {});
  /// The values, after the steps so far, of the tensors that `compile` was given as `state`; one round trip. Throws
  /// Error if there are none, Refused if the policy keeps a value at the owner.
  std::vector<at::Tensor> state();

private:
  ArtifactRun(Artifact artifact, std::shared_ptr<frontend::Session> session,
              const std::map<std::string, std::string> &tables);
  /// The owner's handles by the artifact's names, and handles that no longer have a name.
  struct Handles {
    std::map<uint64_t, uint64_t> named;
    std::vector<uint64_t> unnamed;
    void set(uint64_t name, uint64_t handle);
    uint64_t at(uint64_t name) const;
  };

  void checkInputs(const std::vector<at::Tensor> &inputs) const;
  /// The bindings of step `at` of the run, without releases. `keep` holds the bytes of its inputs.
  wire::Repetition bind(const ArtifactCall &call, const std::vector<at::Tensor> &inputs, int64_t at,
                        const Handles &handles, std::vector<at::Tensor> &keep) const;
  /// Renames `handles` for the next repetition of the steady step.
  void turn(Handles &handles) const;
  /// Updates `handles` after a call; returns the handles to release.
  static std::vector<uint64_t> commit(const ArtifactCall &call, const std::vector<uint64_t> &results, Handles &handles);
  ArtifactSteps run(const ArtifactCall &call, const std::vector<std::vector<at::Tensor>> &inputs,
                    const std::function<bool(uint64_t committed)> &follow);

  Artifact artifact_;
  std::shared_ptr<frontend::Session> session_; ///< of the owner or group
  int64_t steps_ = 0;
  std::vector<wire::TableBinding> bindings_; ///< per table of the artifact
  Handles handles_;
};

} // namespace sojourn

#endif // SOJOURN_FRONTEND_AHEAD_ARTIFACT_H
