// SPDX-License-Identifier: Apache-2.0
// Ops that make tensors from sizes and numbers, copies, and random fills.
#include "frontend/shapes/Iterator.h"

#include <ATen/ExpandUtils.h>
#include <ATen/native/RangeUtils.h>

namespace sojourn::frontend::shapes {

namespace {

void checkSizes(IntArrayRef sizes) {
  for (int64_t size : sizes) {
    TORCH_CHECK(size >= 0, "Trying to create tensor with negative dimension ", size, ": ", sizes);
  }
}

/// zeros, ones, rand, ...: sizes at `Sizes`, dtype at `Dtype`.
template <size_t Sizes, size_t Dtype>
void factory(const ShapeRule &, Arguments args, Outputs &out) {
  Dims sizes = dimsAt(args, Sizes);
  checkSizes(sizes);
  append(out, sizes);
}

/// randint: dtype defaults to int64 in the schema; in its out overload too.
template <size_t Sizes, size_t Dtype>
void integerFactory(const ShapeRule &, Arguments args, Outputs &out) {
  Dims sizes = dimsAt(args, Sizes);
  checkSizes(sizes);
  append(out, sizes);
}

void emptyFormat(const ShapeRule &, Arguments args, Outputs &out) {
  Dims sizes = dimsAt(args, 0);
  checkSizes(sizes);
  append(out, sizes, memoryFormatAt(args, 5, at::MemoryFormat::Contiguous));
}

void appendChecked(Outputs &out, const Dims &sizes, const Dims &strides) {
  TORCH_CHECK(sizes.size() == strides.size(), "dimensionality of sizes (", sizes.size(),
              ") must match dimensionality of strides (", strides.size(), ")");
  checkSizes(sizes);
  appendStrided(out, sizes, strides);
}

/// Values at an owner have no gaps, and no two elements share a place.
void checkDense(const OutputMeta &meta) {
  std::vector<std::pair<int64_t, int64_t>> dims; // stride, size
  for (size_t dim = 0; dim < meta.sizes.size(); ++dim) {
    if (meta.sizes[dim] == 0) {
      return;
    }
    if (meta.sizes[dim] > 1) {
      dims.emplace_back(meta.strides[dim], meta.sizes[dim]);
    }
  }
  std::sort(dims.begin(), dims.end());
  int64_t step = 1;
  for (auto [stride, size] : dims) {
    TORCH_CHECK_NOT_IMPLEMENTED(stride == step, "a new tensor of sizes ", IntArrayRef(meta.sizes), " and strides ",
                                IntArrayRef(meta.strides),
                                " has gaps or shared elements, expected dense strides on device "
                                "owner; make the dense tensor and take a view of it");
    step *= size;
  }
}

void emptyStrided(const ShapeRule &, Arguments args, Outputs &out) {
  appendChecked(out, dimsAt(args, 0), dimsAt(args, 1));
  checkDense(out.back());
}

void emptyPermuted(const ShapeRule &, Arguments args, Outputs &out) {
  Dims sizes = dimsAt(args, 0), layout = dimsAt(args, 1);
  TORCH_CHECK(sizes.size() == layout.size(),
              "Number of dimensions in size does not match the length of the "
              "physical_layout; i.e. len(size) = ",
              sizes.size(), " is not equal to len(physical_layout) = ", layout.size());
  OutputMeta &meta = append(out, sizes);
  int64_t step = 1;
  for (size_t i = layout.size(); i-- > 0;) {
    TORCH_CHECK(layout[i] >= 0 && layout[i] < static_cast<int64_t>(sizes.size()),
                "Dimension out of range (expected to be between 0 and ", sizes.size() - 1, ", but got ", layout[i],
                " at index ", i, ").  NB: negative dims not currently supported; file an issue if you want it.");
    TORCH_CHECK(std::find(layout.begin() + i + 1, layout.end(), layout[i]) == layout.end(),
                "Duplicate dim not allowed");
    meta.strides[layout[i]] = step;
    step *= std::max<int64_t>(sizes[layout[i]], 1);
  }
}

void full(const ShapeRule &, Arguments args, Outputs &out) {
  Dims sizes = dimsAt(args, 0);
  checkSizes(sizes);
  append(out, sizes);
}

void scalarTensor(const ShapeRule &, Arguments args, Outputs &out) { append(out, {}); }

/// *_like: dtype at `Dtype`, memory format four arguments later.
template <size_t Dtype>
void factoryLike(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0);
  // An out overload has no dtype, but a memory format right after its inputs.
  const bool isOut = args.size() < Dtype + 5;
  at::MemoryFormat format = memoryFormatAt(args, isOut ? Dtype : Dtype + 4, at::MemoryFormat::Preserve);
  if (format == at::MemoryFormat::Preserve) {
    appendLike(out, self);
  } else {
    append(out, self.sizes(), format);
  }
}

/// new_*: sizes at 1, dtype at `Dtype`.
template <size_t Dtype>
void factoryNew(const ShapeRule &, Arguments args, Outputs &out) {
  Dims sizes = dimsAt(args, 1);
  checkSizes(sizes);
  append(out, sizes);
}

void newEmptyStrided(const ShapeRule &, Arguments args, Outputs &out) {
  appendChecked(out, dimsAt(args, 1), dimsAt(args, 2));
  checkDense(out.back());
}

/// arange(end), arange(start, end), arange(start, end, step), with dtype at `Dtype`.
template <size_t Dtype>
void arange(const ShapeRule &op, Arguments args, Outputs &out) {
  // arange.out takes an end only; start_out all three.
  const bool onlyEnd = Dtype == 1;
  at::Scalar start = onlyEnd ? at::Scalar(0) : args[0].toScalar();
  at::Scalar end = args[onlyEnd ? 0 : 1].toScalar();
  at::Scalar step = Dtype == 3 ? args[2].toScalar() : at::Scalar(1);
  ScalarType dtype = args.back().isTensor() ? args.back().toTensor().scalar_type() : op.result(args);
  TORCH_CHECK_NOT_IMPLEMENTED(dtype != c10::kBool && !c10::isComplexType(dtype), "\"arange_cpu\" not implemented for '",
                              dtype, "'");
  if (c10::isReducedFloatingType(dtype)) { // counted in float32
    for (const at::Scalar &number : {start, end, step}) {
      static_cast<void>(number.to<float>());
    }
  }
  int64_t size = c10::isIntegralType(dtype, true) ? at::native::compute_arange_size<int64_t>(start, end, step)
                 : dtype == at::kDouble           ? at::native::compute_arange_size<double>(start, end, step)
                                                  : at::native::compute_arange_size<float>(start, end, step);
  append(out, {size});
}

template <size_t Dtype>
void range(const ShapeRule &, Arguments args, Outputs &out) {
  double start = args[0].toScalar().toDouble(), end = args[1].toScalar().toDouble();
  double step = Dtype == 3 ? args[2].toScalar().toDouble() : 1;
  TORCH_CHECK(step != 0, "step must be nonzero");
  append(out, {static_cast<int64_t>((end - start) / step + 1)});
}

/// linspace, logspace: steps at 2, dtype at `Dtype`.
template <size_t Dtype>
void linspace(const ShapeRule &op, Arguments args, Outputs &out) {
  const Tensor &start = tensorAt(args, 0), &end = tensorAt(args, 1);
  TORCH_CHECK((!start.defined() || start.dim() == 0) && (!end.defined() || end.dim() == 0), baseName(op),
              " only supports 0-dimensional start and end tensors, but got ",
              start.defined() ? c10::str("start with ", start.dim(), " dimension(s)") : "",
              start.defined() && end.defined() ? " and " : "",
              end.defined() ? c10::str("end with ", end.dim(), " dimension(s)") : "", ".");
  int64_t steps = args[2].toInt();
  TORCH_CHECK(steps >= 0, "number of steps must be non-negative");
  append(out, {steps});
}

void eye(const ShapeRule &, Arguments args, Outputs &out) {
  int64_t size = *intAt(args, 0);
  TORCH_CHECK(size >= 0, "n must be greater or equal to 0, got ", size);
  append(out, {size, size});
}
void eyeRectangular(const ShapeRule &, Arguments args, Outputs &out) {
  int64_t rows = *intAt(args, 0), columns = *intAt(args, 1);
  TORCH_CHECK(rows >= 0, "n must be greater or equal to 0, got ", rows);
  TORCH_CHECK(columns >= 0, "m must be greater or equal to 0, got ", columns);
  append(out, {rows, columns});
}

template <size_t Dtype>
void randomPermutation(const ShapeRule &, Arguments args, Outputs &out) {
  int64_t size = *intAt(args, 0);
  TORCH_CHECK(size >= 0, "n must be non-negative, got ", size);
  append(out, {size});
}

/// hann_window(n, ...), kaiser_window, ...
template <size_t Dtype>
void window(const ShapeRule &, Arguments args, Outputs &out) {
  int64_t size = *intAt(args, 0);
  TORCH_CHECK(size >= 0, "window_length must be a non-negative integer");
  append(out, {size});
}

int64_t triangleSize(int64_t rows, int64_t columns, int64_t offset) {
  int64_t size = 0;
  for (int64_t row = 0; row < rows; ++row) {
    size += std::clamp<int64_t>(row + offset + 1, 0, columns);
  }
  return size;
}
template <bool Lower>
void triangleIndices(const ShapeRule &, Arguments args, Outputs &out) {
  int64_t rows = args[0].toInt(), columns = args[1].toInt(), offset = args[2].toInt();
  TORCH_CHECK(rows >= 0, "row must be non-negative, got", rows);
  TORCH_CHECK(columns >= 0, "col must be non-negative, got", columns);
  int64_t size = Lower ? triangleSize(rows, columns, offset) : rows * columns - triangleSize(rows, columns, offset - 1);
  append(out, {2, size});
}

//===-- Copies ------------------------------------------------------------------------------------===//

void appendCopy(const Tensor &self, at::MemoryFormat format, Outputs &out) {
  if (format == at::MemoryFormat::Preserve) {
    appendLike(out, self);
  } else {
    append(out, self.sizes(), format);
  }
}

void clone(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0);
  appendCopy(self, memoryFormatAt(args, 1, at::MemoryFormat::Preserve), out);
}

