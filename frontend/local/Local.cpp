// SPDX-License-Identifier: Apache-2.0
// `local` and `plain`: what a client does that is its own owner.
#include "frontend/local/Local.h"

#include "frontend/recording/Tensor.h"
#include "owner/Import.h"
#include "owner/worker/Coins.h"
#include "owner/worker/Service.h"
#include "owner/worker/TableRows.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <filesystem>

namespace sojourn {

namespace frontend {

namespace {

Element columnElement(const std::string &column, at::ScalarType dtype) {
  constexpr at::ScalarType kept[] = {at::kBool, at::kByte, at::kChar,  at::kShort, at::kInt,
                                     at::kLong, at::kHalf, at::kFloat, at::kDouble};
  if (std::find(std::begin(kept), std::end(kept), dtype) == std::end(kept)) {
    raise(ErrorKind::Error, "column '" + column + "' has type " + std::string(c10::getDtypeNames(dtype).first) +
                                "; a table holds bool, uint8, int8 to int64, float16, float32 and float64");
  }
  return elementOf(dtype);
}

/// The tensors behind a source's pointers live in `keep`.
owner::DatasetSource toDatasetSource(const Source &source, std::vector<at::Tensor> &keep) {
  owner::DatasetSource result;
  result.path = source.path;
  for (const auto &[name, tensor] : source.columns) {
    if (tensor.dim() < 1 || !tensor.device().is_cpu()) {
      raise(ErrorKind::Error, "column '" + name +
                                  "' must be a CPU tensor whose first dimension counts rows, got shape " +
                                  c10::str(tensor.sizes()) + " on " + tensor.device().str());
    }
    keep.push_back(tensor.detach().contiguous());
    result.arrays.push_back({name, columnElement(name, tensor.scalar_type()), tensor.size(0),
                             keep.back().const_data_ptr(), tensor.sizes().slice(1).vec()});
  }
  return result;
}

/// From RegisterOptions or PlainOptions.
template <class Given>
owner::RegisterOptions toOptions(const std::string &name, const Given &given) {
  owner::RegisterOptions options;
  options.name = name;
  for (const auto &[column, range] : given.bounds) {
    options.bounds[column] = {range.first, range.second};
  }
  options.fills = given.fills;
  options.meanings = given.meanings;
  options.fillTexts = given.fillTexts;
  options.boundTexts = given.boundTexts;
  return options;
}

/// Rows of a table in this process, read as an owner reads them.
class PlainRows final : public RowReader {
public:
  explicit PlainRows(std::shared_ptr<const owner::Dataset> dataset) : dataset_(std::move(dataset)), rows_(dataset_) {}

  std::shared_ptr<RowReader> ofMember(const std::shared_ptr<Session> &group, unsigned role) override {
    if (group) {
      raise(ErrorKind::Error, "table " + std::to_string(role) +
                                  " of the group is a plain table of this process, "
                                  "expected one at an owner; sojourn.pooled joins plain "
                                  "tables");
    }
    return std::make_shared<PlainRows>(dataset_);
  }

