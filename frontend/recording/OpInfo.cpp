// SPDX-License-Identifier: Apache-2.0
// What the recorder knows of each overload, read off its schema and tags once.
#include "frontend/recording/OpInfo.h"

#include "frontend/Error.h"
#include "frontend/recording/Origin.h"

#include "passes/Lowered.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/enum_tag.h>

#include <algorithm>
#include <initializer_list>
#include <unordered_map>
#include <unordered_set>

namespace sojourn::frontend {

namespace {

ArgKind kindOf(const c10::Argument &argument) {
  const c10::TypePtr &type = argument.real_type();
  auto is = [&](c10::TypeKind kind) { return type->kind() == kind; };
  if (is(c10::TypeKind::OptionalType)) {
    return kindOf(c10::Argument(argument.name(), argument.type()->cast<c10::OptionalType>()->getElementType(),
                                type->cast<c10::OptionalType>()->getElementType()));
  }
  switch (type->kind()) {
  case c10::TypeKind::TensorType: return ArgKind::Tensor;
  case c10::TypeKind::NumberType: return ArgKind::Scalar;
  case c10::TypeKind::IntType:
  case c10::TypeKind::SymIntType: return ArgKind::Int;
  case c10::TypeKind::FloatType:
  case c10::TypeKind::SymFloatType: return ArgKind::Float;
  case c10::TypeKind::BoolType:
  case c10::TypeKind::SymBoolType:
    return argument.name() == "pin_memory" || argument.name() == "non_blocking" ? ArgKind::Ignored : ArgKind::Bool;
  case c10::TypeKind::StringType: return ArgKind::String;
  case c10::TypeKind::DeviceObjType: return ArgKind::Device;
  case c10::TypeKind::ScalarTypeType: return ArgKind::Dtype;
  case c10::TypeKind::LayoutType:
  case c10::TypeKind::MemoryFormatType: return ArgKind::Ignored;
  case c10::TypeKind::GeneratorType: return ArgKind::Generator;
  case c10::TypeKind::ListType: {
    c10::TypePtr element = type->cast<c10::ListType>()->getElementType();
    if (auto optional = element->cast<c10::OptionalType>()) {
      element = optional->getElementType();
    }
    switch (element->kind()) {
    case c10::TypeKind::TensorType: return ArgKind::TensorList;
    case c10::TypeKind::NumberType: return ArgKind::ScalarList;
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType: return ArgKind::IntList;
    case c10::TypeKind::FloatType: return ArgKind::FloatList;
    case c10::TypeKind::BoolType: return ArgKind::BoolList;
    default: return ArgKind::Other;
    }
  }
  default: return ArgKind::Other;
  }
}

struct Refusal {
  ErrorKind kind;
  const char *hint;
};

/// Values and value-dependent shapes that ops ask for, with the way out.
const std::unordered_map<std::string, Refusal> &refusals() {
  static const std::unordered_map<std::string, Refusal> table = {
      {"aten::nonzero", {ErrorKind::ValueNeeded, "its result's shape depends on values; use a mask with torch.where"}},
      {"aten::masked_select",
       {ErrorKind::ValueNeeded, "its result's shape depends on values; use torch.where(mask, x, 0)"}},
      {"aten::_unique", {ErrorKind::ValueNeeded, "its result's shape depends on values; use sort or a one-hot sum"}},
      {"aten::_unique2", {ErrorKind::ValueNeeded, "its result's shape depends on values; use sort or a one-hot sum"}},
      {"aten::unique_dim", {ErrorKind::ValueNeeded, "its result's shape depends on values; use sort or a one-hot sum"}},
      {"aten::unique_consecutive", {ErrorKind::ValueNeeded, "its result's shape depends on values; use sort"}},
      {"aten::unique_dim_consecutive", {ErrorKind::ValueNeeded, "its result's shape depends on values; use sort"}},
      {"aten::repeat_interleave.Tensor",
       {ErrorKind::ValueNeeded, "its result's shape depends on values; pass an integer or output_size"}},
      {"aten::_assert_async", {ErrorKind::ValueNeeded, "assertions read values; publish the condition"}},
      {"aten::is_nonzero", {ErrorKind::ValueNeeded, "it reads a value; publish the condition, or use torch.where"}},
      {"aten::set_.source_Storage",
       {ErrorKind::Unsupported, "a remote tensor keeps its own storage; assign x.data or copy_"}},
      {"aten::set_.source_Storage_storage_offset",
       {ErrorKind::Unsupported, "a remote tensor keeps its own storage; assign x.data or copy_"}},
      {"aten::set_", {ErrorKind::Unsupported, "it replaces the storage of a tensor; make a new tensor"}},
      {"aten::_native_batch_norm_legit.out",
       {ErrorKind::Unsupported, "it writes running statistics and results at once; call it without out="}},
      {"aten::_pin_memory", {ErrorKind::Unsupported, "remote tensors have no host memory; leave out pin_memory"}},
      {"aten::to_sparse", {ErrorKind::Unsupported, "sparse tensors are not supported; use dense ones"}},
      {"aten::_to_sparse", {ErrorKind::Unsupported, "sparse tensors are not supported; use dense ones"}},
      {"aten::quantize_per_tensor", {ErrorKind::Unsupported, "quantized tensors are not supported; use float tensors"}},
  };
  return table;
}

bool startsWith(const std::string &text, const char *prefix) { return text.rfind(prefix, 0) == 0; }

const std::unordered_set<std::string> &shapePreservingOps() {
  static const std::unordered_set<std::string> names = {"aten::fill_.Scalar",
                                                        "aten::fill_.Tensor",
                                                        "aten::zero_",
                                                        "aten::normal_",
                                                        "aten::uniform_",
                                                        "aten::bernoulli_.float",
                                                        "aten::bernoulli_.Tensor",
                                                        "aten::random_",
                                                        "aten::random_.to",
                                                        "aten::random_.from",
                                                        "aten::exponential_",
                                                        "aten::geometric_",
                                                        "aten::_amp_update_scale_",
                                                        "aten::log_normal_",
                                                        "aten::cauchy_",
                                                        "aten::copy_",
                                                        "aten::tril_",
                                                        "aten::triu_",
                                                        "aten::index_fill_.int_Scalar",
                                                        "aten::index_fill_.int_Tensor",
                                                        "aten::_index_put_impl_",
                                                        "aten::fill_diagonal_"};
  return names;
}

/// Integers that say where an op reads or writes: decompositions take them as numbers of the run (Call::runInteger).
bool isPlace(const std::string &op, const std::string &argument) {
  static const std::unordered_map<std::string, std::vector<const char *>> table = {
      {"aten::slice_backward", {"start", "end"}},
      {"aten::slice_scatter", {"start", "end"}},
      {"aten::select_backward", {"index"}},
      {"aten::select_scatter", {"index"}},
      {"aten::roll", {"shifts"}},
      {"aten::tril", {"diagonal"}},
      {"aten::triu", {"diagonal"}},
      {"aten::tril_", {"diagonal"}},
      {"aten::triu_", {"diagonal"}},
  };
  auto found = table.find(op);
  return found != table.end() &&
         std::any_of(found->second.begin(), found->second.end(), [&](const char *name) { return argument == name; });
}

/// Operators that cast into an `out` of another type, as ATen's iterations do; all others refuse one.
bool castsIntoOut(const std::string &base, const std::string &overload) {
  static const std::unordered_set<std::string> names = {
      // clang-format off
      "_chunk_cat", "acos", "acosh", "add", "addcdiv", "addcmul", "addr", "angle", "asin", "asinh", "atan", "atan2",
      "atanh", "bernoulli", "bitwise_and", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor",
      "cat", "cholesky", "cholesky_inverse", "cholesky_solve", "clamp", "clamp_max", "clamp_min", "copysign", "cos",
      "cosh", "cumprod", "cumsum", "deg2rad", "digamma", "div", "eq", "erf", "erfc", "erfinv", "exp", "exp2", "expm1",
      "floor_divide", "fmax", "fmin", "fmod", "gcd", "ge", "geqrf", "gt", "hypot", "i0", "igamma", "igammac", "lcm",
      "ldexp", "le", "lerp", "lgamma", "linalg_householder_product", "linalg_lstsq", "linalg_pinv", "linspace", "log",
      "log10", "log1p", "log2", "logaddexp", "logaddexp2", "logical_and", "logical_not", "logical_or", "logical_xor", "logit",
      "logspace", "logsumexp", "lt", "maximum", "mean", "minimum", "mul", "mvlgamma", "nansum", "ne", "nextafter", "normal",
      "polygamma", "pow", "prod", "rad2deg", "reciprocal", "remainder", "rsqrt", "sigmoid", "sin", "sinc", "sinh",
      "sqrt", "stack", "std", "sub", "sum", "tan", "tanh", "var", "xlogy",
      // clang-format on
  };
  const bool isBinary = (base == "max" || base == "min") && overload == "out";
  return isBinary || startsWith(base, "special_") || names.count(base) > 0;
}

/// Those that compute in a given dtype, or in that of their `out`.
const std::unordered_set<std::string> &reductions() {
  static const std::unordered_set<std::string> names = {"aten::sum",    "aten::mean",   "aten::prod",
                                                        "aten::nansum", "aten::cumsum", "aten::cumprod"};
  return names;
}

/// Ops whose one number becomes elements as it is.
bool fills(std::string_view base) {
  static const std::unordered_set<std::string_view> names = {
      "constant_pad_nd", "fill",        "fill_diagonal", "full",          "full_like",
      "index_fill",      "masked_fill", "new_full",      "scalar_tensor", "scatter"};
  return names.count(base.ends_with('_') ? base.substr(0, base.size() - 1) : base) > 0;
}

} // namespace

void fail(ErrorKind kind, const OpInfo &info, const std::string &what) {
  raise(kind, info.name + describeOrigin(captureOrigin()) + ": " + what);
}

OpInfo::OpInfo(const c10::OperatorHandle &op) : schema(&op.schema()) {
  const c10::OperatorName &operatorName = op.operator_name();
  name = operatorName.name + (operatorName.overload_name.empty() ? "" : "." + operatorName.overload_name);
  dotted = name;
  dotted.replace(dotted.find("::"), 2, ".");
  std::string_view base = std::string_view(operatorName.name).substr(operatorName.name.find("::") + 2);
  takesComplex = frontend::takesComplex(base);
  isLowered = sojourn::isLowered(base);
  castsResults = castsIntoOut(std::string(base), operatorName.overload_name);
  view = findViewRule(name);
  shape = view ? nullptr : findShapeRule(name);
  // Recurrent networks are recorded without their dropout, which is an op of its own.
  random = op.hasTag(at::Tag::nondeterministic_seeded) && !startsWith(name, "aten::_cudnn_rnn");
  inplaceView = op.hasTag(at::Tag::inplace_view);
  isPointwise = op.hasTag(at::Tag::pointwise) || schema->name() == "aten::where";
  shapePreserving = shapePreservingOps().count(name) > 0;
  noteArguments();
  noteNumbers(base);
  base = base.ends_with('_') ? base.substr(0, base.size() - 1) : base;
  noteOperands(base);
  noteReturns();
  noteSpecial(op);
}

void OpInfo::noteArguments() {
  for (const c10::Argument &argument : schema->arguments()) {
    if (argument.alias_info() && argument.alias_info()->isWrite()) {
      mutated.push_back(static_cast<uint32_t>(args.size()));
    }
    args.push_back(kindOf(argument));
    places.push_back(isPlace(name, argument.name()));
  }
}

/// What its numbers mean.
void OpInfo::noteNumbers(std::string_view base) {
  isRamp = startsWith(name, "aten::arange");
  isSplit = base.find("split") != std::string_view::npos;
  static const std::initializer_list<const char *> literal = {
      "aten::norm.",    "aten::linalg_vector_norm", "aten::_foreach_norm", "aten::arange",
      "aten::linspace", "aten::logspace",           "aten::range"};
  realsAreLiterals =
      std::any_of(literal.begin(), literal.end(), [&](const char *prefix) { return startsWith(name, prefix); });
  if (fills(base)) {
    const auto number = std::find(args.begin(), args.end(), ArgKind::Scalar);
    filled = number == args.end() ? -1 : static_cast<int>(number - args.begin());
    fillsWhole = !startsWith(name, "aten::masked_fill") && !startsWith(name, "aten::index_fill") &&
                 !startsWith(name, "aten::scatter");
  }
}

/// What it reads, and in which type. `base`: its name without a final "_".
void OpInfo::noteOperands(std::string_view base) {
  static const std::unordered_set<std::string_view> elsewhere = {
      "cat",        "scatter", "scatter_add", "scatter_reduce",  "gather", "index_select", "index_add",
      "index_copy", "put",     "index_put",   "_index_put_impl", "take",   "index_reduce"};
  static const std::unordered_set<std::string_view> withParameters = {
      "clamp",     "clamp_min", "clamp_max", "pow",   "add",   "sub",    "rsub",    "addcmul",
      "threshold", "hardtanh",  "index_add", "addmm", "addmv", "addbmm", "baddbmm", "addr"};
  readsElsewhere = elsewhere.count(base) > 0;
  readsParameters = withParameters.count(base) > 0;
  givesTruth = base == "all" || base == "any";
  hasStatistics = name == "aten::native_batch_norm";
  if (name == "aten::cat.out") {
    refusedCast = "torch.cat(): input types can't be cast to the desired output type ";
  }
  // A factory takes the type of what it fills.
  const auto &arguments = schema->arguments();
  isFactory = std::none_of(arguments.begin(), arguments.end(), [](const c10::Argument &argument) {
    const ArgKind kind = kindOf(argument);
    return !argument.is_out() && (kind == ArgKind::Tensor || kind == ArgKind::TensorList);
  });
  isFactory = isFactory || base == "linspace" || base == "logspace"; // ends may be tensors
  castsResults = castsResults || isFactory;
}

void OpInfo::noteReturns() {
  const auto &arguments = schema->arguments();
  for (const c10::Argument &result : schema->returns()) {
    const auto isResult = [&](uint32_t position) {
      const c10::AliasInfo *info = arguments[position].alias_info(), *own = result.alias_info();
      return own && !info->beforeSets().empty() && info->beforeSets() == own->beforeSets();
    };
    const auto written = std::find_if(mutated.begin(), mutated.end(), isResult);
    returnAlias.push_back(written == mutated.end() ? -1 : static_cast<int>(*written));
    returnsList.push_back(result.type()->kind() == c10::TypeKind::ListType);
  }
  countsWrites = !mutated.empty() && std::string_view(name).starts_with("aten::_foreach_");
  givesNothingNew = !mutated.empty() && std::find(returnAlias.begin(), returnAlias.end(), -1) == returnAlias.end();
}

/// Whether it takes more than the general path.
void OpInfo::noteSpecial(const c10::OperatorHandle &op) {
  if (name == "aten::copy_") {
    special = Special::Copy;
  } else if (name == "aten::_to_copy") {
    special = Special::ToCopy;
  } else if (name == "aten::_local_scalar_dense") {
    special = Special::LocalScalar;
  } else if (name == "aten::set_.source_Tensor") {
    special = Special::SetSource;
  } else if (name == "aten::resize_") {
    special = Special::Resize;
  } else if (name == "aten::empty_strided" || name == "aten::new_empty_strided") {
    special = Special::EmptyStrided;
  } else if (name == "aten::index.Tensor" || startsWith(name, "aten::index_put") ||
             startsWith(name, "aten::_index_put")) {
    special = Special::Index;
  } else if (name == "aten::_foreach_zero_") {
    special = Special::ZeroLists;
  } else if ((reductions().count(schema->name()) > 0 && schema->argumentIndexWithName("dtype")) ||
             (givesTruth && schema->arguments().back().is_out())) {
    special = Special::Reduction;
  } else if (name == "aten::fill_.Scalar" || name == "aten::zero_") {
    special = Special::Fill;
  } else if (schema->name() == "aten::upsample_nearest2d" || schema->name() == "aten::upsample_nearest3d") {
    special = Special::Nearest;
  } else if (startsWith(name, "aten::bincount") || startsWith(name, "aten::histc")) {
    special = Special::Histogram;
  } else if (shape && schema->argumentIndexWithName("check_errors")) {
    special = Special::CheckErrors;
  } else if (name == "aten::record_stream" || name == "aten::_linalg_check_errors") { // failures give NaN
    special = Special::NoOp;
  } else if (auto it = refusals().find(name.ends_with(".out") && isSized(name) ? schema->name() : name);
             it != refusals().end()) {
    special = isSized(name) ? Special::Sized : Special::Refused;
    refusalKind = it->second.kind;
    refusalHint = it->second.hint;
  } else if (!shape && !view &&
             (op.hasTag(at::Tag::data_dependent_output) || op.hasTag(at::Tag::dynamic_output_shape))) {
    special = Special::Refused;
    refusalKind = ErrorKind::ValueNeeded;
    refusalHint = "its result depends on values; use a masked form, or publish first";
  }
}

Word OpInfo::entryFor(bool writesStatistics) {
  Word &slot = writesStatistics ? entryMutating : entry;
  if (slot >= 0) {
    return slot;
  }
  OpEntry record{dotted, {}, std::vector<bool>(args.size(), false)};
  for (const c10::Argument &argument : schema->arguments()) {
    record.argumentNames.push_back(argument.name());
  }
  for (uint32_t position : mutated) {
    record.mutated[position] = true;
  }
  if (writesStatistics) {
    record.mutated[3] = record.mutated[4] = true;
  }
  if (random) {
    record.argumentNames.push_back("seed");
    record.mutated.push_back(false);
  }
  slot = OpTable::get().intern(record);
  return slot;
}

std::pair<const char *, std::string> describeOperator(const std::string &name) {
  const size_t dot = name.find('.');
  const bool isPlain = dot == std::string::npos;
  auto op = c10::Dispatcher::singleton().findSchema({name.substr(0, dot), isPlain ? "" : name.substr(dot + 1)});
  TORCH_CHECK(op, "unknown operator ", name, "; expected a name like aten::add.Tensor");
  const OpInfo info(*op);
  switch (info.special) {
  case Special::Refused: return {"refused", info.refusalHint};
  case Special::LocalScalar:
  case Special::Sized: return {"read", ""};
  case Special::None: break;
  default: return {"recorded", ""};
  }
  if (info.view) {
    return {"view", ""};
  }
  return {(info.shape || info.shapePreserving) && info.isLowered ? "recorded" : "unknown", ""};
}

} // namespace sojourn::frontend
