// SPDX-License-Identifier: Apache-2.0
// Runs a structured op's own meta function and records what it would allocate: eager's sizes, strides
// and error text without a tensor. For metas that do not derive from TensorIterator (Iterator.h
// does those) and that never look at their output.
#ifndef SOJOURN_FRONTEND_SHAPES_STRUCTURED_H
#define SOJOURN_FRONTEND_SHAPES_STRUCTURED_H

#include "frontend/shapes/Rules.h"

#include <ATen/TensorIterator.h>
#include <ATen/TensorMeta.h>
#include <ATen/core/List.h>
#include <c10/core/OptionalRef.h>

#include <tuple>

namespace sojourn::frontend::shapes {

template <class Meta>
class Recorded final : public Meta {
  static_assert(!std::is_base_of_v<at::TensorIteratorBase, Meta>);

public:
  explicit Recorded(Outputs &out) : out_(out), first_(out.size()) {}

  void set_output_strided(int64_t index, IntArrayRef sizes, IntArrayRef strides, at::TensorOptions options) override {
    while (out_.size() <= first_ + index) {
      out_.emplace_back();
    }
    for (int64_t size : sizes) {
      TORCH_CHECK(size >= 0, "Trying to create tensor with negative dimension ", size, ": ", sizes);
    }
    OutputMeta &meta = out_[first_ + index];
    meta.sizes.assign(sizes.begin(), sizes.end());
    if (strides.empty()) {
      meta.strides = formatStrides(sizes, options.memory_format_opt().value_or(at::MemoryFormat::Contiguous));
    } else {
      meta.strides.assign(strides.begin(), strides.end());
    }
  }
  void set_output_raw_strided(int64_t index, IntArrayRef sizes, IntArrayRef strides,
                              at::TensorOptions options) override {
    set_output_strided(index, sizes, strides, options);
  }
  const Tensor &maybe_get_output(int64_t) override { return undefinedTensor(); }

private:
  Outputs &out_;
  size_t first_;
};

/// Unpacks one schema argument to the parameter type of a meta function.
template <class T>
struct Unpack;
template <>
struct Unpack<const Tensor &> {
  const Tensor &value;
  explicit Unpack(const c10::IValue &v) : value(v.isTensor() ? v.toTensor() : undefinedTensor()) {}
  const Tensor &get() { return value; }
};
template <>
struct Unpack<at::OptionalTensorRef> : Unpack<const Tensor &> {
  using Unpack<const Tensor &>::Unpack;
  at::OptionalTensorRef get() { return value.defined() ? at::OptionalTensorRef(value) : at::OptionalTensorRef(); }
};
template <>
struct Unpack<const at::Scalar &> {
  at::Scalar value;
  explicit Unpack(const c10::IValue &v) : value(v.toScalar()) {}
  const at::Scalar &get() { return value; }
};
template <>
struct Unpack<at::OptionalScalarRef> {
  std::optional<at::Scalar> value;
  explicit Unpack(const c10::IValue &v) {
    if (!v.isNone()) {
      value = v.toScalar();
    }
  }
  at::OptionalScalarRef get() { return value ? at::OptionalScalarRef(*value) : at::OptionalScalarRef(); }
};
template <>
struct Unpack<int64_t> {
  int64_t value;
  explicit Unpack(const c10::IValue &v) : value(v.isInt() ? v.toInt() : v.toSymInt().expect_int()) {}
  int64_t get() { return value; }
};
template <>
struct Unpack<bool> {
  bool value;
  explicit Unpack(const c10::IValue &v) : value(v.toBool()) {}
  bool get() { return value; }
};
template <>
struct Unpack<ScalarType> {
  ScalarType value;
  explicit Unpack(const c10::IValue &v) : value(v.toScalarType()) {}
  ScalarType get() { return value; }
};
template <>
struct Unpack<IntArrayRef> {
  Dims value;
  explicit Unpack(const c10::IValue &v) : value(dimsOf(v)) {}
  IntArrayRef get() { return value; }
};
template <>
struct Unpack<at::OptionalIntArrayRef> {
  bool given;
  Dims value;
  explicit Unpack(const c10::IValue &v) : given(!v.isNone()), value(dimsOf(v)) {}
  at::OptionalIntArrayRef get() {
    return given ? at::OptionalIntArrayRef(IntArrayRef(value)) : at::OptionalIntArrayRef();
  }
};
template <class T>
struct Unpack<std::optional<T>> {
  std::optional<T> value;
  explicit Unpack(const c10::IValue &v) {
    if (!v.isNone()) {
      if constexpr (std::is_same_v<T, double>) {
        value = v.toScalar().toDouble();
      } else {
        value = Unpack<T>(v).get();
      }
    }
  }
  std::optional<T> get() { return value; }
};
template <>
struct Unpack<std::string_view> {
  std::string_view value;
  explicit Unpack(const c10::IValue &v) : value(v.toStringView()) {}
  std::string_view get() { return value; }
};
template <>
struct Unpack<const at::ITensorListRef &> {
  c10::List<Tensor> value;
  at::ITensorListRef list;
  explicit Unpack(const c10::IValue &v) : value(v.toTensorList()), list(value) {}
  const at::ITensorListRef &get() { return list; }
};

template <class Meta, class Result, class... Params, size_t... I>
void callMeta(Recorded<Meta> &meta, Result (Meta::*function)(Params...), Arguments args, std::index_sequence<I...>) {
  // An argument that an out overload does not have reads as None.
  static const c10::IValue none;
  std::tuple<Unpack<Params>...> unpacked((I < args.size() ? args[I] : none)...);
  (meta.*function)(std::get<I>(unpacked).get()...);
}
template <class Meta, class Result, class... Params>
void callMeta(Recorded<Meta> &meta, Result (Meta::*function)(Params...), Arguments args) {
  callMeta(meta, function, args, std::index_sequence_for<Params...>());
}

/// The rule of a structured op: `structured<at::meta::structured_mm>`.
template <class Meta>
void structured(const ShapeRule &, Arguments args, Outputs &out) {
  Recorded<Meta> meta(out);
  callMeta(meta, &Meta::meta, args);
}

} // namespace sojourn::frontend::shapes

#endif // SOJOURN_FRONTEND_SHAPES_STRUCTURED_H
