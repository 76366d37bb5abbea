// SPDX-License-Identifier: Apache-2.0
// Ops that are not recorded as they come: indices, fills, windows with gaps, and what is refused whatever its arguments
// are.
#include "frontend/recording/Special.h"

#include "frontend/recording/Generator.h"
#include "frontend/recording/Arguments.h"
#include "frontend/recording/StepSender.h"
#include "frontend/recording/Steps.h"

#include <ATen/ATen.h>
#include <ATen/core/List.h>

namespace sojourn::frontend {

void noteUnrepeatable(const at::Tensor &remote, const char *why) {
  const auto device = remoteImpl(remote)->remoteStorage()->device;
  DeviceLock lock(device->mutex());
  device->recording().unrepeatable = why;
}

namespace {

using Stack = torch::jit::Stack;

bool isMask(const at::Tensor &tensor) {
  return tensor.defined() && (tensor.scalar_type() == at::kBool || tensor.scalar_type() == at::kByte);
}

constexpr const char *kByMask =
    "the size of its result is the number of true elements of a mask; select with torch.where instead";

/// self with `values` at the positions of a mask over its dims from `lead` on: alike at all of them, or one after
/// another in order. Undefined where only the run could tell which value goes where.
at::Tensor writeThroughMask(const at::Tensor &self, const at::Tensor &mask, int64_t lead, const at::Tensor &values,
                            bool accumulates) {
  const int64_t rest = self.dim() - lead - mask.dim();
  at::Tensor wide = mask.to(at::kBool);
  for (int64_t i = 0; i < rest; ++i) {
    wide = wide.unsqueeze(-1);
  }
  at::Tensor given = values.to(self.options());
  given = given.numel() == 1 ? given.reshape({}) : given;
  if (given.dim() == rest + 1 && given.size(0) == 1) {
    given = given.squeeze(0);
  }
  if (given.dim() <= rest) {
    return at::where(wide, accumulates ? self + given : given, self);
  }
  if (lead > 0 || given.dim() > rest + 1) {
    return {};
  }
  std::vector<int64_t> sizes{given.size(0)};
  sizes.insert(sizes.end(), self.sizes().end() - rest, self.sizes().end());
  given = given.expand(sizes).reshape({-1});
  wide = wide.expand_as(self);
  return accumulates ? self + at::masked_scatter(at::zeros_like(self), wide, given)
                     : at::masked_scatter(self, wide, given);
}

/// Masks at the owner become the positions that they hold, where their values are known here or may be read. Whether
/// all were.
bool replaceMasks(const at::Tensor &self, c10::List<std::optional<at::Tensor>> &indices) {
  c10::List<std::optional<at::Tensor>> positions;
  for (const std::optional<at::Tensor> &index : indices) {
    if (!index || !isMask(*index)) {
      positions.push_back(index);
      continue;
    }
    const at::Tensor mask = stepSender().maskValue(*index);
    if (!mask.defined()) {
      return false;
    }
    noteUnrepeatable(self, kByMask);
    for (const at::Tensor &along : mask.nonzero().unbind(1)) {
      positions.push_back(along.to(self.device()));
    }
  }
  indices = std::move(positions);
  return true;
}

/// The indices of an indexing op, those of the CPU brought to the indexed tensor's device.
struct Indices {
  c10::List<std::optional<at::Tensor>> list;
  bool isChanged = false;       ///< one was on the CPU
  std::optional<size_t> masked; ///< position of a remote mask

