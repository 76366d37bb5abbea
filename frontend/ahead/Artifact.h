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
#ifndef SOJOURN_FRONTEND_AHEAD_ARTIFACT_H
#define SOJOURN_FRONTEND_AHEAD_ARTIFACT_H

#include "frontend/Sojourn.h"
#include "runtime/wire/Step.h"

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

/// Shape and dtype of an input whose contents come at run time.
struct Spec {
  std::vector<int64_t> sizes;
  at::ScalarType dtype = at::kFloat;
  /// A number that optimizers take as such (a scheduled learning rate): 0-dim float64; the step
  /// reads it with item<double>() and uses it or its negative.
  bool number = false;
};

/// One call of an artifact: a step message that lacks what each run supplies.
struct ArtifactCall {
  /// Handles are names within the artifact; constants are among its uploads. Without a program it
  /// does nothing.
  wire::Step step;
  std::shared_ptr<const void> bytes; ///< what `step` borrows from
  std::vector<int> uploadInputs;     ///< per upload: 0 for a constant, or position + 1 of an input
  std::vector<int> slotInputs;       ///< per slot: 0, or +-(position + 1) of a number input
  std::vector<int> slotBatches;      ///< per slot: 0, or position + 1 of batches (their start), negated (their epoch)
  size_t seeds = 0;                  ///< drawn anew at every run
  size_t published = 0;
};

/// Full batches that the steps of a run take one after the other.
struct ArtifactBatches {
  int64_t size, epochs;
  size_t table;           ///< of the artifact's tables
  std::vector<Side> part; ///< from the table down
  bool dropLast;          ///< a short last batch is left out; of a private table none is short
};

class Artifact {
public:
  /// Reads and checks a file. Throws Error naming what is wrong with it: any byte that is not as it was
  /// saved, by the checksum at its end. Throws VersionMismatch for a file of another version.
  static Artifact load(const std::string &path);
  void save(const std::string &path) const;

  /// init, first, steady; and short, in the names of steady, which is without a program where `shortRows` is 0.
  std::array<ArtifactCall, 4> calls;
  /// Rows of the last batch of an epoch that the short step was compiled for.
  int64_t shortRows = 0;
  std::vector<Spec> inputs;
  /// The owner's tables that it reads, by the names of their specifications, with the columns read.
  std::vector<Dataset> tables;
  /// Those of which whole columns are read: they have just as many rows as described.
  std::set<std::string> wholeTables;
  std::vector<ArtifactBatches> batches;
  /// Batches of one epoch of `batches`, by the number of rows of its table; none where that is open. Throws Error where
  /// an epoch would have a short batch, or none.
  std::optional<int64_t> perEpoch(const ArtifactBatches &batches) const;
  /// Whether step `at` of a run takes the short last batch of an epoch.
  bool isShort(int64_t at) const;
  /// Steps that all of its batches last for; none if it takes no batches, or where a table's number of rows is open.
  std::optional<int64_t> steps() const;
  std::vector<uint64_t> loopFrom, loopTo;
  std::string outputTree;
};

namespace frontend {
struct DatasetInfo;
struct Judgement;

/// A table that was specified without data, and what has been read of it.
struct SpecifiedTable {
  Dataset spec;
  std::set<std::string> read;
  bool isWhole = false; ///< whole columns were
};
using SpecifiedTables = std::vector<SpecifiedTable>;

/// What is wrong with the description of a table: rows, columns, bounds, policy, defaults. Empty if nothing is.
std::string checkTableSpec(const Dataset &spec);
/// A description as an owner would tell it.
DatasetInfo infoOf(const Dataset &spec);
/// What an owner of such tables would make of a call; throws Refused where it would refuse it.
Judgement judge(const Artifact &artifact, const ArtifactCall &call);
/// The datasets behind an artifact's tables, in their order; the artifact's tables get their numbers of rows. Throws
/// Error if one is not there, or is not as the artifact needs it.
std::vector<wire::TableBinding> bindTables(Artifact &artifact, const Owner &owner,
                                           const std::map<std::string, std::string> &names);
} // namespace frontend

/// An offline device: records without an owner. Ends with the object.
class Offline {
public:
  Offline();
  c10::Device device() const;
  const std::shared_ptr<frontend::Session> &session() const { return session_; }
  frontend::SpecifiedTables &tables() const { return *tables_; }

private:
  friend Table specTable(const Offline &offline, Dataset spec);
  std::shared_ptr<frontend::Session> session_;
  std::shared_ptr<frontend::SpecifiedTables> tables_ = std::make_shared<frontend::SpecifiedTables>();
};

/// A table of an owner that is not there yet: `name` (a run says which dataset that is), and
/// of its columns name, dtype, shape and, if the step counts on them, bounds. Batches, splits and
/// whole columns of it can be recorded. `rows`: whole columns need them, and the dataset must have
/// just as many then; batches and splits do without (std::nullopt), and a run counts by the dataset.
/// Throws Error for what no table can be.
///
/// Of a private table say so (`policy` "private") with the bounds of every column but booleans: its
/// batches are then the owner's draws, and what cannot be proved is refused when it is compiled. Of
/// its defaults all three or none (0). All of it is compared with the owner's table when a run
/// starts, and trusted by no owner.
Table specTable(const Offline &offline, Dataset spec);