/// _to_copy(self, dtype, layout, device, pin_memory, non_blocking, memory_format)
void toCopy(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0);
  const bool isOut = args.size() < 7;
  appendCopy(self, memoryFormatAt(args, isOut ? 2 : 6, at::MemoryFormat::Preserve), out);
}

void copy(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0), &source = tensorAt(args, 1);
  if (source.sizes() != self.sizes()) {
    at::DimVector merged = at::infer_size_dimvector(self.sizes(), source.sizes());
    TORCH_CHECK(IntArrayRef(merged) == self.sizes(), "output with shape ", self.sizes(),
                " doesn't match the broadcast shape ", IntArrayRef(merged));
  }
  appendStrided(out, self.sizes(), self.strides());
}

void fill(const ShapeRule &op, Arguments args, Outputs &out) {
  if (const Tensor &value = tensorAt(args, 1); value.defined()) {
    TORCH_CHECK(value.dim() == 0, "fill_ only supports 0-dimension value tensor but got tensor with ", value.dim(),
                " dimensions.");
  }
  likeSelf(op, args, out);
}

//===-- Random ------------------------------------------------------------------------------------===//

/// bernoulli(self), bernoulli(self, p): contiguous, p broadcasts to self.
void bernoulli(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0);
  if (args.size() > 1 && args[1].isDouble()) {
    double p = args[1].toDouble();
    TORCH_CHECK(0 <= p && p <= 1, "bernoulli_ expects p to be in [0, 1], but got p=", p);
  }
  if (const Tensor &p = tensorAt(args, 1); p.defined()) {
    at::inferExpandGeometry_dimvector(p.sizes(), p.strides(), self.sizes());
  }
  append(out, self.sizes());
}

