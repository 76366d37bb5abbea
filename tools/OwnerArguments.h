// SPDX-License-Identifier: Apache-2.0
// What the data owner's command line says, and the commands that change or remove what there is.
#ifndef SOJOURN_TOOLS_OWNERARGUMENTS_H
#define SOJOURN_TOOLS_OWNERARGUMENTS_H

#include "owner/Administration.h"
#include "owner/ServeSettings.h"

#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
} // namespace CLI

namespace sojourn::owner {

struct Arguments {
  std::string store = defaultStoreDirectory();
  std::string file, name, client, policy = "private", boundsFile, text, subject, population, key, to, config, archive,
                                  from, address, level = "clear";
  std::vector<std::string> bounds, fills, categories, dates, columns, clients, added, removed, tags;
  bool rowsAreSubjects = false, verbose = false, anyone = false, none = false;
  bool continuesBudget = false, yes = false, renew = false, plainTcp = false;
  std::optional<std::string> words;
  std::optional<double> epsilon, delta, noiseMultiplier, clip, metricBound;
  size_t last = 50;
  int64_t maxBytes = 0;
  bool asJson = false;
  /// The file of --config, then these.
  std::vector<std::pair<const NumberSetting *, double>> numbers;
  std::vector<std::pair<const TextSetting *, std::string>> texts;
  std::vector<const FlagSetting *> flags;
  ServeSettings settings;
};

/// Texts of others (files, clients, programs) are shown without characters that steer a terminal.
llvm::raw_ostream &standardOutput();

/// Prints the description of a table.
llvm::Error showTable(Owner &owner, const std::string &name);

/// Columns, bounds, categories, fills, dates and subjects of an import.
llvm::Error readTerms(const Arguments &arguments, RegisterOptions &options);

/// Options for what may stand in the file of --config, too.
void addSettings(CLI::App *command, Arguments &arguments);
/// Fills in `settings`: from the file, then from the command line.
llvm::Error takeSettings(Arguments &arguments);
llvm::Error serveTables(Owner &owner, const Arguments &arguments);
llvm::Error showStatus(Owner &owner, const Arguments &arguments);
llvm::Error showValues(Owner &owner, const Arguments &arguments);
llvm::Error releaseValue(Owner &owner, const Arguments &arguments);
llvm::Error showCertificate(Owner &owner, const Arguments &arguments);

llvm::Error programs(Owner &owner, const Arguments &arguments);
/// Of `programs --from`, which needs no store.
llvm::Error archivedPrograms(const Arguments &arguments);

llvm::Error replaceTable(Owner &owner, const Arguments &arguments);
llvm::Error renameTable(Owner &owner, const Arguments &arguments);
llvm::Error changePolicy(Owner &owner, const Arguments &arguments);
llvm::Error changeDefaults(Owner &owner, const Arguments &arguments);
llvm::Error describeTable(Owner &owner, const Arguments &arguments);
llvm::Error removeTable(Owner &owner, const Arguments &arguments);
llvm::Error changeKey(Owner &owner, const Arguments &arguments);
llvm::Error removeClient(Owner &owner, const Arguments &arguments);
llvm::Error forgiveOverruns(Owner &owner, const Arguments &arguments);

llvm::Error addClient(Owner &owner, const Arguments &arguments);
llvm::Error cap(Owner &owner, const Arguments &arguments);
llvm::Error grant(Owner &owner, const Arguments &arguments);
llvm::Error revoke(Owner &owner, const Arguments &arguments);
llvm::Error showKey(Owner &owner, const Arguments &arguments);

llvm::Error addPeer(Owner &owner, const Arguments &arguments);
llvm::Error removePeer(Owner &owner, const Arguments &arguments);
llvm::Error listPeers(Owner &owner, const Arguments &arguments);
llvm::Error checkPeers(Owner &owner, const Arguments &arguments);
llvm::Error shareTable(Owner &owner, const Arguments &arguments);

} // namespace sojourn::owner

#endif // SOJOURN_TOOLS_OWNERARGUMENTS_H