  Indices(const at::Tensor &self, const c10::IValue &given) {
    int64_t dim = 0; // of self, that the next index takes
    for (const c10::IValue &entry : given.toListRef()) {
      const at::Tensor index = entry.isTensor() ? entry.toTensor() : at::Tensor();
      if (isMask(index)) {
        checkMask(self, index, dim);
      }
      dim += isMask(index) ? index.dim() : 1;
      add(self, index);
    }
  }

private:
  static void checkMask(const at::Tensor &self, const at::Tensor &mask, int64_t dim) {
    TORCH_CHECK_INDEX(dim + mask.dim() <= self.dim(), "too many indices for tensor of dimension ", self.dim());
    TORCH_CHECK_INDEX(mask.sizes() == self.sizes().slice(static_cast<size_t>(dim), static_cast<size_t>(mask.dim())),
                      "The shape of the mask ", mask.sizes(), " at index ", dim,
                      " does not match the shape of the indexed tensor ", self.sizes(), " at index ", dim);
  }
  void add(const at::Tensor &self, const at::Tensor &index) {
    const bool isHere = index.defined() && !isRemote(index);
    isChanged = isChanged || isHere;
    if (isHere && isMask(index)) {
      noteUnrepeatable(self, kByMask);
      for (const at::Tensor &positions : index.nonzero().unbind(1)) {
        list.push_back(positions.to(self.device()));
      }
      return;
    }
    if (isMask(index)) {
      masked = list.size();
    }
    list.push_back(isHere            ? std::optional(index.to(self.device()))
                   : index.defined() ? std::optional(index)
                                     : std::nullopt);
  }
};

/// Indices on the CPU go to the owner, masks there as the positions that they hold, as with any device. A mask at the
/// owner chooses between old and new where something is written; what else it would do depends on values.
CallResult indexThroughMask(const SpecialCall &call) {
  const OpInfo &info = call.info;
  const Args args = call.args;
  const at::Tensor self = args[0].toTensor();
  if (!isRemote(self)) {
    return {};
  }
  Indices found(self, args[1]);
  auto &[indices, isChanged, masked] = found;
  if (!masked) {
    if (isChanged) {
      call.replace(1, std::move(indices));
    }
    return {};
  }
  const at::Tensor mask = *indices.get(*masked);
  const bool isWrite = info.args.size() > 2; // index_put: values
  bool isAlone = indices.size() == *masked + 1;
  for (size_t i = 0; i < *masked; ++i) {
    isAlone = isAlone && !indices.get(i);
  }
  at::Tensor result;
  if (isWrite && isAlone) {
    result = writeThroughMask(self, mask, static_cast<int64_t>(*masked), args[2].toTensor(),
                              args[3].isBool() && args[3].toBool());
  }
  if (!result.defined()) {
    if (replaceMasks(self, indices)) {
      call.replace(1, std::move(indices));
      return {};
    }
    fail(ErrorKind::ValueNeeded, info,
         isWrite ? "a boolean index among several indices, or behind a full dim, selects positions that depend on "
                   "values; use x = torch.where(mask, value, x)"
                 : "the shape of a boolean-indexed result depends on values; use torch.where(mask, x, 0) or multiply "
                   "by the mask");
  }
  if (!info.mutated.empty()) {
    self.copy_(result);
    result = self;
  }
  return result;
}

CallResult fillShared(const SpecialCall &call) {
  // Elements that share memory become one number, so that one of them says it for all.
  const at::Tensor self = call.args[0].toTensor();
  if (!isRemote(self) || self.numel() == 0) {
    return {};
  }
  Dims sizes(self.sizes().begin(), self.sizes().end());
  for (size_t dim = 0; dim < sizes.size(); ++dim) {
    sizes[dim] = self.strides()[dim] == 0 ? 1 : sizes[dim];
  }
  if (self.sizes() == c10::IntArrayRef(sizes)) {
    return {};
  }
  self.as_strided(sizes, self.strides()).fill_(call.args.size() > 1 ? call.args[1].toScalar() : at::Scalar(0));
  return self;
}

/// Where some are expanded, one by one: each is then a fill. Whether it was done so.
bool zeroOneByOne(const SpecialCall &call) {
  const auto tensors = call.args[0].toTensorVector();
  const auto isExpanded = [](const at::Tensor &tensor) {
    return std::any_of(tensor.strides().begin(), tensor.strides().end(), [](int64_t stride) { return stride == 0; });
  };
  if (std::none_of(tensors.begin(), tensors.end(), isExpanded)) {
    return false;
  }
  for (at::Tensor tensor : tensors) {
    const bool isCounted = !tensor.is_inference();
    const int64_t before = isCounted ? tensor._version() : 0;
    tensor.zero_();
    if (isCounted && tensor._version() == before) { // below a mode of the thread
      tensor.unsafeGetTensorImpl()->bump_version();
    }
  }
  return true;
}

/// Into an `out` it computes in the dtype of that, if it is given none. Of complex numbers real dtypes take the real
/// parts, and booleans whether they are 0.
void setType(const SpecialCall &call) {
  if (call.info.givesTruth) { // into bytes, of bytes
    const at::Tensor self = call.args[0].toTensor(), out = call.args.back().toTensor();
    if (out.scalar_type() == at::kByte && self.scalar_type() != at::kBool) {
      call.replace(0, (self.is_complex() ? at::real(self) : self).to(at::kByte));
    }
    return;
  }
  const auto position = static_cast<size_t>(*call.info.schema->argumentIndexWithName("dtype"));
  const at::Tensor self = call.args[0].toTensor();
  const bool isMean = call.info.schema->name() == "aten::mean"; // refuses integers without a dtype
  if (call.args[position].isNone() && call.info.schema->arguments().back().is_out() &&
      (!isMean || self.is_floating_point() || self.is_complex())) {
    call.replace(position, call.args.back().toTensor().scalar_type());
  }
  if (call.args[position].isNone() || !self.is_complex()) {
    return;
  }
  if (const at::ScalarType dtype = call.args[position].toScalarType(); !c10::isComplexType(dtype)) {
    call.replace(0, dtype == at::kBool ? self.ne(0) : at::real(self));
  }
}

/// Eager's kernels over channels leave the scale aside where a side keeps its size or doubles.
CallResult resizeNearest(const SpecialCall &call) {
  const at::Tensor self = call.args[0].toTensor();
  const int64_t spatial = self.dim() - 2;
  if (!isRemote(self) || self.size(1) <= 3 ||
      !self.is_contiguous(spatial == 2 ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::ChannelsLast3d)) {
    return {};
  }
  const auto sizes = call.args[1].toIntVector();
  for (int64_t i = 0; i < spatial && i < static_cast<int64_t>(sizes.size()); ++i) {
    const int64_t in = self.size(2 + i), out = sizes[static_cast<size_t>(i)];
    if (out == in || out == 2 * in) {
      call.replace(2 + static_cast<size_t>(i), c10::IValue());
    }
  }
  return {};
}

/// As many classes as the labels have, where that may be read.
CallResult countLabels(const SpecialCall &call) {
  c10::SmallVector<OutputMeta, 1> metas;
  (*call.info.shape)(call.args, metas); // what eager says of wrong arguments comes first
  const at::Tensor labels = call.args[0].toTensor();
  constexpr size_t kLeast = 2; // minlength
  if (!isRemote(labels)) {
    return {};
  }
  if (labels.numel() == 0 && call.info.mutated.empty()) { // integers, whatever the weights are
    return at::zeros({call.args[kLeast].toInt()}, labels.options().dtype(at::kLong));
  }
  if (const auto classes = classesOf(labels)) {
    call.replace(kLeast, std::max(call.args[kLeast].toInt(), *classes));
  }
  return {};
}

CallResult countInBins(const SpecialCall &call) {
  const bool countsLabels = call.info.schema->name() == "aten::bincount";
  if (countsLabels) {
    if (CallResult answer = countLabels(call); answer || !isRemote(call.args[0].toTensor())) {
      return answer;
    }
  }
  if (const char *needed = histogramNeeds(*call.info.schema, call.args)) {
    fail(ErrorKind::ValueNeeded, call.info, needed);
  }
  if (!countsLabels && call.info.schema->name() == "aten::histc" &&
      call.args[2].toScalar().toDouble() == call.args[3].toScalar().toDouble()) {
    // No range: that of the values. Numbers are recorded apart from programs, this is not.
    call.replace(2, c10::IValue());
    call.replace(3, c10::IValue());
  }
  return {};
}

CallResult makeStrided(const SpecialCall &call) {
  const Args args = call.args;
  const size_t first = args[0].isTensor() ? 1 : 0; // new_empty_strided takes its options from a tensor
  const std::vector<int64_t> sizes = args[first].toIntVector(), strides = args[first + 1].toIntVector();
  auto isNegative = [](int64_t number) { return number < 0; };
  if (sizes.size() != strides.size() || c10::multiply_integers(sizes) == 0 ||
      std::any_of(strides.begin(), strides.end(), isNegative) || std::any_of(sizes.begin(), sizes.end(), isNegative) ||
      isDenseLayout(sizes, strides)) {
    return {};
  }
  at::TensorOptions options = first == 0 ? at::TensorOptions() : args[0].toTensor().options();
  options = args[first + 2].isNone() ? options : options.dtype(args[first + 2].toScalarType());
  options = args[first + 4].isNone() ? options : options.device(args[first + 4].toDevice());
  return emptyStrided(sizes, strides, options);
}

CallResult checkNoErrors(const SpecialCall &call) {
  if (call.args[static_cast<size_t>(*call.info.schema->argumentIndexWithName("check_errors"))].toBool()) {
    fail(ErrorKind::ValueNeeded, call.info,
         "with check_errors it reads a value; pass check_errors=False: then a failure gives NaN, and a nonzero info");
  }
  return {};
}

CallResult takeMemory(const SpecialCall &call) {
  const at::Tensor self = call.args[0].toTensor(), source = call.args[1].toTensor();
  if (source.device() != self.device()) {
    fail(ErrorKind::Unsupported, call.info,
         "it takes the memory of a tensor on " + source.device().str() + ", expected a tensor on " +
             self.device().str() + "; move that tensor first");
  }
  TORCH_CHECK(source.scalar_type() == self.scalar_type(), "Could not set tensor of type ", source.dtype(),
              " to a tensor of type ", self.dtype());
  remoteImpl(self)->changeStorage(remoteImpl(source)->remoteStorage());
  remoteImpl(self)->changeLayout(source.sizes(), source.strides(), source.storage_offset());
  return self;
}

CallResult answerCall(const SpecialCall &call) {
  switch (call.info.special) {
  case Special::LocalScalar: return readScalar(call);
  case Special::Copy: return copyInto(call);
  case Special::ToCopy: return copyTo(call);
  case Special::SetSource: return takeMemory(call);
  case Special::Resize: resize(call.info, call.args[0].toTensor(), call.args[1].toIntVector()); return call.args[0];
  case Special::EmptyStrided: return makeStrided(call);
  case Special::Index: return indexThroughMask(call);
  case Special::Fill: return fillShared(call);
  case Special::Nearest: return resizeNearest(call);
  case Special::Histogram: return countInBins(call);
  case Special::CheckErrors: return checkNoErrors(call);
  case Special::Reduction: setType(call); break;
  case Special::Refused: fail(call.info.refusalKind, call.info, call.info.refusalHint);
  case Special::Sized:
  case Special::ZeroLists:
  case Special::NoOp:
  case Special::None: break;
  }
  return {};
}

} // namespace

bool answerSpecial(const OpInfo &info, Stack *stack) {
  const size_t count = info.args.size();
  if (info.special == Special::NoOp) {
    stack->resize(stack->size() - count);
    return true;
  }
  if (info.special == Special::Sized) {
    return answerSized(info, stack);
  }
  const SpecialCall call{info, stack, Args(stack->data() + stack->size() - count, count)};
  if (info.special == Special::ZeroLists) {
    const bool isDone = zeroOneByOne(call);
    stack->resize(stack->size() - (isDone ? count : 0));
    return isDone;
  }
  CallResult answer = answerCall(call);
  if (answer) {
    leaveResults(stack, count, {std::move(*answer)});
  }
  return answer.has_value();
}

} // namespace sojourn::frontend