void requirePositive(double deviation) {
  TORCH_CHECK(deviation >= 0.0, "normal expects std >= 0.0, but found std ", deviation);
}

/// normal_(self, mean, std) and its functional names.
void normalFill(const ShapeRule &op, Arguments args, Outputs &out) {
  if (args.size() > 2 && args[2].isDouble()) {
    requirePositive(args[2].toDouble());
  }
  likeSelf(op, args, out);
}

void normalTensorFloat(const ShapeRule &, Arguments args, Outputs &out) {
  requirePositive(args[1].toDouble());
  const Tensor &mean = tensorAt(args, 0);
  append(out, mean.sizes());
}
void normalFloatTensor(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &deviation = tensorAt(args, 1);
  append(out, deviation.sizes());
}
void normalTensors(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &mean = tensorAt(args, 0), &deviation = tensorAt(args, 1);
  append(out, at::infer_size_dimvector(mean.sizes(), deviation.sizes()));
}

void uniformFill(const ShapeRule &op, Arguments args, Outputs &out) {
  if (args.size() > 2 && args[1].isDouble() && args[2].isDouble()) {
    TORCH_CHECK(args[1].toDouble() <= args[2].toDouble(),
                "uniform_ expects to return a [from, to) range, but found from=", args[1].toDouble(),
                " > to=", args[2].toDouble());
  }
  likeSelf(op, args, out);
}

/// exponential_, geometric_, cauchy_, log_normal_: the parameter at `Position` must satisfy its range.
template <size_t Position>
void positiveParameter(const ShapeRule &op, Arguments args, Outputs &out) {
  if (args[Position].isDouble()) {
    double value = args[Position].toDouble();
    std::string_view name = baseName(op);
    if (name.rfind("geometric", 0) == 0) {
      TORCH_CHECK(0 < value && value < 1, "geometric_ expects p to be in (0, 1), but got p=", value);
    } else {
      const char *parameter = name.rfind("exponential", 0) == 0 ? "lambda"
                              : name.rfind("cauchy", 0) == 0    ? "sigma"
                                                                : "std";
      std::string inPlace(name.substr(0, name.find_last_not_of('_') + 1));
      TORCH_CHECK(value > 0, inPlace, "_ expects ", parameter, " > 0.0, but found ", parameter, "=", value);
    }
  }
  likeSelf(op, args, out);
}

