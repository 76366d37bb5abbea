// SPDX-License-Identifier: Apache-2.0
// The boxed kernel: checks devices, asks the shape rule, appends one record, hands out tensors.
#include "frontend/recording/Record.h"

#include "frontend/Error.h"
#include "frontend/recording/Arguments.h"
#include "frontend/recording/Generator.h"
#include "frontend/recording/Origin.h"
#include "frontend/recording/Packed.h"
#include "frontend/recording/Slots.h"
#include "frontend/recording/StepSender.h"

#include <ATen/ATen.h>
#include <ATen/core/List.h>

namespace sojourn::frontend {

std::shared_ptr<RemoteDevice> deviceAt(c10::Device device) {
  return RemoteDevice::at(device.has_index() ? device.index() : currentDeviceIndex());
}

namespace {

using Stack = torch::jit::Stack;

/// Tensors of a group's members that meet tensors of the group join it, and what is written to a tensor at another
/// place moves there.
void joinMembers(const OpInfo &info, Stack *stack, size_t count) {
  const auto args = [&] { return Args(stack->data() + stack->size() - count, count); };
  RemoteDevice *first = nullptr, *other = nullptr;
  eachTensor(info, args(), [&](const at::Tensor &tensor, size_t) {
    if (isRemote(tensor)) {
      RemoteDevice *device = remoteImpl(tensor)->remoteStorage()->device.get();
      first = first ? first : device;
      other = device != first ? device : other;
    }
  });
  if (other && info.special == Special::Copy) { // the source moves to where it is written
    c10::IValue *values = stack->data() + stack->size() - count;
    const auto &to = remoteImpl(values[0].toTensor())->remoteStorage()->device;
    if (const at::Tensor moved = stepSender().move(values[1].toTensor(), *to); moved.defined()) {
      values[1] = moved;
    }
    return;
  }
  RemoteDevice *group = !other ? nullptr : first->isGroup() ? first : other->isGroup() ? other : nullptr;
  if (!group) {
    return;
  }
  const auto joined = [&](const at::Tensor &tensor, size_t position) {
    if (!isRemote(tensor) || !group->hasMember(*remoteImpl(tensor)->remoteStorage()->device)) {
      return tensor;
    }
    if (isMutated(info, position) || tensor.requires_grad()) {
      fail(ErrorKind::Error, info,
           std::string("a tensor at ") + remoteImpl(tensor)->remoteStorage()->device->address() +
               (tensor.requires_grad() ? ", which requires a gradient," : ", which the op writes to,") +
               " meets tensors of a group; move it to the group first: tensor.to(parties.device)");
    }
    return stepSender().borrow(tensor, *group);
  };
  for (size_t i = 0; i < count; ++i) {
    c10::IValue &value = (*stack)[stack->size() - count + i];
    if (info.args[i] == ArgKind::Tensor && value.isTensor() && value.toTensor().defined()) {
      value = joined(value.toTensor(), i);
    } else if (info.args[i] == ArgKind::TensorList && value.isTensorList()) {
      c10::List<at::Tensor> all;
      for (const at::Tensor &tensor : value.toTensorVector()) {
        all.push_back(joined(tensor, i));
      }
      value = std::move(all);
    }
  }
}

/// The one remote device of a call; throws where devices mix. `isLazy`: an operand's values are not as they are stored.
std::shared_ptr<RemoteDevice> deviceOf(const OpInfo &info, Args args, bool &isLazy) {
  std::shared_ptr<RemoteDevice> device;
  eachTensor(info, args, [&](const at::Tensor &tensor, size_t position) {
    if (isRemote(tensor)) {
      isLazy = isLazy || isLazilyNegated(tensor);
      if (tensor.is_complex() && !info.takesComplex) {
        fail(ErrorKind::Unsupported, info,
             "it does not support complex numbers on device owner; compute with their parts (x.real, x.imag, "
             "torch.view_as_real)");
      }
      const auto &owner = remoteImpl(tensor)->remoteStorage()->device;
      if (device && device != owner) {
        fail(ErrorKind::Error, info,
             "operands are at two places (" + device->device().str() + ", " + device->address() + ", and " +
                 owner->device().str() + ", " + owner->address() +
                 "); a step of several owners has a device of its own: parties = sojourn.parties(a, b), with rows by "
                 "parties.rows(...) and uploads by .to(parties.device)");
      }
      if (!device) {
        device = owner;
      }
      return;
    }
    if (isMutated(info, position)) {
      fail(ErrorKind::Refused, info,
           "it writes a remote value into a tensor on " + tensor.device().str() +
               "; values leave the owner only by sojourn.publish; move the state of an optimizer that was made before "
               "its model moved with optimizer.load_state_dict(optimizer.state_dict())");
    }
    if (tensor.dim() > 0) {
      fail(ErrorKind::Error, info,
           "a " + tensor.device().str() + " tensor of shape " + c10::str(tensor.sizes()) +
               " meets remote tensors; move it first: tensor.to(owner.device)");
    }
  });
  for (size_t i = 0; !device && i < args.size(); ++i) {
    if (info.args[i] == ArgKind::Device && args[i].isDevice()) {
      const c10::Device asked = args[i].toDevice();
      if (asked.type() == c10::DeviceType::PrivateUse1) {
        device = deviceAt(asked);
      }
    }
  }
  return device ? device : RemoteDevice::at(currentDeviceIndex());
}

/// as_strided may reach further than its storage does; a view as another type may be of one that is not carried.
void checkViews(const OpInfo &info, const at::Tensor &base, c10::ArrayRef<ViewMeta> views) {
  const Storage &storage = *remoteImpl(base)->remoteStorage();
  const auto bytes = c10::multiply_integers(storage.sizes) * static_cast<int64_t>(c10::elementSize(storage.dtype));
  for (const ViewMeta &view : views) {
    const at::ScalarType type = view.dtype == at::ScalarType::Undefined ? base.scalar_type() : view.dtype;
    checkElement(type);
    const int64_t count = bytes / static_cast<int64_t>(c10::elementSize(type));
    int64_t last = view.offset;
    bool empty = false;
    for (size_t dim = 0; dim < view.sizes.size(); ++dim) {
      empty = empty || view.sizes[dim] == 0;
      last += (view.sizes[dim] - 1) * view.strides[dim];
    }
    if (!empty && last >= count) {
      fail(ErrorKind::Unsupported, info,
           "sizes " + c10::str(c10::IntArrayRef(view.sizes)) + ", strides " + c10::str(c10::IntArrayRef(view.strides)) +
               " and offset " + std::to_string(view.offset) + " reach outside a tensor of " + std::to_string(count) +
               " elements; stay inside the base tensor, or pad it first");
    }
  }
}

} // namespace

void Recorder::operator()(const c10::OperatorHandle &op, c10::DispatchKeySet keys, Stack *stack) {
  const OpInfo &info = *info_;
  const size_t count = info.args.size(), size = stack->size();
  auto args = [&] { return Args(stack->data() + stack->size() - count, count); };
  try {
    if (info.view) {
      return recordView(stack, args());
    }
    if (info.special != Special::None && answerSpecial(info, stack)) {
      return;
    }
    joinMembers(info, stack, count);
    bool isLazy = false;
    const auto device = deviceOf(info, args(), isLazy);
    if (isLazy) {
      return recordNegated(*device, stack);
    }
    record(*device, stack);
  } catch (c10::Error &error) {
    if (stack->size() == size) {
      hintAtSlots(error, args(), info.isSplit);
    }
    throw;
  }
}

void Recorder::recordView(Stack *stack, Args args) {
  const OpInfo &info = *info_;
  at::Tensor self = args[0].toTensor();
  c10::SmallVector<ViewMeta, 2> metas;
  info.view(*info.schema, args, metas);
  checkViews(info, self, metas);
  c10::IValue output;
  if (info.inplaceView && !info.returnAlias.empty() && info.returnAlias[0] == 0) {
    remoteImpl(self)->changeLayout(metas[0].sizes, metas[0].strides, metas[0].offset);
    output = std::move(self);
  } else if (info.returnsList[0]) {
    c10::List<at::Tensor> views;
    for (const ViewMeta &meta : metas) {
      views.push_back(makeView(self, meta));
    }
    output = std::move(views);
  } else {
    output = makeView(self, metas[0]);
  }
  stack->resize(stack->size() - args.size());
  stack->push_back(std::move(output));
}

/// Shapes and dtypes of the results, as eager computes them; throws eager's errors.
static c10::SmallVector<OutputMeta, 4> metasOf(const OpInfo &info, Args args) {
  c10::SmallVector<OutputMeta, 4> metas;
  if (info.shape && info.isLowered) {
    (*info.shape)(args, metas);
  } else if (!info.shapePreserving || !info.isLowered) {
    fail(ErrorKind::Unsupported, info,
         "this op is not supported on device owner yet; express it by supported ops (see dialect/STATUS.md) or compute "
         "it on CPU before uploading");
  }
  return metas;
}

/// Whether numbers are used as floats.
static bool isReal(const OpInfo &info, Args args, c10::ArrayRef<OutputMeta> metas) {
  const auto isFloat = [](at::ScalarType type) { return c10::isFloatingType(type) || c10::isComplexType(type); };
  bool isAny = !metas.empty() && metas[0].defined && isFloat(metas[0].dtype);
  eachTensor(info, args, [&](const at::Tensor &tensor, size_t) { isAny = isAny || isFloat(tensor.scalar_type()); });
  return isAny;
}

/// Brings the operands into the trace where that takes records or refuses the op: gathered values, targets of writes,
/// columns to read again.
static SlotsOfOperands enterOperands(const OpInfo &info, Args args, Recording &open, const Origin &origin) {
  const bool writes = !info.mutated.empty() || info.writesStatistics(args);
  PackedOperands packed;
  eachTensor(info, args, [&](const at::Tensor &tensor, size_t position) {
    if (isRemote(tensor)) {
      packed.meet(tensor, writes && isWritten(info, args, position));
    }
  });
  packed.unpack(open, origin);
  if (writes) {
    eachTensor(info, args, [&](const at::Tensor &tensor, size_t position) {
      if (isRemote(tensor) && isWritten(info, args, position)) {
        open.willWrite(*remoteImpl(tensor)->remoteStorage());
      }
    });
  }
  SlotsOfOperands slots;
  eachTensor(info, args, [&](const at::Tensor &tensor, size_t) {
    if (isRemote(tensor)) {
      slots.meet(*remoteImpl(tensor)->remoteStorage());
      open.readAgain(*remoteImpl(tensor)->remoteStorage(), origin);
    }
  });
  return slots;
}

struct Seed {
  at::Generator from;
  uint64_t value = 0;
};

/// Appends the op and its arguments, all or nothing.
static void appendCall(OpInfo &info, Args args, bool isReal, const Seed &seed, const Origin &origin, TraceWriter &write,
                       Recording &open) {
  const Trace::Mark before = open.trace.mark();
  ArgumentWriter writer(info, write, isReal);
  try {
    write.beginOp(info.entryFor(info.writesStatistics(args)), args.size() + info.random, origin);
    for (size_t i = 0; i < args.size(); ++i) {
      writer.value(i, args[i]);
    }
  } catch (...) {
    open.truncate(before);
    throw;
  }
  if (info.random) {
    write.seed(seed.value, seed.from);
  }
}

/// Appends the results, and returns what the call returns: arguments that it wrote to, and new tensors.
static c10::SmallVector<c10::IValue, 4> appendResults(const OpInfo &info, Args args, c10::ArrayRef<OutputMeta> metas,
                                                      const SlotsOfOperands &slots, TraceWriter &write) {
  c10::SmallVector<c10::IValue, 4> outputs;
  write.beginResults(metas.size());
  size_t meta = 0;
  for (size_t r = 0; r < info.returnAlias.size(); ++r) {
    if (info.returnAlias[r] >= 0) {
      outputs.push_back(args[info.returnAlias[r]]);
    } else if (info.returnsList[r]) {
      c10::List<at::Tensor> tensors;
      for (; meta < metas.size(); ++meta) {
        auto storage = write.result(metas[meta]);
        slots.pass(storage.get());
        tensors.push_back(makeTensor(std::move(storage)));
      }
      outputs.emplace_back(std::move(tensors));
    } else {
      auto storage = write.result(metas[meta++]);
      slots.pass(storage.get());
      outputs.emplace_back(storage ? makeTensor(std::move(storage)) : at::Tensor());
    }
  }
  return outputs;
}

/// As eager's kernels do, element by element: of a tensor without a count (made in inference mode) nothing.
static void countWrites(const OpInfo &info, Args args) {
  for (uint32_t position : info.mutated) {
    for (const at::Tensor &tensor : args[position].toTensorVector()) {
      if (!tensor.is_inference()) {
        tensor.unsafeGetTensorImpl()->bump_version();
      }
    }
  }
}

void Recorder::record(RemoteDevice &device, Stack *stack) {
  OpInfo &info = *info_;
  const size_t count = info.args.size();
  const Args args(stack->data() + stack->size() - count, count);
  stepSender().boundStep(device);
  auto metas = metasOf(info, args);
  checkArguments(info, args, metas);
  if (!info.shapePreserving) {
    fitTargets(info, args, metas);
  }
  const bool areReal = isReal(info, args, metas);
  if (info.givesNothingNew) {
    metas.clear();
  }
  const Origin origin = captureOrigin();
  Seed seed;
  if (info.random) {
    seed.from = generatorOf(info, args);
    seed.value = drawSeed(seed.from);
  }

  DeviceLock lock(device.mutex());
  ++device.counts().ops_recorded;
  Recording &open = device.recording();
  TraceWriter write(open);
  const SlotsOfOperands slots = enterOperands(info, args, open, origin);
  appendCall(info, args, areReal, seed, origin, write, open);
  if (info.countsWrites) {
    countWrites(info, args);
  }
  leaveResults(stack, count, appendResults(info, args, metas, slots, write));
}

} // namespace sojourn::frontend
