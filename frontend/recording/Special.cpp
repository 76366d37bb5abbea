// SPDX-License-Identifier: Apache-2.0
// Ops that are not recorded as they come: copies over the border between here and an owner, values that are read,
// indices, and what is refused whatever its arguments are.
#include "frontend/recording/Record.h"

#include "frontend/recording/Generator.h"
#include "frontend/session/Reads.h"

#include <ATen/ATen.h>
#include <ATen/core/List.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/graph_task.h>

namespace sojourn::frontend {

namespace {

using Stack = torch::jit::Stack;
using Args = c10::ArrayRef<c10::IValue>;

const char *valueHint() {
  return "its value stays at the owner; publish it (sojourn.publish), or keep it on the device (torch.where instead "
         "of if, tensors instead of Python numbers)";
}

/// Why a value is not given, and what to do: torch's own code has no line to publish it at.
[[noreturn]] void refuseToRead(const OpInfo &info) {
  const std::string line = describeTorchsLine();
  if (line.empty()) {
    fail(ErrorKind::ValueNeeded, info, std::string("Python asked for the value of a remote tensor; ") + valueHint());
  }
  if (torch::autograd::AnomalyMode::is_enabled() && torch::autograd::AnomalyMode::should_check_nan() &&
      torch::autograd::get_current_graph_task_id() != -1) {
    fail(
        ErrorKind::ValueNeeded, info,
        "anomaly mode looks for NaN in each gradient, but values stay at the owner inside a step; use "
        "torch.autograd.set_detect_anomaly(True, check_nan=False), or train outside of explicit steps to find the NaN");
  }
  fail(ErrorKind::ValueNeeded, info,
       "torch asked for the value of a remote tensor (" + line +
           "), but values stay at the owner inside a step; call this outside of explicit steps, or with options that "
           "need no value");
}

bool isMask(const at::Tensor &tensor) {
  return tensor.defined() && (tensor.scalar_type() == at::kBool || tensor.scalar_type() == at::kByte);
}

constexpr const char *kByMask =
    "the size of its result is the number of true elements of a mask; select with torch.where instead";

/// `remote` tells the trace.
void noteUnrepeatable(const at::Tensor &remote, const char *why) {
  const auto session = remoteImpl(remote)->remoteStorage()->session;
  SessionLock lock(session->mutex());
  session->recording().unrepeatable = why;
}

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
    const at::Tensor mask = maskValue(*index);
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

/// Indices on the CPU go to the owner, masks there as the positions that they hold, as with any device. A mask at the
/// owner chooses between old and new where something is written; what else it would do depends on values. Whether the
/// call is done.
bool indexThroughMask(const OpInfo &info, Stack *stack) {
  const size_t count = info.args.size(), first = stack->size() - count;
  Args args(stack->data() + first, count);
  const at::Tensor self = args[0].toTensor();
  c10::List<std::optional<at::Tensor>> indices;
  bool isChanged = false;
  std::optional<size_t> masked;
  int64_t dim = 0; // of self, that the next index takes
  auto checkMask = [&](const at::Tensor &mask) {
    TORCH_CHECK_INDEX(dim + mask.dim() <= self.dim(), "too many indices for tensor of dimension ", self.dim());
    TORCH_CHECK_INDEX(mask.sizes() == self.sizes().slice(static_cast<size_t>(dim), static_cast<size_t>(mask.dim())),
                      "The shape of the mask ", mask.sizes(), " at index ", dim,
                      " does not match the shape of the indexed tensor ", self.sizes(), " at index ", dim);
  };
  for (const c10::IValue &entry : args[1].toListRef()) {
    at::Tensor index = entry.isTensor() ? entry.toTensor() : at::Tensor();
    if (isMask(index)) {
      checkMask(index);
    }
    dim += isMask(index) ? index.dim() : 1;
    if (index.defined() && !isRemote(index) && isMask(index)) {
      noteUnrepeatable(self, kByMask);
      for (const at::Tensor &positions : index.nonzero().unbind(1)) {
        indices.push_back(positions.to(self.device()));
      }
      isChanged = true;
      continue;
    }
    if (index.defined() && !isRemote(index)) {
      isChanged = true;
      index = index.to(self.device());
    } else if (isMask(index)) {
      masked = indices.size();
    }
    indices.push_back(index.defined() ? std::optional(index) : std::nullopt);
  }
  if (!masked) {
    if (isChanged) {
      (*stack)[first + 1] = std::move(indices);
    }
    return false;
  }
  const at::Tensor mask = *indices.get(*masked);
  const bool isWrite = info.name.find("index_put") != std::string::npos;
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
      (*stack)[first + 1] = std::move(indices);
      return false;
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
  stack->resize(first);
  stack->emplace_back(std::move(result));
  return true;
}

/// Outside of steps a value may be read: what is pending is sent with the question.
bool mayRead(const at::Tensor &tensor) {
  return !Steps::active() && !remoteImpl(tensor)->remoteStorage()->session->offline();
}

at::ScalarType dtypeOr(const c10::IValue &given, const at::Tensor &otherwise) {
  return given.isNone() ? otherwise.scalar_type() : given.toScalarType();
}

/// A dense CPU tensor in the memory order of another one of its shape; itself where it is.
at::Tensor laidOut(const at::Tensor &dense, const at::Tensor &like) {
  if (!like.is_non_overlapping_and_dense() || like.is_contiguous()) {
    return dense;
  }
  return at::empty_strided(like.sizes(), like.strides(), dense.options()).copy_(dense);
}

} // namespace

bool answerSpecial(const OpInfo &info, Stack *stack) {
  size_t count = info.args.size();
  Args args(stack->data() + stack->size() - count, count);
  switch (info.special) {
  case Special::NoOp: stack->resize(stack->size() - count); return true;
  case Special::LocalScalar: {
    const at::Tensor self = args[0].toTensor();
    if (!mayRead(self)) {
      refuseToRead(info);
    }
    at::Scalar number = readValues({self}).front().item();
    stack->resize(stack->size() - count);
    stack->emplace_back(number);
    return true;
  }
  case Special::Refused: fail(info.refusalKind, info, info.refusalHint);
  case Special::Sized: return answerSized(info, stack);
  case Special::Copy: {
    at::Tensor self = args[0].toTensor(), source = args[1].toTensor();
    if (!isRemote(self)) {
      if (!mayRead(source)) {
        fail(ErrorKind::Refused, info,
             "a remote value would be copied to " + self.device().str() +
                 "; values leave the owner only by sojourn.publish, and inside a step with its reply");
      }
      self.copy_(readValues({source}).front());
      stack->resize(stack->size() - count);
      stack->emplace_back(std::move(self));
      return true;
    }
    if (isRemote(source)) {
      checkApart(self, source);
      break;
    }
    if (isLazilyNegated(self)) {
      // What is stored is the opposite of what is written.
      noteUnrepeatable(self,
                       "it writes a CPU tensor through a conjugate or negated view; write it to the tensor itself");
      at::Tensor values = self.is_conj() ? source.to(self.scalar_type()).conj().resolve_conj() : source;
      asStored(self).copy_(self.is_neg() ? values.neg() : values);
      stack->resize(stack->size() - count);
      stack->emplace_back(std::move(self));
      return true;
    }
    if (source.dim() > 0) {
      markBatch();
    }
    TORCH_CHECK(at::is_expandable_to(source.sizes(), self.sizes()), "The size of tensor a ", self.sizes(),
                " must match the size of tensor b ", source.sizes());
    checkWritable(info, self);
    RemoteTensorImpl *impl = remoteImpl(self);
    const auto &storage = impl->remoteStorage();
    auto session = storage->session;
    at::Tensor host = source.to(self.scalar_type()).expand(self.sizes());
    SessionLock lock(session->mutex());
    // Inside a step the old value stays, for a rollback returns to it.
    if (!Steps::active() && !storage->handle && storage.use_count() == 1 && impl->storage_offset() == 0 &&
        self.scalar_type() == storage->dtype && self.sizes() == c10::IntArrayRef(storage->sizes)) {
      // `x.to(owner)` arrives as empty + copy_: the new storage is the upload itself.
      at::Tensor dense = at::empty_strided(self.sizes(), self.strides(), host.options());
      dense.copy_(host);
      impl->adoptUpload(session->makeUpload(dense, /*fresh=*/true));
      session->idInTrace(*impl->remoteStorage());
      stack->resize(stack->size() - count);
      stack->emplace_back(std::move(self));
      return true;
    }
    at::Tensor uploaded = makeTensor(session->makeUpload(host));
    (*stack)[stack->size() - count + 1] = uploaded;
    break;
  }
  case Special::ToCopy: {
    auto device = args[3];
    at::Tensor self = args[0].toTensor();
    if (!isRemote(self)) {
      if (self.dim() > 0) {
        markBatch();
      }
      c10::Device target = device.toDevice();
      auto session = Session::at(target.has_index() ? target.index() : currentDeviceIndex());
      auto format = args[6].isNone() ? at::MemoryFormat::Preserve : args[6].toMemoryFormat();
      at::Tensor host = at::empty_like(self, self.options().dtype(dtypeOr(args[1], self)), format);
      host.copy_(self);
      SessionLock lock(session->mutex());
      auto storage = session->makeUpload(host, /*fresh=*/true);
      session->idInTrace(*storage);
      stack->resize(stack->size() - count);
      stack->emplace_back(makeTensor(std::move(storage)));
      return true;
    }
    if (device.isDevice() && device.toDevice().type() != c10::DeviceType::PrivateUse1) {
      if (device.toDevice().is_meta()) {
        at::Tensor meta =
            at::empty_strided(self.sizes(), self.strides(), at::dtype(dtypeOr(args[1], self)).device(at::kMeta));
        stack->resize(stack->size() - count);
        stack->emplace_back(std::move(meta));
        return true;
      }
      if (!mayRead(self)) {
        fail(ErrorKind::Refused, info,
             "a remote value would move to " + device.toDevice().str() +
                 "; values leave the owner only by sojourn.publish(tensor), and inside a step with its reply");
      }
      at::Tensor host = laidOut(readValues({self}).front(), self);
      auto format = args[6].isNone() ? std::nullopt : std::optional(args[6].toMemoryFormat());
      at::Tensor copy =
          at::_to_copy(host, at::TensorOptions(device.toDevice()).dtype(dtypeOr(args[1], self)).memory_format(format));
      stack->resize(stack->size() - count);
      stack->emplace_back(std::move(copy));
      return true;
    }
    if (device.isDevice() && device.toDevice().has_index() && device.toDevice() != self.device()) {
      if (mayRead(self)) {
        at::Tensor there = at::_to_copy(laidOut(readValues({self}).front(), self),
                                        at::TensorOptions(device.toDevice()).dtype(dtypeOr(args[1], self)));
        stack->resize(stack->size() - count);
        stack->emplace_back(std::move(there));
        return true;
      }
      fail(ErrorKind::Refused, info,
           "a value would move from " + self.device().str() + " to " + device.toDevice().str() +
               "; publish it at the first owner, then upload it to the second");
    }
    break;
  }
  case Special::SetSource: {
    at::Tensor self = args[0].toTensor();
    const at::Tensor source = args[1].toTensor();
    if (source.device() != self.device()) {
      fail(ErrorKind::Unsupported, info,
           "it takes the memory of a tensor on " + source.device().str() + ", expected a tensor on " +
               self.device().str() + "; move that tensor first");
    }
    TORCH_CHECK(source.scalar_type() == self.scalar_type(), "Could not set tensor of type ", source.dtype(),
                " to a tensor of type ", self.dtype());
    remoteImpl(self)->changeStorage(remoteImpl(source)->remoteStorage());
    remoteImpl(self)->changeLayout(source.sizes(), source.strides(), source.storage_offset());
    stack->resize(stack->size() - count);
    stack->emplace_back(std::move(self));
    return true;
  }
  case Special::Resize: {
    at::Tensor self = args[0].toTensor();
    resize(info, self, args[1].toIntVector());
    stack->resize(stack->size() - count);
    stack->emplace_back(std::move(self));
    return true;
  }
  case Special::EmptyStrided: {
    const size_t first = info.name == "aten::empty_strided" ? 0 : 1;
    const std::vector<int64_t> sizes = args[first].toIntVector(), strides = args[first + 1].toIntVector();
    if (sizes.size() != strides.size() || c10::multiply_integers(sizes) == 0 ||
        std::any_of(strides.begin(), strides.end(), [](int64_t stride) { return stride < 0; }) ||
        std::any_of(sizes.begin(), sizes.end(), [](int64_t size) { return size < 0; }) ||
        isDenseLayout(sizes, strides)) {
      break;
    }
    at::TensorOptions options = first == 0 ? at::TensorOptions() : args[0].toTensor().options();
    options = args[first + 2].isNone() ? options : options.dtype(args[first + 2].toScalarType());
    options = args[first + 4].isNone() ? options : options.device(args[first + 4].toDevice());
    at::Tensor made = emptyStrided(sizes, strides, options);
    stack->resize(stack->size() - count);
    stack->emplace_back(std::move(made));
    return true;
  }
  case Special::Index:
    if (isRemote(args[0].toTensor()) && indexThroughMask(info, stack)) {
      return true;
    }
    break;
  case Special::Fill: {
    // Elements that share memory become one number, so that one of them says it for all.
    at::Tensor self = args[0].toTensor();
    if (!isRemote(self) || self.numel() == 0) {
      break;
    }
    Dims sizes(self.sizes().begin(), self.sizes().end());
    for (size_t dim = 0; dim < sizes.size(); ++dim) {
      sizes[dim] = self.strides()[dim] == 0 ? 1 : sizes[dim];
    }
    if (self.sizes() == c10::IntArrayRef(sizes)) {
      break;
    }
    self.as_strided(sizes, self.strides()).fill_(count > 1 ? args[1].toScalar() : at::Scalar(0));
    stack->resize(stack->size() - count);
    stack->emplace_back(std::move(self));
    return true;
  }
  case Special::Nearest: {
    // Eager's kernels over channels leave the scale aside where a side keeps its size or doubles.
    const at::Tensor self = args[0].toTensor();
    const int64_t spatial = self.dim() - 2;
    if (!isRemote(self) || self.size(1) <= 3 ||
        !self.is_contiguous(spatial == 2 ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::ChannelsLast3d)) {
      break;
    }
    const auto sizes = args[1].toIntVector();
    for (int64_t i = 0; i < spatial && i < static_cast<int64_t>(sizes.size()); ++i) {
      const int64_t in = self.size(2 + i), out = sizes[static_cast<size_t>(i)];
      if (out == in || out == 2 * in) {
        (*stack)[stack->size() - count + 2 + static_cast<size_t>(i)] = c10::IValue();
      }
    }
    break;
  }
  case Special::Histogram:
    if (info.schema->name() == "aten::bincount") {
      c10::SmallVector<OutputMeta, 1> metas;
      (*info.shape)(args, metas); // what eager says of wrong arguments comes first
      const at::Tensor labels = args[0].toTensor();
      const size_t least = stack->size() - count + 2; // where minlength is
      if (!isRemote(labels)) {
        break;
      }
      if (labels.numel() == 0 && info.mutated.empty()) { // integers, whatever the weights are
        at::Tensor none = at::zeros({(*stack)[least].toInt()}, labels.options().dtype(at::kLong));
        stack->resize(stack->size() - count);
        stack->emplace_back(std::move(none));
        return true;
      }
      if (const auto classes = classesOf(labels)) {
        (*stack)[least] = std::max((*stack)[least].toInt(), *classes);
      }
    }
    if (const char *needed = histogramNeeds(*info.schema, args)) {
      fail(ErrorKind::ValueNeeded, info, needed);
    }
    if (info.schema->name() == "aten::histc" && args[2].toScalar().toDouble() == args[3].toScalar().toDouble()) {
      // No range: that of the values. Numbers are recorded apart from programs, this is not.
      (*stack)[stack->size() - count + 2] = (*stack)[stack->size() - count + 3] = c10::IValue();
    }
    break;
  case Special::CheckErrors:
    if (args[static_cast<size_t>(*info.schema->argumentIndexWithName("check_errors"))].toBool()) {
      fail(ErrorKind::ValueNeeded, info,
           "with check_errors it reads a value; pass check_errors=False: then a failure gives NaN, and a nonzero info");
    }
    break;
  case Special::None:
  case Special::BatchNorm: break;
  }
  return false;
}

} // namespace sojourn::frontend