/// multinomial(self, num_samples, replacement)
void multinomial(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0);
  int64_t count = *intAt(args, 1);
  TORCH_CHECK(self.dim() > 0 && self.dim() <= 2, "prob_dist must be 1 or 2 dim");
  TORCH_CHECK(c10::isFloatingType(self.scalar_type()),
              "multinomial only supports floating-point dtypes for input, got: ", self.scalar_type());
  TORCH_CHECK(count > 0, "cannot sample n_sample <= 0 samples");
  TORCH_CHECK(args[2].toBool() || count <= self.size(-1),
              "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
  TORCH_CHECK(self.size(-1) <= int64_t{1} << 24, "number of categories cannot exceed 2^24");
  Dims sizes;
  if (self.dim() == 2) {
    sizes.push_back(self.size(0));
  }
  sizes.push_back(count);
  append(out, sizes);
}

const RuleEntry kRules[] = {
    {"empty.memory_format", emptyFormat},
    {"empty_strided", emptyStrided},
    {"empty_permuted", emptyPermuted},
    {"empty_like", factoryLike<1>},
    {"zeros", factory<0, 1>},
    {"zeros_like", factoryLike<1>},
    {"ones", factory<0, 1>},
    {"ones_like", factoryLike<1>},
    {"full", full},
    {"full_like", factoryLike<2>},
    {"rand", factory<0, 1>},
    {"rand.generator", factory<0, 2>},
    {"rand_like", factoryLike<1>},
    {"rand_like.generator", factoryLike<2>},
    {"randn", factory<0, 1>},
    {"randn.generator", factory<0, 2>},
    {"randn_like", factoryLike<1>},
    {"randn_like.generator", factoryLike<2>},
    {"randint.", integerFactory<1, 2>},
    {"randint.generator", integerFactory<1, 3>},
    {"randint.low", integerFactory<2, 3>},
    {"randint.low_generator", integerFactory<2, 4>},
    {"randint_like.", factoryLike<2>},
    {"randint_like.generator", factoryLike<3>},
    {"randint_like.low_dtype", factoryLike<3>},
    {"randint_like.low_generator_dtype", factoryLike<4>},
    {"randint_like.Tensor", factoryLike<2>},
    {"randperm.", randomPermutation<1>},
    {"randperm.generator", randomPermutation<2>},
    {"new_empty", factoryNew<2>},
    {"new_zeros", factoryNew<2>},
    {"new_ones", factoryNew<2>},
    {"new_full", factoryNew<3>},
    {"new_empty_strided", newEmptyStrided},
    {"scalar_tensor", scalarTensor},
    {"arange.", arange<1>},
    {"arange.start", arange<2>},
    {"arange.start_step", arange<3>},
    {"range.", range<2>},
    {"range.step", range<3>},
    {"linspace", linspace<3>},
    {"logspace", linspace<4>},
    {"eye.", eye},
    {"eye.m", eyeRectangular},
    {"tril_indices", triangleIndices<true>},
    {"triu_indices", triangleIndices<false>},
    {"bartlett_window.", window<1>},
    {"bartlett_window.periodic", window<2>},
    {"blackman_window.", window<1>},
    {"blackman_window.periodic", window<2>},
    {"hamming_window.", window<1>},
    {"hamming_window.periodic", window<2>},
    {"hamming_window.periodic_alpha", window<3>},
    {"hamming_window.periodic_alpha_beta", window<4>},
    {"hann_window.", window<1>},
    {"hann_window.periodic", window<2>},
    {"kaiser_window.", window<1>},
    {"kaiser_window.periodic", window<2>},
    {"kaiser_window.beta", window<3>},
    {"clone", clone},
    {"_to_copy", toCopy},
    {"copy", copy},
    {"lift", likeSelf},
    {"fill", fill},
    {"zero", likeSelf},
    {"bernoulli", bernoulli},
    {"normal", normalFill},
    {"normal.Tensor_float", normalTensorFloat},
    {"normal.float_Tensor", normalFloatTensor},
    {"normal.Tensor_Tensor", normalTensors},
    {"normal.float_float", factory<2, 4>},
    {"normal_functional", normalFill},
    {"uniform", uniformFill},
    {"random", likeSelf},
    {"cauchy", positiveParameter<2>},
    {"exponential", positiveParameter<1>},
    {"geometric", positiveParameter<1>},
    {"log_normal", positiveParameter<2>},
    {"poisson", contiguousLikeSelf},
    {"_standard_gamma", contiguousLikeSelf},
    {"multinomial", multinomial},
};

} // namespace

c10::ArrayRef<RuleEntry> factoryRules() { return kRules; }

} // namespace sojourn::frontend::shapes
