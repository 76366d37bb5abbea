// SPDX-License-Identifier: Apache-2.0
// Ops whose values say how large their results are. Outside of steps that number is read, one round trip, and the op is
// recorded as others with results of that size; the values stay at the owner.
#include "frontend/recording/Record.h"
#include "frontend/recording/StepSender.h"

#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <ATen/WrapDimUtils.h>

#include <unordered_map>

namespace sojourn::frontend {

namespace {

using Stack = torch::jit::Stack;
using Args = c10::ArrayRef<c10::IValue>;
/// Empty where the number is not to be had.
using Results = std::vector<at::Tensor>;

/// Places of the true elements of a mask of one dim, of which there are `count`.
at::Tensor placesOf(const at::Tensor &mask, int64_t count) { return at::nonzero_static(mask, count).squeeze(1); }

std::optional<int64_t> countTrue(const at::Tensor &given, const std::function<at::Tensor(const at::Tensor &)> &maskOf) {
  const auto sizes = stepSender().readSizes(given, [&](const at::Tensor &x) { return maskOf(x).sum(); });
  return sizes ? std::optional(sizes->front()) : std::nullopt;
}

Results nonzero(Args args) {
  const at::Tensor self = args[0].toTensor();
  const auto count = countTrue(self, [](const at::Tensor &x) { return x.ne(0); });
  // In eager's memory order, column after column.
  return count ? Results{at::nonzero_static(self, *count).t().contiguous().t()} : Results{};
}

Results maskedSelect(Args args) {
  const at::Tensor self = args[0].toTensor(), mask = args[1].toTensor();
  TORCH_CHECK(mask.scalar_type() == at::kBool, "masked_select: expected BoolTensor for mask");
  const std::vector<int64_t> sizes = at::infer_size(self.sizes(), mask.sizes());
  std::optional<int64_t> count = countTrue(mask, [](const at::Tensor &x) { return x; });
  if (!count) {
    return {};
  }
  const int64_t numel = c10::multiply_integers(sizes);
  count = numel == 0 ? 0 : *count * (numel / mask.numel());
  const at::Tensor places = placesOf(mask.expand(sizes).reshape({-1}), *count);
  return {self.expand(sizes).reshape({-1}).index_select(0, places)};
}

/// Which positions of the first dim differ from the one before, and the first one.
at::Tensor beginsOf(const at::Tensor &x) {
  const at::Tensor begins = x.slice(0, 1).ne(x.slice(0, 0, -1));
  return at::cat(
      {at::ones({std::min<int64_t>(x.size(0), 1)}, begins.options()), begins.dim() > 1 ? begins.any(1) : begins});
}

/// Groups of equal elements, one behind another: their first places, how many each has, and the group of each place.
struct Groups {
  at::Tensor firsts, counts, numbers;
};

Groups groupsOf(const at::Tensor &begins, int64_t count) {
  at::Tensor firsts = placesOf(begins, count);
  const at::Tensor end = at::full({count > 0 ? 1 : 0}, begins.size(0), firsts.options());
  return {firsts, at::cat({firsts.slice(0, 1), end}) - firsts, begins.cumsum(0) - 1};
}

/// Where elements are in ascending order, and where groups of equal ones begin there.
struct Order {
  at::Tensor places, begins;
};

Order orderOf(const at::Tensor &x) {
  auto [values, places] = at::sort(x, /*stable=*/std::optional(true), /*dim=*/0, /*descending=*/false);
  return {places, beginsOf(values)};
}

/// Of keys of one dim the groups, in ascending order.
std::optional<Groups> uniqueOf(const at::Tensor &given, const std::function<at::Tensor(const at::Tensor &)> &keyOf) {
  Order order;
  const auto count = countTrue(given, [&](const at::Tensor &x) {
    order = orderOf(keyOf(x));
    return order.begins;
  });
  if (!count) {
    return {};
  }
  if (!isRemote(order.begins)) { // the count was known here
    order = orderOf(keyOf(given));
  }
  Groups groups = groupsOf(order.begins, *count);
  groups.numbers = at::zeros_like(order.places).scatter(0, order.places, groups.numbers);
  groups.firsts = order.places.index_select(0, groups.firsts);
  return groups;
}

at::Tensor noIndices(const at::Tensor &like) { return at::empty({0}, like.options().dtype(at::kLong)); }

void checkReal(const char *op, const at::Tensor &self) {
  TORCH_CHECK_NOT_IMPLEMENTED(!self.is_complex(), '"', op, "\" not implemented for '",
                              c10::toString(self.scalar_type()), "'");
}

Results unique(const at::Tensor &self, bool hasInverse, bool hasCounts) {
  checkReal("unique", self);
  const auto groups = uniqueOf(self, [](const at::Tensor &x) { return x.reshape({-1}); });
  if (!groups) {
    return {};
  }
  return {self.reshape({-1}).index_select(0, groups->firsts),
          hasInverse ? groups->numbers.view(self.sizes()) : noIndices(self),
          hasCounts ? groups->counts : noIndices(self)};
}

Results unique1(Args args) {
  Results all = unique(args[0].toTensor(), args[2].toBool(), false);
  return all.empty() ? Results{} : Results{all[0], all[1]};
}

Results unique2(Args args) { return unique(args[0].toTensor(), args[2].toBool(), args[3].toBool()); }

/// self with the slices of a dim as rows.
at::Tensor rowsOf(const at::Tensor &self, int64_t dim) {
  return self.moveaxis(dim, 0).reshape({self.size(dim), self.numel() / self.size(dim)});
}

void checkSlices(const at::Tensor &self, int64_t dim) {
  checkReal("unique_dim", self);
  for (int64_t other = 0; other < self.dim(); ++other) {
    TORCH_CHECK(other == dim || self.size(other) > 0,
                "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied");
  }
}

/// The slices of a dim at these places.
at::Tensor slicesAt(const at::Tensor &self, int64_t dim, const at::Tensor &places) {
  return self.moveaxis(dim, 0).contiguous().index_select(0, places).moveaxis(0, dim);
}

/// Per column, how many different elements are below each.
at::Tensor ranksOf(const at::Tensor &x) {
  auto [values, places] = at::sort(x, /*stable=*/std::optional(true), /*dim=*/0, /*descending=*/false);
  const at::Tensor begins =
      at::cat({at::zeros_like(places.slice(0, 0, 1)), values.slice(0, 1).ne(values.slice(0, 0, -1)).to(at::kLong)});
  return at::zeros_like(places).scatter(0, places, begins.cumsum(0));
}

/// Numbers in the order of the rows: ranks of pairs of neighbouring columns, and of pairs of these, until one is left.
at::Tensor orderOfRows(const at::Tensor &rows) {
  at::Tensor ranks = ranksOf(rows);
  while (ranks.size(1) > 1) {
    if (ranks.size(1) % 2 == 1) {
      ranks = at::cat({ranks, at::zeros_like(ranks.slice(1, 0, 1))}, 1);
    }
    ranks = ranksOf(ranks.slice(1, 0, {}, 2) * rows.size(0) + ranks.slice(1, 1, {}, 2));
  }
  return ranks.squeeze(1);
}

Results uniqueDim(Args args) {
  const at::Tensor self = args[0].toTensor();
  const int64_t dim = at::maybe_wrap_dim(args[1].toInt(), self.dim(), /*wrap_scalar=*/false);
  checkSlices(self, dim);
  if (self.size(dim) == 0) {
    return {at::empty(self.sizes(), self.options()), noIndices(self), noIndices(self)};
  }
  const auto groups = uniqueOf(self, [=](const at::Tensor &x) { return orderOfRows(rowsOf(x, dim)); });
  if (!groups) {
    return {};
  }
  return {slicesAt(self, dim, groups->firsts), groups->numbers, groups->counts};
}

Results consecutiveOf(const at::Tensor &self, std::optional<int64_t> dim, bool hasInverse, bool hasCounts) {
  at::Tensor begins;
  const auto beginsAt = [&](const at::Tensor &x) { return beginsOf(dim ? rowsOf(x, *dim) : x.reshape({-1})); };
  const auto count = countTrue(self, [&](const at::Tensor &x) { return begins = beginsAt(x); });
  if (!count) {
    return {};
  }
  const Groups groups = groupsOf(isRemote(begins) ? begins : beginsAt(self), *count);
  return {dim ? slicesAt(self, *dim, groups.firsts) : self.reshape({-1}).index_select(0, groups.firsts),
          !hasInverse ? noIndices(self)
          : dim       ? groups.numbers
                      : groups.numbers.view(self.sizes()),
          hasCounts ? groups.counts : noIndices(self)};
}

Results consecutiveDim(const at::Tensor &self, int64_t dim, bool hasInverse, bool hasCounts) {
  dim = at::maybe_wrap_dim(dim, self.dim(), /*wrap_scalar=*/false);
  checkSlices(self, dim);
  if (self.size(dim) == 0) {
    return {at::empty(self.sizes(), self.options()), noIndices(self), noIndices(self)};
  }
  return consecutiveOf(self, dim, hasInverse, hasCounts);
}

Results uniqueConsecutive(Args args) {
  const at::Tensor self = args[0].toTensor();
  const auto dim = args[3].toOptional<int64_t>();
  if (dim && (self.dim() != 1 || at::maybe_wrap_dim(*dim, 1) != 0)) {
    return consecutiveDim(self, *dim, args[1].toBool(), args[2].toBool());
  }
  checkReal("unique", self);
  return consecutiveOf(self, {}, args[1].toBool(), args[2].toBool());
}

Results uniqueDimConsecutive(Args args) {
  return consecutiveDim(args[0].toTensor(), args[1].toInt(), args[2].toBool(), args[3].toBool());
}

/// Which element each place of the result repeats.
Results repeatInterleave(Args args) {
  const at::Tensor repeats = args[0].toTensor();
  TORCH_CHECK(repeats.dim() == 1, "repeat_interleave only accept 1D vector as repeat");
  TORCH_CHECK(repeats.scalar_type() == at::kLong || repeats.scalar_type() == at::kInt,
              "repeats has to be Long or Int tensor");
  if (repeats.size(0) == 0) {
    return {at::empty_like(repeats)};
  }
  std::optional<int64_t> size = args[1].toOptional<int64_t>();
  if (!size) {
    const auto found = stepSender().readSizes(repeats, [](const at::Tensor &x) {
      return at::stack({x.sum(), x.min().to(at::kLong)});
    });
    if (!found) {
      return {};
    }
    TORCH_CHECK(found->at(1) >= 0, "repeats can not be negative");
    size = found->front();
  }
  const at::Tensor ends = repeats.cumsum(0), places = at::arange(*size, ends.options());
  return {at::searchsorted(ends, places, /*out_int32=*/false, /*right=*/true).to(repeats.scalar_type())};
}

using Sized = Results (*)(Args);
const std::unordered_map<std::string, Sized> &sizedOps() {
  static const std::unordered_map<std::string, Sized> table = {
      {"aten::nonzero", nonzero},
      {"aten::nonzero.out", nonzero},
      {"aten::masked_select", maskedSelect},
      {"aten::masked_select.out", maskedSelect},
      {"aten::_unique", unique1},
      {"aten::_unique2", unique2},
      {"aten::unique_dim", uniqueDim},
      {"aten::unique_consecutive", uniqueConsecutive},
      {"aten::unique_dim_consecutive", uniqueDimConsecutive},
      {"aten::repeat_interleave.Tensor", repeatInterleave},
  };
  return table;
}

/// Numbers on the CPU go to the owner. Whether all tensors are there then.
bool gather(const OpInfo &info, Stack *stack, size_t first) {
  std::optional<at::Device> device;
  for (size_t i = 0; i < info.args.size(); ++i) {
    const c10::IValue &value = (*stack)[first + i];
    if (value.isTensor() && isRemote(value.toTensor())) {
      device = value.toTensor().device();
    }
  }
  for (size_t i = 0; i < info.args.size(); ++i) {
    c10::IValue &value = (*stack)[first + i];
    if (!value.isTensor() || isRemote(value.toTensor())) {
      continue;
    }
    if (!device || value.toTensor().dim() > 0 || info.schema->arguments()[i].is_out()) {
      return false;
    }
    value = value.toTensor().to(*device);
  }
  return true;
}

/// As eager resizes and writes it.
at::Tensor writeOut(const OpInfo &info, const at::Tensor &out, const at::Tensor &result) {
  TORCH_CHECK(out.scalar_type() == result.scalar_type(), info.schema->name().substr(6),
              ": Expected out tensor to have scalar type ", result.scalar_type(), " but got scalar type ",
              out.scalar_type());
  if (out.sizes() != result.sizes()) {
    out.resize_(result.sizes());
  }
  return out.copy_(result);
}

} // namespace

bool isSized(const std::string &name) { return sizedOps().count(name) > 0; }

bool answerSized(const OpInfo &info, Stack *stack) {
  const size_t count = info.args.size(), first = stack->size() - count;
  if (!gather(info, stack, first)) {
    return false;
  }
  at::AutoDispatchBelowADInplaceOrView below;
  Results results = sizedOps().at(info.name)(Args(stack->data() + first, count));
  if (results.empty()) {
    fail(info.refusalKind, info, info.refusalHint);
  }
  for (uint32_t out : info.mutated) {
    results[0] = writeOut(info, (*stack)[first + out].toTensor(), results[0]);
  }
  stack->resize(first);
  for (at::Tensor &result : results) {
    stack->emplace_back(std::move(result));
  }
  return true;
}

std::optional<int64_t> classesOf(const at::Tensor &labels) {
  const auto found = stepSender().readSizes(labels, [](const at::Tensor &x) {
    return at::stack({x.max(), x.min()}).to(at::kLong);
  });
  TORCH_CHECK(!found || found->at(1) >= 0, "bincount only supports 1-d non-negative integral inputs.");
  return found ? std::optional(found->front() + 1) : std::nullopt;
}

} // namespace sojourn::frontend
