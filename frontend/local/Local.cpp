// SPDX-License-Identifier: Apache-2.0
// `local` and `plain`: what a client does that is its own owner.
#include "frontend/local/Local.h"

#include "frontend/Tensor.h"
#include "owner/Import.h"
#include "runtime/Philox.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <filesystem>
#include <mutex>

namespace sojourn {

namespace frontend {

namespace {

// Both sides number element types as the wire does.
static_assert(static_cast<int>(Element::i1) == static_cast<int>(runtime::Element::i1) &&
              static_cast<int>(Element::c128) == static_cast<int>(runtime::Element::c128));

runtime::Element wireElement(at::ScalarType dtype) { return static_cast<runtime::Element>(elementOf(dtype)); }

runtime::Element columnElement(const std::string &column, at::ScalarType dtype) {
  constexpr at::ScalarType kept[] = {at::kBool, at::kByte, at::kChar,  at::kShort, at::kInt,
                                     at::kLong, at::kHalf, at::kFloat, at::kDouble};
  if (std::find(std::begin(kept), std::end(kept), dtype) == std::end(kept)) {
    raise(ErrorKind::Error, "column '" + column + "' has type " + std::string(c10::getDtypeNames(dtype).first) +
                                "; a table holds bool, uint8, int8 to int64, float16, float32 and float64");
  }
  return wireElement(dtype);
}

/// The tensors behind a source's pointers live in `keep`.
owner::DatasetSource toDatasetSource(const Source &source, std::vector<at::Tensor> &keep) {
  owner::DatasetSource result;
  result.path = source.path;
  for (const auto &[name, tensor] : source.columns) {
    if (tensor.dim() != 1 || !tensor.device().is_cpu()) {
      raise(ErrorKind::Error, "column '" + name + "' must be a one-dimensional CPU tensor, got shape " +
                                  c10::str(tensor.sizes()) + " on " + tensor.device().str());
    }
    keep.push_back(tensor.detach().contiguous());
    result.arrays.push_back(
        {name, columnElement(name, tensor.scalar_type()), tensor.size(0), keep.back().const_data_ptr()});
  }
  return result;
}

owner::RegisterOptions toOptions(const std::string &name,
                                 const std::map<std::string, std::pair<double, double>> &bounds,
                                 const std::map<std::string, double> &fills) {
  owner::RegisterOptions options;
  options.name = name;
  for (const auto &[column, range] : bounds) {
    options.bounds[column] = {range.first, range.second};
  }
  options.fills = fills;
  return options;
}

/// Rows of a table in this process, read as an owner reads them.
class PlainRows final : public RowReader {
public:
  explicit PlainRows(owner::Dataset dataset) : dataset_(std::move(dataset)) {}

  at::Tensor rows(const std::vector<std::string> &columns, at::ScalarType dtype, const at::Tensor &indices) override {
    auto width = static_cast<int64_t>(columns.size());
    at::Tensor out = at::empty({indices.size(0), width}, at::device(at::kCPU).dtype(dtype)),
               dense = indices.contiguous();
    dataset_.readRows(columns, {dense.const_data_ptr<int64_t>(), static_cast<size_t>(dense.numel())},
                      wireElement(dtype), out.mutable_data_ptr());
    return out;
  }

  at::Tensor sample(int64_t rows, int64_t size, int64_t seed, int64_t epoch, int64_t start) override {
    at::Tensor out = at::full({size}, -1, at::device(at::kCPU).dtype(at::kLong));
    std::lock_guard lock(mutex_);
    const std::vector<runtime::RowEntry> &order = epochOrder(rows, seed, epoch);
    for (int64_t i = 0; i < size; ++i) {
      if (int64_t at = start + i; at >= 0 && at < rows) {
        out.mutable_data_ptr<int64_t>()[i] = static_cast<int64_t>(order[static_cast<size_t>(at)].row);
      }
    }
    return out;
  }

  at::Tensor range(int64_t size, int64_t start) override {
    return at::arange(start, start + size, at::device(at::kCPU).dtype(at::kLong));
  }

private:
  /// The last few orders: one per epoch that is being read and one per split above it.
  const std::vector<runtime::RowEntry> &epochOrder(int64_t rows, int64_t seed, int64_t epoch) {
    constexpr size_t kKept = 8;
    std::array<int64_t, 3> key{rows, seed, epoch};
    auto known = std::find_if(orders_.begin(), orders_.end(), [&](auto &entry) { return entry.first == key; });
    if (known == orders_.end()) {
      if (orders_.size() == kKept) {
        orders_.pop_back();
      }
      std::vector<runtime::RowEntry> order(static_cast<size_t>(rows));
      runtime::orderRows(order.data(), order.size(), static_cast<uint64_t>(seed), static_cast<uint64_t>(epoch));
      known = orders_.emplace(orders_.begin(), key, std::move(order));
    }
    std::rotate(orders_.begin(), known, known + 1);
    return orders_.front().second;
  }

  owner::Dataset dataset_;
  std::mutex mutex_;
  std::vector<std::pair<std::array<int64_t, 3>, std::vector<runtime::RowEntry>>> orders_; ///< newest first
};

} // namespace

EmbeddedOwner::EmbeddedOwner(const std::string &store, const std::string &profile)
    : profile_(profile.empty() ? nullptr : std::make_unique<runtime::Profile>(profile)),
      owner_(owner::Environment::system(store)) {
  owner_.setProfile(profile_.get());
  if (std::string status = owner_.status(); !status.empty()) {
    raise(ErrorKind::Error, status);
  }
}

void EmbeddedOwner::add(const std::string &name, const Source &source, const RegisterOptions &options) {
  owner::RegisterOptions given = toOptions(name, options.bounds, options.fills);
  auto policy = owner::parsePolicy(options.policy);
  if (!policy) {
    raise(ErrorKind::Error, "policy '" + options.policy + "' is unknown; expected 'open' or 'private'");
  }
  given.policy = *policy;
  std::vector<at::Tensor> keep;
  if (llvm::Error error = owner_.registerDataset(toDatasetSource(source, keep), given)) {
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
  owner::RegisterOptions given = toOptions(name, options.bounds, options.fills);
  given.columns = options.columns;
  std::vector<at::Tensor> keep;
  auto table = owner::importTable(toDatasetSource(source, keep), given);
  if (!table) {
    raise(ErrorKind::Error, llvm::toString(table.takeError()));
  }
  Dataset dataset{name, "open", "", table->rows, {}};
  for (const owner::Column &column : table->columns) {
    Column described{column.name, scalarTypeOf(static_cast<Element>(column.element)), std::nullopt};
    if (column.bounds) {
      described.bounds = {column.bounds->lower, column.bounds->upper};
    }
    dataset.columns.push_back(std::move(described));
  }
  owner::Dataset rows(name, "", table->rows, std::move(table->columns), table->storage);
  return {std::make_shared<PlainRows>(std::move(rows)), std::move(dataset)};
}

} // namespace sojourn