  at::Tensor rows(const std::vector<std::string> &columns, bool alone, at::ScalarType dtype,
                  const RowNumbers &numbers) override {
    std::vector<int64_t> sizes{numbers.size};
    if (alone) {
      const std::vector<int64_t> &entry = dataset_->column(columns[0])->dims;
      sizes.insert(sizes.end(), entry.begin(), entry.end());
    } else {
      sizes.push_back(static_cast<int64_t>(columns.size()));
    }
    at::Tensor out = at::empty(sizes, at::device(at::kCPU).dtype(dtype)), indices = evaluate(numbers, dataset_->rows());
    rows_.readRows(columns, {indices.const_data_ptr<int64_t>(), static_cast<size_t>(numbers.size)}, elementOf(dtype),
                   out.mutable_data_ptr());
    return out;
  }

private:
  std::shared_ptr<const owner::Dataset> dataset_;
  owner::TableRows rows_;
};

owner::Environment environmentOf(const std::string &store, runtime::Profile *profile) {
  owner::Environment environment = owner::Environment::system(store);
  environment.worker = owner::cpuWorkers({.profile = profile});
  environment.isNeighbour = true;
  return environment;
}

} // namespace

EmbeddedOwner::EmbeddedOwner(const std::string &store, const std::string &profile)
    : profile_(profile.empty() ? nullptr : std::make_unique<runtime::Profile>(profile)),
      owner_(environmentOf(store, profile_.get())) {
  if (std::string status = owner_.status(); !status.empty()) {
    raise(ErrorKind::Error, status);
  }
}

EmbeddedOwner::~EmbeddedOwner() {
  if (process_.isElsewhere()) {
    static_cast<void>(profile_.release()); // the parent's runs go on with it
  }
}

void EmbeddedOwner::add(const std::string &name, const Source &source, const RegisterOptions &options) {
  owner::RegisterOptions given = toOptions(name, options);
  auto policy = owner::parsePolicy(options.policy);
  if (!policy) {
    raise(ErrorKind::Error, "policy '" + options.policy + "' is unknown; expected 'open' or 'private'");
  }
  given.policy = *policy;
  given.subject = options.subject;
  given.population = options.population;
  std::vector<at::Tensor> keep;
  if (llvm::Error error = owner_.registerDataset(toDatasetSource(source, keep), given)) {
    raise(ErrorKind::Error, llvm::toString(std::move(error)));
  }
}

void EmbeddedOwner::describe(const std::string &dataset, const std::string &text,
                             const std::vector<std::string> &tags) {
  if (llvm::Error error = owner_.describe(dataset, text, tags)) {
    raise(ErrorKind::Error, llvm::toString(std::move(error)));
  }
}

void EmbeddedOwner::share(const std::string &dataset, const std::vector<std::string> &keys, const std::string &level) {
  const auto sharing = owner::parseSharing(level);
  if (!sharing) {
    raise(ErrorKind::Error, "level '" + level + "' is unknown; expected 'none', 'sums' or 'clear'");
  }
  std::vector<signing::PublicKey> members;
  for (const std::string &key : keys) {
    const auto parsed = signing::parseKey(key);
    if (!parsed) {
      raise(ErrorKind::Error, "'" + key + "' is no public key of an owner, expected 64 hexadecimal digits");
    }
    members.push_back(*parsed);
  }
  if (llvm::Error error = owner_.share(dataset, members, *sharing)) {
    raise(ErrorKind::Error, llvm::toString(std::move(error)));
  }
}

void EmbeddedOwner::setDefaults(const std::string &dataset, double noiseMultiplier, double clip, double metricBound) {
  if (llvm::Error error = owner_.setDefaults(dataset, {noiseMultiplier, clip, metricBound})) {
    raise(ErrorKind::Error, llvm::toString(std::move(error)));
  }
}

double EmbeddedOwner::coinSeconds() { return owner::coinSeconds(); }

void EmbeddedOwner::grant(const std::string &dataset, double epsilon, double delta) {
  if (llvm::Error error = owner_.grant(owner::kLocalClient, dataset, epsilon, delta)) {
    raise(ErrorKind::Error, llvm::toString(std::move(error)));
  }
}

} // namespace frontend

using namespace frontend;

Owner local(const std::string &store, const std::string &profile) {
  auto owner = std::make_shared<EmbeddedOwner>(store, profile);
  Owner connected = connect("local", [owner](std::string_view request) { return owner->handle(request); });
  return Owner(connected.session(), owner);
}

Table plain(const Source &source, const PlainOptions &options) {
  std::string name = options.name;
  if (name.empty()) {
    name = source.path.empty() ? "plain" : std::filesystem::path(source.path).stem().string();
  }
  owner::RegisterOptions given = toOptions(name, options);
  given.columns = options.columns;
  std::vector<at::Tensor> keep;
  auto table = owner::importTable(toDatasetSource(source, keep), given);
  if (!table) {
    raise(ErrorKind::Error, llvm::toString(table.takeError()));
  }
  Dataset dataset{name, "open", "", table->rows, {}};
  for (const owner::Column &column : table->columns) {
    Column described{column.name, scalarTypeOf(column.element), std::nullopt, column.dims, column.meaning};
    if (column.bounds) {
      described.bounds = {column.bounds->lower, column.bounds->upper};
    }
    dataset.columns.push_back(std::move(described));
  }
  auto rows = std::make_shared<owner::Dataset>(name, "", table->rows, std::move(table->columns), table->storage);
  return {std::make_shared<PlainRows>(std::move(rows)), std::move(dataset)};
}

} // namespace sojourn
