// SPDX-License-Identifier: Apache-2.0
// What eager checks before it writes: that numbers and results fit the tensors that take them.
#include "frontend/recording/Arguments.h"

#include "frontend/Error.h"
#include "frontend/recording/Record.h"

#include <ATen/ATen.h>

namespace sojourn::frontend {

namespace {

/// What eager checks before it writes a result into an existing tensor.
void checkResultFits(const OutputMeta &meta, const at::Tensor &target) {
  TORCH_CHECK(c10::canCast(meta.dtype, target.scalar_type()), "result type ", meta.dtype,
              " can't be cast to the desired output type ", target.scalar_type());
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

/// An empty `out` grows, as eager's does: in the storage that it is a window of where that has room, else in a new one,
/// which no other tensor sees.
void resizeOut(const OpInfo &info, const at::Tensor &target, const OutputMeta &meta) {
  RemoteTensorImpl *impl = remoteImpl(target);
  const auto &storage = impl->remoteStorage();
  const int64_t needed = c10::multiply_integers(meta.sizes);
  const int64_t held =
      c10::multiply_integers(storage->sizes) * static_cast<int64_t>(c10::elementSize(storage->dtype)) /
      static_cast<int64_t>(target.itemsize()); // in elements of the target's dtype, which may differ from the storage's
  if (needed == 0 || impl->storage_offset() + needed <= held) {
    impl->changeLayout(meta.sizes, meta.strides, impl->storage_offset());
    return;
  }
  if (storage.use_count() > 1 || impl->storage_offset() > 0) {
    fail(ErrorKind::Unsupported, info,
         "out= is an empty window of a tensor of " + std::to_string(held) + " elements, but " + std::to_string(needed) +
             " do not fit behind its offset; pass a separate empty tensor");
  }
  at::Tensor fresh = at::empty_strided(meta.sizes, meta.strides, target.options());
  impl->changeStorage(remoteImpl(fresh)->remoteStorage());
}

/// One result that goes into an existing tensor.
/// `isRead`: by the op as well, which then keeps its shape.
void fitTarget(const OpInfo &info, const OutputMeta &meta, const at::Tensor &target, bool isOut, bool isRead) {
  TORCH_CHECK_TYPE(!info.refusedCast || c10::canCast(meta.dtype, target.scalar_type()), info.refusedCast,
                   target.scalar_type());
  const bool takesTruth =
      info.givesTruth && isOut && (target.scalar_type() == at::kByte || target.scalar_type() == at::kBool);
  if (!info.isFactory && !takesTruth) {
    checkResultFits(meta, target);
  }
  TORCH_CHECK(!isOut || info.castsResults || takesTruth || meta.dtype == target.scalar_type(),
              "Expected out tensor to have dtype ", caffe2::TypeMeta::fromScalarType(meta.dtype), ", but got ",
              target.dtype(), " instead");
  if (target.sizes() == c10::IntArrayRef(meta.sizes)) {
    return;
  }
  TORCH_CHECK(isOut && !isRead, "output with shape ", target.sizes(), " doesn't match the broadcast shape ",
              c10::IntArrayRef(meta.sizes));
  if (target.numel() != 0) {
    fail(ErrorKind::Unsupported, info,
         "out= has another shape; pass an empty tensor or a tensor of shape " + c10::str(c10::IntArrayRef(meta.sizes)));
  }
  resizeOut(info, target, meta);
}

/// Written tensors take what is written to them, and share no memory with what is read.
void checkWritten(const OpInfo &info, Args args) {
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
      for (const c10::IValue &written : args[position].toListRef()) {
        if (written.isTensor() && isRemote(written.toTensor())) {
          checkWritable(info, written.toTensor());
        }
      }
      checkListsApart(info, args, position);
    }
  }
}

} // namespace

void checkArguments(const OpInfo &info, Args args, c10::ArrayRef<OutputMeta> metas) {
  if (info.filled >= 0 && args[info.filled].isScalar()) {
    checkNumberFits(info, args, metas);
  }
  if (info.readsParameters) {
    checkParametersFit(info, args, metas);
  }
  if (!info.mutated.empty()) {
    checkWritten(info, args);
  }
}

void fitTargets(const OpInfo &info, Args args, c10::ArrayRef<OutputMeta> metas) {
  size_t next = 0;
  for (const int alias : info.returnAlias) {
    if (alias >= 0 && next < metas.size()) {
      const at::Tensor target = args[alias].toTensor();
      bool isRead = false;
      eachTensor(info, args, [&](const at::Tensor &tensor, size_t position) {
        isRead |= info.isPointwise && position != static_cast<size_t>(alias) && tensor.is_same(target);
      });
      fitTarget(info, metas[next++], target, info.schema->arguments()[alias].is_out(), isRead);
    }
  }
}

} // namespace sojourn::frontend