/// Records `init` once and `step` three times (optimizers make their state in the first step, and
/// the third must repeat the second). What `step` publishes with `publishLater` is what a run
/// returns. Throws Unsupported, with the op and its line, if a float differs between steps (a
/// learning rate set from outside, Adam without `capturable`): make it a number input instead.
///
/// `batches`, of tables that `specTable` made on this device: each step takes the next batch of each,
/// as a loop over them would. `step` gets their tensors (x, and y if there is a label) before the
/// inputs. A compiled step has one shape: throws Error for batches whose last one is short, or
/// may be; `dropLast` leaves it out, or `shortRows` compiles a second step beside it, for a last batch
/// of so many rows (of one `batches`). A run over a table that leaves another remainder is refused.
Artifact compile(const Offline &offline, const std::function<void()> &init,
                 const std::function<void(const std::vector<at::Tensor> &)> &step, const std::vector<Spec> &inputs,
                 const std::vector<Batches> &batches = {}, std::optional<int64_t> shortRows = std::nullopt);

/// What a run costs the people of a private table.
struct RunQuote {
  double epsilon = 0, delta = 0;
  int64_t steps = 0;
  double noiseMultiplier = 0;
  double samplingRate = 1;       ///< of the steady step, the largest of its draws of the table
  double epsilonOfBestOrder = 0; ///< of the run by itself, as other accountants quote it
};

/// The price of the first `steps` steps of an artifact for one of its private tables, from what the
/// artifact says alone; nothing runs. Of `epsilon` (the noise follows) and `noiseMultiplier` (the price
/// follows) one is given, the other 0; with neither the defaults stand that the table was described
/// with. `rows`: the number of rows of the table; default: that of its description. Releases with a price
/// of their own come on top. Throws Error for numbers that no run can have, Refused for steps that an owner
/// would refuse.
RunQuote quoteRun(const Artifact &artifact, const std::string &table, double delta, double epsilon,
                  double noiseMultiplier, std::optional<int64_t> steps = std::nullopt,
                  std::optional<int64_t> rows = std::nullopt);

/// What became of several steps.
struct ArtifactSteps {
  std::vector<std::vector<at::Tensor>> published; ///< by step that committed; none where the reply was lost
  int64_t committed = 0;
  std::exception_ptr failure; ///< of the step after these, or why their values are lost
  bool isStopped = false;     ///< by the follower
};

/// Execution against an owner: `init` at construction, then a round trip per step, or per several.
class ArtifactRun {
public:
  /// `tables`: table of the artifact -> the owner's dataset; a table that is not named here is the
  /// dataset of its own name. Throws Error if there is no such dataset, or if rows, dtype, shape or
  /// specified bounds of a column are not what the step was compiled for.
  ArtifactRun(Artifact artifact, const Owner &owner, const std::map<std::string, std::string> &tables = {});
  ~ArtifactRun();
  /// The artifact over the tables that the run has: their numbers of rows are the datasets'.
  const Artifact &artifact() const { return artifact_; }
  /// CPU inputs as the artifact's specs say; returns what the step published, as CPU tensors. Batches
  /// are those of the number of steps that have run. Throws Error if an input does not fit its spec,
  /// or if no batch is left.
  std::vector<at::Tensor> step(const std::vector<at::Tensor> &inputs);
  /// One step for each element of `inputs`, in one round trip where they are not large; the first step of a run is
  /// another program and takes a trip of its own. Each commits by itself. `follow` is called while they run with the
  /// steps that have committed; where it returns false, no further step begins. Throws if none of them ran.
  ArtifactSteps steps(const std::vector<std::vector<at::Tensor>> &inputs,
                      const std::function<bool(uint64_t committed)> &follow = {});

private:
  /// The owner's handles by the artifact's names; those that no name leads to any more.
  struct Handles {
    std::map<uint64_t, uint64_t> named;
    std::vector<uint64_t> unnamed;
    void set(uint64_t name, uint64_t handle);
    uint64_t at(uint64_t name) const;
  };

  void checkInputs(const std::vector<at::Tensor> &inputs) const;
  /// What step `at` of the run binds, releases apart. `keep` holds the bytes of its inputs.
  wire::Repetition bind(const ArtifactCall &call, const std::vector<at::Tensor> &inputs, int64_t at,
                        const Handles &handles, std::vector<at::Tensor> &keep) const;
  /// `handles` as the next repetition of the steady step takes them.
  void turn(Handles &handles) const;
  /// `handles` after a call; returns what it releases.
  static std::vector<uint64_t> commit(const ArtifactCall &call, const std::vector<uint64_t> &results, Handles &handles);
  ArtifactSteps run(const ArtifactCall &call, const std::vector<std::vector<at::Tensor>> &inputs,
                    const std::function<bool(uint64_t committed)> &follow);

  Artifact artifact_;
  Owner owner_;
  int64_t steps_ = 0;
  std::vector<wire::TableBinding> bindings_; ///< by the artifact's tables
  Handles handles_;
};

} // namespace sojourn

#endif // SOJOURN_FRONTEND_AHEAD_ARTIFACT_H
