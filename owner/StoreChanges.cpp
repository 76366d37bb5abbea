// SPDX-License-Identifier: Apache-2.0
// Datasets of a store that get another name or other rows, or go.
#include "owner/Entry.h"
#include "owner/Error.h"
#include "owner/Store.h"
#include "owner/Text.h"

#include "llvm/ADT/StringExtras.h"

#include <filesystem>

namespace sojourn::owner {

namespace fs = std::filesystem;

llvm::Error Store::refresh() {
  auto hasChanged = books->hasChanged();
  if (!hasChanged || !*hasChanged) {
    return hasChanged.takeError();
  }
  for (auto at = loaded.begin(); at != loaded.end();) {
    auto place = books->place(at->second->dataset->version());
    if (!place) {
      return place.takeError();
    }
    const bool stays = *place && !(*place)->isReplaced && !(*place)->isRemoved && (*place)->name == at->first;
    at = stays ? std::next(at) : loaded.erase(at);
  }
  return llvm::Error::success();
}

llvm::Expected<std::shared_ptr<const std::vector<DatasetRecord>>> Store::list() {
  if (llvm::Error error = refresh()) {
    return error;
  }
  return books->datasets();
}

void Store::forget(const DatasetRecord &record) {
  loaded.erase(record.name);
  if (record.subjectsFile) {
    sealedSubjects.erase(*record.subjectsFile);
  }
}

llvm::Error Store::removeLeftFiles() {
  auto files = books->leftFiles();
  if (!files) {
    return files.takeError();
  }
  for (const std::string &file : *files) {
    std::error_code code;
    if (!environment.storeDirectory.empty()) {
      fs::remove(filePath(file), code);
    }
    if (!code) { // else the next owner that opens the store tries again
      if (llvm::Error error = books->forgetFile(file)) {
        return error;
      }
    }
  }
  return llvm::Error::success();
}

llvm::Error Store::rename(const DatasetRecord &record, const std::string &name, const std::string &population,
                          Catalogue::Entering entering) {
  llvm::Error error = checkName(name, "a dataset");
  error = error ? std::move(error) : books->renameDataset(record, name, population, entering);
  if (!error) {
    // Subjects stay under the version.
    loaded.erase(record.name);
  }
  return error;
}

llvm::Error Store::remove(const DatasetRecord &record, Catalogue::Entering entering) {
  if (llvm::Error error = books->removeDataset(record, entering)) {
    return error;
  }
  forget(record);
  return removeLeftFiles();
}

/// What the dataset's columns declare and `options` do not.
static void addTerms(const DatasetRecord &old, RegisterOptions &options) {
  const bool takesAll = options.columns.empty();
  for (const Column &column : old.columns) {
    const std::string &name = column.name;
    if (takesAll) {
      options.columns.push_back(name);
    } else if (!llvm::is_contained(options.columns, name)) {
      continue;
    }
    const bool hasMeaning = options.meanings.count(name) > 0;
    const bool hasFill = options.fills.count(name) > 0 || options.fillTexts.count(name) > 0;
    const Meaning meaning = column.meaning ? *column.meaning : Meaning();
    const bool hasCodes = meaning.categories() > 0;
    if (!hasMeaning && hasCodes) {
      if (meaning.isFound) {
        options.untyped.insert(name); // found anew
      }
      Meaning &next = options.meanings[name];
      if (!meaning.isFound) {
        next.texts = meaning.texts;
        next.numbers = meaning.numbers;
      }
    }
    if (!hasMeaning && meaning.unit == Unit::Days) {
      options.meanings[name].unit = Unit::Days;
    }
    if (!hasFill && meaning.fill && !hasCodes) {
      options.fills[name] = *meaning.fill;
    } else if (!hasFill && !hasMeaning && meaning.fill) {
      const auto code = static_cast<size_t>(*meaning.fill);
      options.fillTexts[name] = meaning.texts.empty() ? std::to_string(meaning.numbers[code]) : meaning.texts[code];
    }
    const bool hasBounds = options.bounds.count(name) > 0 || options.boundTexts.count(name) > 0;
    if (!hasBounds && column.bounds && !hasCodes && !(hasMeaning && options.meanings[name].unit != Unit::Days)) {
      options.bounds[name] = *column.bounds;
    }
  }
}

llvm::Expected<DatasetRecord> Store::beginReplacement(const DatasetRecord &old, RegisterOptions &options) {
  options.name = old.name;
  options.policy = old.policy;
  options.population = old.population;
  options.subject = options.subject ? options.subject : old.subject;
  addTerms(old, options);
  return newRecord(options);
}

static std::string typeText(const Column &column) { return entryText(column.element, column.dims); }

/// Programs were recorded with the columns' types, and see units as numbers.
static llvm::Error checkColumns(const DatasetRecord &old, const DatasetRecord &now) {
  for (const Column &before : old.columns) {
    for (const Column &after : now.columns) {
      const Unit unit = before.meaning ? before.meaning->unit : Unit::None;
      const Unit newUnit = after.meaning ? after.meaning->unit : Unit::None;
      if (before.name != after.name || (typeText(before) == typeText(after) && unit == newUnit)) {
        continue;
      }
      auto text = [](const Column &column, Unit of) {
        return typeText(column) + (of == Unit::None ? std::string() : std::string(" (") + unitText(of) + ")");
      };
      return failure("column '" + before.name + "' of the new rows is " + text(after, newUnit) + ", that of dataset '" +
                     old.name + "' is " + text(before, unit) +
                     "; convert the file, or remove the dataset and import it anew with --continue-budget");
    }
  }
  return llvm::Error::success();
}

llvm::Error Store::replace(const DatasetRecord &old, DatasetRecord now, ImportedTable table) {
  now.registeredMs = environment.clockMs();
  llvm::Error error = checkColumns(old, now);
  error = error ? std::move(error) : books->replaceDataset(old, now);
  if (error) {
    removeFiles(now);
    return error;
  }
  forget(old);
  if (!table.sealedSubjects.empty()) {
    sealedSubjects[*now.subjectsFile] = std::move(table.sealedSubjects);
  }
  keep(now, std::move(table));
  return removeLeftFiles();
}

llvm::Expected<std::string> Store::whatBecame(const std::string &name, const std::string &version,
                                              const std::string &account) {
  auto place = books->place(version);
  if (!place || !*place) {
    return place ? llvm::Expected<std::string>("") : place.takeError();
  }
  const std::string was = printableName(name);
  if ((*place)->isRemoved) { // who knows the version had access to it once
    return "the data owner removed table '" + was +
           "'; steps on it are refused from now on, and so are values that were computed from its rows";
  }
  auto mayKnow = hasAccess((*place)->name, account);
  if (!mayKnow || !*mayKnow) {
    return mayKnow ? llvm::Expected<std::string>("") : mayKnow.takeError();
  }
  const bool isRenamed = (*place)->name != name;
  if (!isRenamed && !(*place)->isReplaced) {
    return "";
  }
  return "the data owner " + std::string((*place)->isReplaced ? "replaced the rows of" : "renamed") + " table '" + was +
         "'" +
         (isRenamed ? std::string((*place)->isReplaced ? " and renamed it" : "") + " to '" + (*place)->name + "'"
                    : "") +
         "; get it again with owner.dataset(\"" + (*place)->name + "\") and record the step with it";
}

} // namespace sojourn::owner
