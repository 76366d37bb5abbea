// SPDX-License-Identifier: Apache-2.0
// The boxed kernel: checks devices, asks the shape rule, appends one record, hands out tensors.
#include "frontend/recording/Record.h"

#include "frontend/Error.h"
#include "frontend/recording/Generator.h"
#include "frontend/recording/Origin.h"
#include "frontend/recording/Slots.h"
#include "frontend/session/Packed.h"
#include "frontend/session/Reads.h"

#include <ATen/ATen.h>
#include <ATen/core/List.h>

namespace sojourn::frontend {

void fail(ErrorKind kind, const OpInfo &info, const std::string &what) {
  raise(kind, info.name + describeOrigin(captureOrigin()) + ": " + what);
}

namespace {

using Stack = torch::jit::Stack;
using Args = c10::ArrayRef<c10::IValue>;

/// Calls `visit(tensor, position)` for every defined tensor among the arguments.
template <class Visit>
void eachTensor(const OpInfo &info, Args args, Visit visit) {
  for (size_t i = 0; i < args.size(); ++i) {
    const c10::IValue &value = args[i];
    if (info.args[i] == ArgKind::Tensor) {
      if (value.isTensor() && value.toTensor().defined()) {
        visit(value.toTensor(), i);
      }
    } else if (info.args[i] == ArgKind::TensorList) {
      if (value.isList()) {
        for (const c10::IValue &element : value.toListRef()) {
          if (element.isTensor() && element.toTensor().defined()) {
            visit(element.toTensor(), i);
          }
        }
      }
    }
  }
}

bool isMutated(const OpInfo &info, size_t position) {
  for (uint32_t mutated : info.mutated) {
    if (mutated == position) {
      return true;
    }
  }
  return false;
}

/// The one session of a call; throws where devices mix. `isLazy`: an operand's values are not as they are stored.
std::shared_ptr<Session> sessionOf(const OpInfo &info, Args args, bool &isLazy) {
  std::shared_ptr<Session> session;
  eachTensor(info, args, [&](const at::Tensor &tensor, size_t position) {
    if (isRemote(tensor)) {
      isLazy = isLazy || isLazilyNegated(tensor);
      if (tensor.is_complex() && !info.takesComplex) {
        fail(ErrorKind::Unsupported, info,
             "it does not support complex numbers on device owner; compute with their parts (x.real, x.imag, "
             "torch.view_as_real)");
      }
      const auto &owner = remoteImpl(tensor)->remoteStorage()->session;
      if (session && session != owner) {
        fail(ErrorKind::Error, info,
             "operands are at two owners (" + session->device().str() + " and " + owner->device().str() +
                 "), but a step runs at one owner; publish one of them and upload it to the other");
      }
      if (!session) {
        session = owner;
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
  for (size_t i = 0; !session && i < args.size(); ++i) {
    if (info.args[i] == ArgKind::Device && args[i].isDevice()) {
      c10::Device device = args[i].toDevice();
      if (device.type() == c10::DeviceType::PrivateUse1) {
        session = Session::at(device.has_index() ? device.index() : currentDeviceIndex());
      }
    }
  }
  return session ? session : Session::at(currentDeviceIndex());
}

class ArgumentWriter {
public:
  /// `isReal`: numbers are used as floats, whatever they are.
  ArgumentWriter(const OpInfo &info, Session &session, Recording &open, bool isReal)
      : info_(info), write_(session, open), isReal_(isReal) {}

  void value(size_t position, const c10::IValue &value) {
    if (value.isNone()) {
      return write_.none();
    }
    const ArgKind kind = info_.args[position];
    if (info_.places[position]) {
      return places(kind, value);
    }
    switch (kind) {
    case ArgKind::Tensor: return tensor(value.toTensor());
    case ArgKind::TensorList: {
      auto elements = value.toListRef();
      write_.list(elements.size());
      for (const c10::IValue &element : elements) {
        element.isTensor() ? tensor(element.toTensor()) : write_.none();
      }
      return;
    }
    case ArgKind::Scalar: return scalar(value.toScalar());
    case ArgKind::ScalarList: {
      auto elements = value.toListRef();
      write_.list(elements.size());
      for (const c10::IValue &element : elements) {
        scalar(element.toScalar());
      }
      return;
    }
    case ArgKind::Int: return write_.integer(integerOf(value));
    case ArgKind::IntList:
      if (value.isInt()) {
        return write_.integers({value.toInt()});
      }
      return write_.integers(value.toIntVector());
    case ArgKind::Float: return scalar(value.toDouble());
    case ArgKind::FloatList: {
      auto elements = value.toDoubleVector();
      write_.list(elements.size());
      for (double element : elements) {
        scalar(element);
      }
      return;
    }
    case ArgKind::Bool: return write_.boolean(value.toBool());
    case ArgKind::BoolList: {
      auto elements = value.toBoolList();
      write_.list(elements.size());
      for (bool element : elements) {
        write_.boolean(element);
      }
      return;
    }
    case ArgKind::Dtype: return write_.dtype(value.toScalarType());
    case ArgKind::String: return write_.text(value.toStringView());
    case ArgKind::Device:
    case ArgKind::Ignored:
    case ArgKind::Generator: return write_.none();
    case ArgKind::Other:
      fail(ErrorKind::Unsupported, info_,
           "an argument of type " + value.tagKind() + " cannot be recorded; pass tensors and numbers");
    }
  }

  TraceWriter &writer() { return write_; }

private:
  static int64_t integerOf(const c10::IValue &value) {
    return value.isSymInt() ? value.toSymInt().guard_int(__FILE__, __LINE__) : value.toInt();
  }

  void places(ArgKind kind, const c10::IValue &value) {
    if (kind == ArgKind::Int || value.isInt()) {
      return write_.number(integerOf(value));
    }
    const std::vector<int64_t> all = value.toIntVector();
    write_.list(all.size());
    for (int64_t place : all) {
      write_.number(place);
    }
  }

  void tensor(const at::Tensor &tensor) {
    if (!tensor.defined()) {
      return write_.none();
    }
    if (!isRemote(tensor) && tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
      return scalar(tensor.item());
    }
    write_.tensor(tensor);
  }

  void scalar(const at::Scalar &scalar) {
    if (scalar.isBoolean()) {
      write_.boolean(scalar.toBool());
    } else if (isReal_ && scalar.type() == at::kUInt64) { // beyond 2^63
      info_.realsAreLiterals ? write_.real(scalar.toDouble()) : write_.slot(scalar.toDouble());
    } else if (scalar.isIntegral(/*includeBool=*/false)) {
      info_.realsAreLiterals && !info_.isRamp ? write_.integer(scalar.toLong()) : write_.number(scalar.toLong());
    } else if (scalar.isFloatingPoint()) {
      info_.realsAreLiterals ? write_.real(scalar.toDouble()) : write_.slot(scalar.toDouble());
    } else {
      write_.complex(scalar.toComplexDouble());
    }
  }

  const OpInfo &info_;
  TraceWriter write_;
  bool isReal_;
};

c10::ScalarType scalarTypeOfTensor(const at::Tensor &tensor) { return tensor.scalar_type(); }

/// What eager checks before it writes a result into an existing tensor.
void checkResultFits(const OutputMeta &meta, const at::Tensor &target) {
  TORCH_CHECK(c10::canCast(meta.dtype, scalarTypeOfTensor(target)), "result type ", meta.dtype,
              " can't be cast to the desired output type ", scalarTypeOfTensor(target));
}

/// A number that becomes elements must be one of their type: c10's conversion throws as eager's kernels do. Where
/// eager fills a tensor of one element, halves become infinite instead.
void checkNumberFits(const OpInfo &info, Args args, c10::ArrayRef<OutputMeta> metas) {
  const at::Scalar number = args[info.filled].toScalar();
  const at::Tensor written = info.mutated.empty() ? at::Tensor() : args[info.mutated[0]].toTensor();
  const at::ScalarType type = written.defined() ? written.scalar_type() : metas[0].dtype;
  const int64_t count = metas.empty() ? written.numel() : c10::multiply_integers(metas[0].sizes);
  if (info.fillsWhole && count == 1 && c10::isReducedFloatingType(type) && !number.isComplex()) {
    return;
  }
  switch (type) {
#define SOJOURN_CONVERT(T, Name)                                                                                       \
  case at::ScalarType::Name: static_cast<void>(number.to<T>()); return;
    AT_FORALL_SCALAR_TYPES_WITH_COMPLEX(SOJOURN_CONVERT)
#undef SOJOURN_CONVERT
  default: return;
  }
}

/// An integer parameter (alpha, a bound) of an integer result has to be one of its type, as c10's conversion in eager's
/// kernels demands.
void checkParametersFit(const OpInfo &info, Args args, c10::ArrayRef<OutputMeta> metas) {
  if (metas.empty() || !c10::isIntegralType(metas[0].dtype, /*includeBool=*/false)) {
    return;
  }
  for (size_t i = 0; i < args.size(); ++i) {
    if (info.args[i] == ArgKind::Scalar && args[i].isScalar() && info.schema->arguments()[i].name() != "other" &&
        info.schema->arguments()[i].name() != "self") {
      const at::Scalar number = args[i].toScalar();
      switch (metas[0].dtype) {
#define SOJOURN_CONVERT(T, Name)                                                                                       \
  case at::ScalarType::Name: static_cast<void>(number.to<T>()); break;
        AT_FORALL_INT_TYPES(SOJOURN_CONVERT)
#undef SOJOURN_CONVERT
      default: break;
      }
    }
  }
}

/// An empty `out` grows: in the storage that it is a window of where that has room, as eager's does, else in a new one.
void resizeOut(const OpInfo &info, const at::Tensor &target, const OutputMeta &meta) {
  RemoteTensorImpl *impl = remoteImpl(target);
  const auto &storage = impl->remoteStorage();
  const int64_t held = c10::multiply_integers(storage->sizes);
  if (held > 0 && target.scalar_type() == storage->dtype) {
    const int64_t needed = c10::multiply_integers(meta.sizes);
    if (impl->storage_offset() + needed <= held) {
      impl->changeLayout(meta.sizes, meta.strides, impl->storage_offset());
      return;
    }
    if (storage.use_count() > 1) {
      fail(ErrorKind::Unsupported, info,
           "out= is an empty window of a tensor of " + std::to_string(held) + " elements, but " +
               std::to_string(needed) + " do not fit behind its offset; pass a separate empty tensor");
    }
  }
  at::Tensor fresh = at::empty_strided(meta.sizes, meta.strides, target.options());
  impl->changeStorage(remoteImpl(fresh)->remoteStorage());
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
    if (info.special != Special::None && info.special != Special::BatchNorm && answerSpecial(info, stack)) {
      return;
    }
    bool isLazy = false;
    auto session = sessionOf(info, args(), isLazy);
    if (isLazy) {
      return recordNegated(*session, stack);
    }
    record(*session, stack);
  } catch (c10::Error &error) {
    if (stack->size() == size) {
      hintAtSlots(error, args(), info.name.find("split") != std::string::npos);
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
  } else if (info.schema->returns()[0].type()->kind() == c10::TypeKind::ListType) {
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

void Recorder::record(Session &session, Stack *stack) {
  boundStep(session);
  OpInfo &info = *info_;
  size_t count = info.args.size();
  Args args(stack->data() + stack->size() - count, count);

  c10::SmallVector<OutputMeta, 4> metas;
  if (info.shape && info.isLowered) {
    (*info.shape)(args, metas);
  } else if (!info.shapePreserving || !info.isLowered) {
    fail(ErrorKind::Unsupported, info,
         "this op is not supported on device owner yet; express it by supported ops (see dialect/STATUS.md) or compute "
         "it on CPU before uploading");
  }
  if (info.filled >= 0 && args[info.filled].isScalar()) {
    checkNumberFits(info, args, metas);
  }
  if (info.readsParameters) {
    checkParametersFit(info, args, metas);
  }
  for (uint32_t position : info.mutated) {
    if (info.args[position] == ArgKind::Tensor && args[position].isTensor() && args[position].toTensor().defined()) {
      const at::Tensor written = args[position].toTensor();
      checkWritable(info, written);
      eachTensor(info, args, [&](const at::Tensor &tensor, size_t other) {
        if (other != position && isRemote(tensor) && !isMutated(info, other)) {
          checkApart(written, tensor, !info.readsElsewhere);
        }
      });
    } else if (info.args[position] == ArgKind::TensorList && args[position].isList()) {
      checkListsApart(info, args, position);
    }
  }

  Origin origin = captureOrigin();
  uint64_t seed = info.random ? drawSeed(info, args) : 0;
  SessionLock lock(session.mutex());
  ++session.mutableCounters().ops_recorded;

  // Results that go into existing tensors must fit them.
  c10::SmallVector<int, 4> freshReturns;
  size_t nextMeta = 0;
  for (size_t r = 0; r < info.returnAlias.size(); ++r) {
    int alias = info.returnAlias[r];
    if (alias < 0) {
      freshReturns.push_back(static_cast<int>(r));
      continue;
    }
    if (info.shapePreserving || nextMeta >= metas.size()) {
      continue;
    }
    const OutputMeta &meta = metas[nextMeta++];
    const at::Tensor &target = args[alias].toTensor();
    const bool isOut = info.schema->arguments()[alias].is_out();
    TORCH_CHECK_TYPE(info.name != "aten::cat.out" || c10::canCast(meta.dtype, scalarTypeOfTensor(target)),
                     "torch.cat(): input types can't be cast to the desired output type ", scalarTypeOfTensor(target));
    if (!info.isFactory) {
      checkResultFits(meta, target);
    }
    const bool isByteOfTruth = info.givesTruth && scalarTypeOfTensor(target) == at::kByte;
    TORCH_CHECK(!isOut || info.castsResults || isByteOfTruth || meta.dtype == scalarTypeOfTensor(target),
                "Expected out tensor to have dtype ", caffe2::TypeMeta::fromScalarType(meta.dtype), ", but got ",
                target.dtype(), " instead");
    if (target.sizes() != c10::IntArrayRef(meta.sizes)) {
      TORCH_CHECK(isOut, "output with shape ", target.sizes(), " doesn't match the broadcast shape ",
                  c10::IntArrayRef(meta.sizes));
      if (target.numel() != 0) {
        fail(ErrorKind::Unsupported, info,
             "out= has another shape; pass an empty tensor or a tensor of shape " +
                 c10::str(c10::IntArrayRef(meta.sizes)));
      }
      resizeOut(info, target, meta);
    }
  }
  const auto isFloat = [](at::ScalarType type) { return c10::isFloatingType(type) || c10::isComplexType(type); };
  bool isReal = !metas.empty() && metas[0].defined && isFloat(metas[0].dtype);
  eachTensor(info, args,
             [&](const at::Tensor &tensor, size_t) { isReal = isReal || isFloat(scalarTypeOfTensor(tensor)); });
  if (!info.mutated.empty() && freshReturns.empty()) {
    metas.clear();
  }

  Recording &open = session.recording();
  bool batchNormTraining =
      info.special == Special::BatchNorm && args[5].toBool() && args[3].isTensor() && args[3].toTensor().defined();
  PackedOperands packed;
  eachTensor(info, args, [&](const at::Tensor &tensor, size_t position) {
    if (isRemote(tensor)) {
      packed.meet(tensor, isMutated(info, position) || batchNormTraining);
    }
  });
  packed.unpack(session, open, origin);
  if (!info.mutated.empty() || batchNormTraining) {
    eachTensor(info, args, [&](const at::Tensor &tensor, size_t position) {
      bool statistics = batchNormTraining && (position == 3 || position == 4);
      if (isRemote(tensor) && (statistics || isMutated(info, position))) {
        session.willWrite(open, *remoteImpl(tensor)->remoteStorage());
      }
    });
  }
  SlotsOfOperands slots;
  eachTensor(info, args, [&](const at::Tensor &tensor, size_t) {
    if (isRemote(tensor)) {
      slots.meet(*remoteImpl(tensor)->remoteStorage());
      session.readAgain(open, *remoteImpl(tensor)->remoteStorage(), origin);
    }
  });
  Trace::Mark before = open.trace.mark();
  ArgumentWriter writer(info, session, open, isReal);
  TraceWriter &write = writer.writer();
  try {
    write.beginOp(info.entryFor(batchNormTraining), count + info.random, origin);
    for (size_t i = 0; i < count; ++i) {
      writer.value(i, args[i]);
    }
  } catch (...) {
    open.truncate(before);
    throw;
  }
  if (info.random) {
    write.seed(seed);
  }

  c10::SmallVector<c10::IValue, 4> outputs;
  write.beginResults(metas.size());
  size_t meta = 0;
  for (size_t r = 0; r < info.returnAlias.size(); ++r) {
    if (info.returnAlias[r] >= 0) {
      outputs.push_back(args[info.returnAlias[r]]);
    } else if (info.schema->returns()[r].type()->kind() == c10::TypeKind::ListType) {
      c10::List<at::Tensor> tensors;
      for (; meta < metas.size(); ++meta) {
        tensors.push_back(makeTensor(write.result(metas[meta])));
        slots.pass(remoteImpl(tensors.get(tensors.size() - 1))->remoteStorage().get());
      }
      outputs.emplace_back(std::move(tensors));
    } else {
      auto storage = write.result(metas[meta++]);
      slots.pass(storage.get());
      outputs.emplace_back(storage ? makeTensor(std::move(storage)) : at::Tensor());
    }
  }
  stack->resize(stack->size() - count);
  for (c10::IValue &output : outputs) {
    stack->push_back(std::move(output));
  }
}

} // namespace sojourn::frontend
