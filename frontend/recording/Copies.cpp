// SPDX-License-Identifier: Apache-2.0
// Copies over the border between this process and an owner, and values that Python asks for.
#include "frontend/recording/Special.h"

#include "frontend/recording/Generator.h"
#include "frontend/recording/StepSender.h"
#include "frontend/recording/Steps.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/graph_task.h>

namespace sojourn::frontend {

namespace {

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

/// Outside of steps a value may be read: what is pending is sent with the question.
bool mayRead(const at::Tensor &tensor) {
  return !Steps::active() && !remoteImpl(tensor)->remoteStorage()->device->offline();
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

/// A remote tensor's value as a CPU tensor in its memory order.
at::Tensor readLaidOut(const at::Tensor &self) { return laidOut(stepSender().readValues({self}).front(), self); }

/// A CPU tensor written through a conjugate or negated view: what is stored is the opposite of what is written.
void writeNegated(const at::Tensor &self, const at::Tensor &source) {
  noteUnrepeatable(self, "it writes a CPU tensor through a conjugate or negated view; write it to the tensor itself");
  const at::Tensor values = self.is_conj() ? source.to(self.scalar_type()).conj().resolve_conj() : source;
  asStored(self).copy_(self.is_neg() ? values.neg() : values);
}

/// A CPU tensor goes to an owner: the upload takes the place of `self`, or of the source in the call.
CallResult uploadInto(const SpecialCall &call, const at::Tensor &self, const at::Tensor &source) {
  if (source.dim() > 0) {
    stepSender().batchBegins();
  }
  TORCH_CHECK(at::is_expandable_to(source.sizes(), self.sizes()), "The size of tensor a ", self.sizes(),
              " must match the size of tensor b ", source.sizes());
  checkWritable(call.info, self);
  RemoteTensorImpl *impl = remoteImpl(self);
  const auto &storage = impl->remoteStorage();
  const auto device = storage->device;
  const at::Tensor host = source.to(self.scalar_type()).expand(self.sizes());
  DeviceLock lock(device->mutex());
  // Inside a step the old value stays, for a rollback returns to it.
  if (!Steps::active() && !storage->handle && storage.use_count() == 1 && impl->storage_offset() == 0 &&
      self.scalar_type() == storage->dtype && self.sizes() == c10::IntArrayRef(storage->sizes)) {
    // `x.to(owner)` arrives as empty + copy_: the new storage is the upload itself.
    at::Tensor dense = at::empty_strided(self.sizes(), self.strides(), host.options());
    dense.copy_(host);
    impl->adoptUpload(device->makeUpload(dense, /*fresh=*/true));
    device->recording().idOf(*impl->remoteStorage());
    return self;
  }
  call.replace(1, makeTensor(device->makeUpload(host)));
  return {};
}

/// A CPU tensor as a new tensor at an owner.
at::Tensor upload(const SpecialCall &call, const at::Tensor &self) {
  if (self.dim() > 0) {
    stepSender().batchBegins();
  }
  const auto device = deviceAt(call.args[3].toDevice());
  const auto format = call.args[6].isNone() ? at::MemoryFormat::Preserve : call.args[6].toMemoryFormat();
  at::Tensor host = at::empty_like(self, self.options().dtype(dtypeOr(call.args[1], self)), format);
  host.copy_(self);
  DeviceLock lock(device->mutex());
  auto storage = device->makeUpload(host, /*fresh=*/true);
  device->recording().idOf(*storage);
  return makeTensor(std::move(storage));
}

/// A remote tensor as a new one here.
at::Tensor download(const SpecialCall &call, const at::Tensor &self, c10::Device device) {
  const at::ScalarType dtype = dtypeOr(call.args[1], self);
  if (device.is_meta()) {
    return at::empty_strided(self.sizes(), self.strides(), at::dtype(dtype).device(at::kMeta));
  }
  if (!mayRead(self)) {
    fail(ErrorKind::Refused, call.info,
         "a remote value would move to " + device.str() +
             "; values leave the owner only by sojourn.publish(tensor), and inside a step with its reply");
  }
  const auto format = call.args[6].isNone() ? std::nullopt : std::optional(call.args[6].toMemoryFormat());
  return at::_to_copy(readLaidOut(self), at::TensorOptions(device).dtype(dtype).memory_format(format));
}

} // namespace

CallResult readScalar(const SpecialCall &call) {
  const at::Tensor self = call.args[0].toTensor();
  if (!mayRead(self)) {
    refuseToRead(call.info);
  }
  return stepSender().readValues({self}).front().item();
}

CallResult copyInto(const SpecialCall &call) {
  const at::Tensor self = call.args[0].toTensor(), source = call.args[1].toTensor();
  if (!isRemote(self)) {
    if (!mayRead(source)) {
      fail(ErrorKind::Refused, call.info,
           "a remote value would be copied to " + self.device().str() +
               "; values leave the owner only by sojourn.publish, and inside a step with its reply");
    }
    self.copy_(stepSender().readValues({source}).front());
    return self;
  }
  if (isRemote(source)) {
    checkApart(self, source);
    return {};
  }
  if (isLazilyNegated(self)) {
    writeNegated(self, source);
    return self;
  }
  return uploadInto(call, self, source);
}

CallResult copyTo(const SpecialCall &call) {
  const at::Tensor self = call.args[0].toTensor();
  if (!isRemote(self)) {
    return upload(call, self);
  }
  if (!call.args[3].isDevice()) {
    return {};
  }
  const c10::Device device = call.args[3].toDevice();
  if (device.type() != c10::DeviceType::PrivateUse1) {
    return download(call, self, device);
  }
  if (!device.has_index() || device == self.device()) {
    return {};
  }
  const at::Tensor moved = stepSender().move(self, *deviceAt(device));
  if (moved.defined()) {
    const at::ScalarType dtype = dtypeOr(call.args[1], self);
    return dtype == self.scalar_type() ? moved : at::_to_copy(moved, at::TensorOptions(device).dtype(dtype));
  }
  if (!mayRead(self)) {
    fail(ErrorKind::Refused, call.info,
         "a value would move from " + self.device().str() + " to " + device.str() +
             "; publish it at the first owner, then upload it to the second, or make a group of both "
             "(sojourn.parties) and move it before the step");
  }
  return at::_to_copy(readLaidOut(self), at::TensorOptions(device).dtype(dtypeOr(call.args[1], self)));
}

} // namespace sojourn::frontend
