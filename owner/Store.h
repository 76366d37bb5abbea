// SPDX-License-Identifier: Apache-2.0
// The owner's datasets: catalogued, at rest on disk or in memory, loaded when first used.
#ifndef SOJOURN_OWNER_STORE_H
#define SOJOURN_OWNER_STORE_H

#include "owner/Catalogue.h"
#include "owner/Environment.h"
#include "owner/Import.h"

#include <map>

namespace sojourn::owner {

/// A dataset with its label made once, so that equal labels are the same object.
struct LoadedDataset {
  std::unique_ptr<const Dataset> dataset;
  std::shared_ptr<const Label> label;
};

class Store {
public:
  static llvm::Expected<std::unique_ptr<Store>> open(const Environment &environment);

  llvm::Error add(const DatasetSource &source, const RegisterOptions &options);
  llvm::Expected<std::vector<DatasetRecord>> list() { return books->datasets(); }
  /// Loads the dataset if need be; null if no dataset has this name.
  llvm::Expected<std::shared_ptr<const LoadedDataset>> find(const std::string &name);
  Catalogue &catalogue() { return *books; }

private:
  Store(const Environment &environment, std::unique_ptr<Catalogue> books)
      : environment(environment), books(std::move(books)) {}
  std::shared_ptr<const LoadedDataset> keep(const DatasetRecord &record, ImportedTable table);
  std::string filePath(const std::string &file) const;

  const Environment &environment;
  std::unique_ptr<Catalogue> books;
  std::map<std::string, std::shared_ptr<const LoadedDataset>> loaded;
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_STORE_H
