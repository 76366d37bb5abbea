// SPDX-License-Identifier: Apache-2.0
// What the recorder knows of each overload.
#ifndef SOJOURN_FRONTEND_RECORDING_OPINFO_H
#define SOJOURN_FRONTEND_RECORDING_OPINFO_H

#include "frontend/Raise.h"
#include "frontend/recording/Trace.h"
#include "frontend/shapes/Shapes.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sojourn::frontend {

/// What an argument is in the stream.
enum class ArgKind : uint8_t {
  Tensor,
  TensorList,
  Scalar,
  ScalarList,
  Int,
  IntList,
  Float,
  FloatList,
  Bool,
  BoolList,
  Dtype,
  String,
  Device,  ///< says which device, never recorded
  Ignored, ///< layout, memory format, pin_memory: the result's layout says it
  Generator,
  Other ///< unsupported unless None
};

/// Ops that need more than the general path.
enum class Special : uint8_t {
  None,
  Copy,
  ToCopy,
  LocalScalar,
  Resize,
  Refused,
  Index,
  Fill,    ///< one number for all elements
  Nearest, ///< what an image of nearest pixels takes where depends on its layout
  Histogram,
  EmptyStrided,
  CheckErrors, ///< has an argument check_errors
  SetSource,
  ZeroLists, ///< _foreach_zero_
  Reduction, ///< with a dtype to compute in
  Sized,     ///< values say how large its result is
  NoOp
};

/// What becomes of an overload's calls: "recorded", "view", "read" (a value is asked for), "refused" or "unknown", and
/// of a refusal its hint. `name`: "aten::add.Tensor".
std::pair<const char *, std::string> describeOperator(const std::string &name);

/// Static knowledge of one overload, computed once at load.
struct OpInfo {
  explicit OpInfo(const c10::OperatorHandle &op);

  std::string name;   ///< "aten::add.Tensor"
  std::string dotted; ///< "aten.add.Tensor"
  const c10::FunctionSchema *schema;
  const ShapeRule *shape = nullptr;
  ViewRule view = nullptr;
  Special special = Special::None;
  int filled = -1;         ///< the number that elements become, by its position
  bool fillsWhole = false; ///< and all elements become it
  ErrorKind refusalKind = ErrorKind::Unsupported;
  const char *refusalHint = nullptr;
  std::vector<ArgKind> args;
  std::vector<bool> places;          ///< per argument: integers that say where, not how (TraceWriter::number)
  std::vector<uint32_t> mutated;     ///< argument positions
  std::vector<int> returnAlias;      ///< per return: argument it is, or -1 for fresh
  std::vector<bool> returnsList;     ///< per return: a list of tensors
  bool givesNothingNew = false;      ///< it writes to arguments and returns no other tensor
  bool hasStatistics = false;        ///< batch_norm: its arguments 3 and 4 are written in training (argument 5)
  const char *refusedCast = nullptr; ///< how eager refuses an `out` of a type that results cannot be cast to
  bool random = false;
  bool isLowered = false;       ///< the passes know it
  bool castsResults = false;    ///< into an `out` of another type
  bool isFactory = false;       ///< of numbers alone; an `out` says the dtype
  bool givesTruth = false;      ///< all, any: into bytes, too
  bool readsElsewhere = false;  ///< at other places than it writes to, so that both may not be one tensor
  bool readsParameters = false; ///< numbers in the type of an integer result
  bool countsWrites = false;    ///< in place over lists: torch counts these in the kernels, not above them
  bool isPointwise = false;
  bool inplaceView = false;
  bool takesComplex = false;
  bool realsAreLiterals = false; ///< floats decide shapes (arange) or the algorithm (order of a norm)
  bool isRamp = false;           ///< arange: what its length is, its results say
  bool isSplit = false;          ///< cuts into parts of sizes that its arguments say
  bool shapePreserving = false;  ///< in-place ops that keep self's shape whatever the arguments
  Word entry = -1, entryMutating = -1;

  /// Whether a call writes statistics, which its schema does not say.
  bool writesStatistics(c10::ArrayRef<c10::IValue> args) const {
    return hasStatistics && args[5].toBool() && args[3].isTensor() && args[3].toTensor().defined();
  }
  Word entryFor(bool writesStatistics);

private:
  void noteArguments();
  void noteNumbers(std::string_view base);
  void noteOperands(std::string_view base);
  void noteReturns();
  void noteSpecial(const c10::OperatorHandle &op);
};

/// Whether an op, by its base name ("add", "add_"), takes complex numbers.
bool takesComplex(std::string_view base);
/// Whether an op's values say how large its result is, and it is recorded where that may be read (Sized.cpp).
bool isSized(const std::string &name);
/// With the op's name and the user's line.
[[noreturn]] void fail(ErrorKind kind, const OpInfo &info, const std::string &what);

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_RECORDING_OPINFO_H
