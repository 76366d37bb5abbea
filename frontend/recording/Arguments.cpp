// SPDX-License-Identifier: Apache-2.0
#include "frontend/recording/Arguments.h"

#include "frontend/Error.h"

#include <ATen/ATen.h>
#include <ATen/core/List.h>

namespace sojourn::frontend {

namespace {

int64_t integerOf(const c10::IValue &value) {
  return value.isSymInt() ? value.toSymInt().guard_int(__FILE__, __LINE__) : value.toInt();
}

} // namespace

bool isWritten(const OpInfo &info, Args args, size_t position) {
  return isMutated(info, position) || ((position == 3 || position == 4) && info.writesStatistics(args));
}

void leaveResults(torch::jit::Stack *stack, size_t count, c10::SmallVector<c10::IValue, 4> results) {
  stack->resize(stack->size() - count);
  std::move(results.begin(), results.end(), std::back_inserter(*stack));
}

template <class Values, class Write>
void ArgumentWriter::list(const Values &values, Write write) {
  write_.list(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    write(values[i]);
  }
}

void ArgumentWriter::value(size_t position, const c10::IValue &value) {
  if (value.isNone()) {
    return write_.none();
  }
  const ArgKind kind = info_.args[position];
  if (info_.places[position]) {
    return places(kind, value);
  }
  switch (kind) {
  case ArgKind::Tensor: return tensor(value.toTensor());
  case ArgKind::TensorList:
    return list(value.toListRef(),
                [&](const c10::IValue &each) { each.isTensor() ? tensor(each.toTensor()) : write_.none(); });
  case ArgKind::Scalar: return scalar(value.toScalar());
  case ArgKind::ScalarList: return list(value.toListRef(), [&](const c10::IValue &each) { scalar(each.toScalar()); });
  case ArgKind::Int: return write_.integer(integerOf(value));
  case ArgKind::IntList: return value.isInt() ? write_.integers({value.toInt()}) : write_.integers(value.toIntVector());
  case ArgKind::Float: return scalar(value.toDouble());
  case ArgKind::FloatList: return list(value.toDoubleVector(), [&](double each) { scalar(each); });
  case ArgKind::Bool: return write_.boolean(value.toBool());
  case ArgKind::BoolList: return list(value.toBoolList(), [&](bool each) { write_.boolean(each); });
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

void ArgumentWriter::places(ArgKind kind, const c10::IValue &value) {
  if (kind == ArgKind::Int || value.isInt()) {
    return write_.number(integerOf(value));
  }
  list(value.toIntVector(), [&](int64_t place) { write_.number(place); });
}

void ArgumentWriter::tensor(const at::Tensor &tensor) {
  if (!tensor.defined()) {
    return write_.none();
  }
  if (!isRemote(tensor) && tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
    return scalar(tensor.item());
  }
  write_.tensor(tensor);
}

void ArgumentWriter::scalar(const at::Scalar &scalar) {
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

} // namespace sojourn::frontend
