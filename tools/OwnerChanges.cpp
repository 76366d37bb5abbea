// SPDX-License-Identifier: Apache-2.0
// Commands of the data owner that change or remove tables and clients.
#include "owner/Accounts.h"
#include "owner/Import.h"
#include "owner/Text.h"
#include "tools/OwnerArguments.h"

#include <iostream>

namespace sojourn::owner {

llvm::raw_ostream &standardOutput() {
  static PrintableStream stream(llvm::outs());
  return stream;
}

llvm::Error showTable(Owner &owner, const std::string &name) {
  auto record = owner.dataset(name);
  if (!record) {
    return record.takeError();
  }
  printDatasets(*record, standardOutput());
  return llvm::Error::success();
}

llvm::Error readTerms(const Arguments &arguments, RegisterOptions &options) {
  options.columns = arguments.columns;
  if (arguments.rowsAreSubjects || !arguments.subject.empty()) {
    options.subject = arguments.subject;
  }
  if (!arguments.boundsFile.empty()) {
    if (llvm::Error error = readBoundsFile(arguments.boundsFile, options)) {
      return error;
    }
  }
  for (const std::string &bound : arguments.bounds) {
    if (llvm::Error error = parseBound(bound, options)) {
      return error;
    }
  }
  for (const std::string &fill : arguments.fills) {
    if (llvm::Error error = parseFill(fill, options)) {
      return error;
    }
  }
  for (const std::string &categories : arguments.categories) {
    if (llvm::Error error = parseCategories(categories, options)) {
      return error;
    }
  }
  for (const std::string &column : arguments.dates) {
    options.meanings[column].unit = sojourn::Unit::Days;
  }
  return llvm::Error::success();
}

llvm::Error replaceTable(Owner &owner, const Arguments &arguments) {
  RegisterOptions options;
  options.progress = progressLine();
  options.maxBytes = arguments.maxBytes;
  options.isApart = true;
  llvm::Error error = readTerms(arguments, options);
  auto progress = options.progress;
  error = error ? std::move(error) : owner.replaceDataset(arguments.name, {arguments.file, {}}, std::move(options));
  if (progress) {
    progress("", 1, 1);
  }
  if (error) {
    return error;
  }
  return showTable(owner, arguments.name);
}

llvm::Error renameTable(Owner &owner, const Arguments &arguments) {
  if (llvm::Error error = owner.renameDataset(arguments.name, arguments.to)) {
    return error;
  }
  standardOutput() << arguments.name << " is now " << arguments.to << "; its budgets and access went along\n";
  return llvm::Error::success();
}

/// What is not given stays.
llvm::Error describeTable(Owner &owner, const Arguments &arguments) {
  auto record = owner.dataset(arguments.name);
  if (!record) {
    return record.takeError();
  }
  std::vector<std::string> tags = arguments.none ? std::vector<std::string>() : record->description.tags;
  tags.insert(tags.end(), arguments.tags.begin(), arguments.tags.end());
  for (const std::string &tag : arguments.removed) {
    if (std::erase(tags, tag) == 0) {
      return llvm::createStringError("table '" + record->name + "' has no tag '" + tag +
                                     "'; 'sojourn-owner datasets' shows its tags");
    }
  }
  if (llvm::Error error = owner.describe(arguments.name, arguments.words.value_or(record->description.text), tags)) {
    return error;
  }
  return showTable(owner, arguments.name);
}

/// Whether the data owner says yes to a question; no where nobody answers.
static bool isConfirmed(const std::string &question) {
  standardOutput() << question << " [y/N] ";
  standardOutput().flush();
  llvm::outs().flush();
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "yes";
}

llvm::Error removeTable(Owner &owner, const Arguments &arguments) {
  auto record = owner.dataset(arguments.name);
  if (!record) {
    return record.takeError();
  }
  if (!arguments.yes && !isConfirmed("delete the " + std::to_string(record->rows) + " rows of table " + record->name +
                                     " from the store?")) {
    return llvm::createStringError("table '" + record->name +
                                   "' is still there; answer y to delete its rows, or add --yes");
  }
  if (llvm::Error error = owner.removeDataset(arguments.name)) {
    return error;
  }
  standardOutput() << arguments.name << " is removed; charges to its people remain\n";
  return llvm::Error::success();
}

llvm::Error changePolicy(Owner &owner, const Arguments &arguments) {
  Policy policy = parsePolicy(arguments.policy).value_or(Policy::privateOnly);
  auto record = owner.dataset(arguments.name);
  if (!record) {
    return record.takeError();
  }
  const bool opens = policy == Policy::open && record->policy != Policy::open;
  if (opens && !arguments.yes &&
      !isConfirmed("let clients with access publish values of table " + record->name + " without noise?")) {
    return llvm::createStringError("table '" + record->name + "' is still private; answer y to open it, or add --yes");
  }
  if (llvm::Error error = owner.setPolicy(arguments.name, policy, arguments.rowsAreSubjects)) {
    return error;
  }
  standardOutput() << arguments.name << ": policy " << policyName(policy) << '\n';
  return llvm::Error::success();
}

llvm::Error changeKey(Owner &owner, const Arguments &arguments) {
  auto key = signing::readPublicKey(arguments.key);
  if (!key) {
    return llvm::createStringError(key.problem().text);
  }
  if (llvm::Error error = owner.accounts().changeKey(arguments.client, *key)) {
    return error;
  }
  standardOutput() << "client " << arguments.client << " has key " << signing::keyText(*key)
                   << "\nsessions of its last key are over; its budgets stay\n";
  return llvm::Error::success();
}

llvm::Error removeClient(Owner &owner, const Arguments &arguments) {
  if (llvm::Error error = owner.removeClient(arguments.client)) {
    return error;
  }
  standardOutput() << "client " << arguments.client
                   << " is removed, with its sessions, access and grants; its charges remain\n";
  return llvm::Error::success();
}

llvm::Error forgiveOverruns(Owner &owner, const Arguments &arguments) {
  if (llvm::Error error = owner.accounts().forgiveOverruns(arguments.client, arguments.name)) {
    return error;
  }
  standardOutput() << "overruns of client " << arguments.client << " on " << arguments.name
                   << " are forgiven; they are counted from zero again\n";
  return llvm::Error::success();
}

llvm::Error changeDefaults(Owner &owner, const Arguments &arguments) {
  auto record = owner.dataset(arguments.name);
  if (!record) {
    return record.takeError();
  }
  PrivacyDefaults defaults = record->defaults;
  defaults.noiseMultiplier = arguments.noiseMultiplier.value_or(defaults.noiseMultiplier);
  defaults.clip = arguments.clip.value_or(defaults.clip);
  defaults.metricBound = arguments.metricBound.value_or(defaults.metricBound);
  if (llvm::Error error = owner.setDefaults(arguments.name, defaults)) {
    return error;
  }
  standardOutput() << arguments.name << ": noise multiplier " << numberText(defaults.noiseMultiplier) << ", clip "
                   << numberText(defaults.clip) << ", metric bound " << numberText(defaults.metricBound) << '\n';
  return llvm::Error::success();
}

} // namespace sojourn::owner
