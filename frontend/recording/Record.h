// SPDX-License-Identifier: Apache-2.0
// The recorder: one boxed kernel below autograd that appends what arrives to the session's trace.
#ifndef SOJOURN_FRONTEND_RECORDING_RECORD_H
#define SOJOURN_FRONTEND_RECORDING_RECORD_H

#include "frontend/session/Session.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>

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
  Device,  ///< chooses the session, never recorded
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
  BatchNorm,
  Index,
  Fill,    ///< one number for all elements
  Nearest, ///< what an image of nearest pixels takes where depends on its layout
  Histogram,
  EmptyStrided,
  CheckErrors, ///< has an argument check_errors
  SetSource,
  Sized, ///< values say how large its result is
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
  std::vector<bool> places;      ///< per argument: integers that say where, not how (TraceWriter::number)
  std::vector<uint32_t> mutated; ///< argument positions
  std::vector<int> returnAlias;  ///< per return: argument it is, or -1 for fresh
  bool random = false;
  bool isLowered = false;       ///< the passes know it
  bool castsResults = false;    ///< into an `out` of another type
  bool isFactory = false;       ///< of numbers alone; an `out` says the dtype
  bool givesTruth = false;      ///< all, any: into bytes, too
  bool readsElsewhere = false;  ///< at other places than it writes to, so that both may not be one tensor
  bool readsParameters = false; ///< numbers in the type of an integer result
  bool inplaceView = false;
  bool takesComplex = false;
  bool realsAreLiterals = false; ///< floats decide shapes (arange) or the algorithm (order of a norm)
  bool isRamp = false;           ///< arange: what its length is, its results say
  bool shapePreserving = false;  ///< in-place ops that keep self's shape whatever the arguments
  Word entry = -1, entryMutating = -1;

  Word entryFor(bool batchNormTraining);
};

/// With the op's name and the user's line.
[[noreturn]] void fail(ErrorKind kind, const OpInfo &info, const std::string &what);
/// Throws where a tensor that is written and one that is read share part of their memory, as eager's iterators do.
/// `takesSame`: eager takes one tensor for both.
void checkApart(const at::Tensor &written, const at::Tensor &read, bool takesSame = true);
/// The same of ops over lists: what is written to the k-th tensor, and what the k-th of other lists holds.
void checkListsApart(const OpInfo &info, c10::ArrayRef<c10::IValue> args, uint32_t position);
/// Throws for a tensor whose elements share memory, and for booleans seen as numbers.
void checkWritable(const OpInfo &info, const at::Tensor &tensor);
/// An op that needs more than the general path (Special.cpp). Whether its result is on the stack; else it is recorded,
/// with the arguments that are there now.
bool answerSpecial(const OpInfo &info, torch::jit::Stack *stack);

/// Whether an op's values say how large its result is, and it is recorded where that may be read (Sized.cpp).
bool isSized(const std::string &name);
/// Likewise for such an op. Throws what refuses it where the size may not be read.
bool answerSized(const OpInfo &info, torch::jit::Stack *stack);
/// How many classes non-negative labels have; empty where that may not be read.
std::optional<int64_t> classesOf(const at::Tensor &labels);

/// Whether an op, by its base name ("add", "add_"), takes complex numbers.
bool takesComplex(std::string_view base);
/// Whether torch has put off the conjugation or the negation of a tensor to its next use.
inline bool isLazilyNegated(const at::Tensor &tensor) { return tensor.is_conj() || tensor.is_neg(); }
/// The tensor as it is stored, and the values that it stands for, computed now.
at::Tensor asStored(const at::Tensor &tensor);
at::Tensor resolved(const at::Tensor &tensor);

/// Whether each element has a place of its own and there are no gaps.
bool isDenseLayout(c10::IntArrayRef sizes, c10::IntArrayRef strides);
/// A new tensor of these strides, which may have gaps or share elements: a window on a dense storage.
at::Tensor emptyStrided(c10::IntArrayRef sizes, c10::IntArrayRef strides, const at::TensorOptions &options);
/// resize_ of a remote tensor, in place; refuses what another tensor would see.
void resize(const OpInfo &info, const at::Tensor &self, c10::IntArrayRef sizes);

/// Registers device "owner" with torch, and the recorder on it; once.
void registerDevice();

/// The boxed kernel of one overload.
class Recorder final : public c10::OperatorKernel {
public:
  explicit Recorder(std::shared_ptr<OpInfo> info) : info_(std::move(info)) {}
  void operator()(const c10::OperatorHandle &op, c10::DispatchKeySet keys, torch::jit::Stack *stack);

private:
  void recordNegated(Session &session, torch::jit::Stack *stack);
  void recordView(torch::jit::Stack *stack, c10::ArrayRef<c10::IValue> args);
  void record(Session &session, torch::jit::Stack *stack);
  std::shared_ptr<OpInfo> info_;
};

/// Appends op records that have no ATen op (rows, samples). Lock held by the caller.
class TraceWriter {
public:
  TraceWriter(Session &session, Recording &open) : session_(session), open_(open), trace_(open.trace) {}
  void beginOp(Word entry, size_t argumentCount, const Origin &origin);
  void tensor(const at::Tensor &tensor);
  /// A value of this trace, by its id.
  void whole(int64_t id);
  /// A window on a value of this trace.
  void window(int64_t id, c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t offset);
  void none() { trace_.push(Tag::None); }
  void integer(int64_t value);
  /// One that no shape, and no way to compute, depends on.
  void number(int64_t value);
  void boolean(bool value);
  void complex(c10::complex<double> value);
  void real(double value);
  void dtype(at::ScalarType type);
  void text(std::string_view value);
  void slot(double value);
  void intSlot(int64_t value);
  void seed(uint64_t value);
  void integers(c10::ArrayRef<int64_t> values);
  void list(size_t count);
  void table(int64_t id);
  void texts(const std::vector<std::string> &values);
  void beginResults(size_t count) { trace_.push(static_cast<Word>(count)); }
  /// A fresh storage, or an undefined result.
  c10::intrusive_ptr<Storage> result(const OutputMeta &meta);
  /// A storage that has been before gets its value.
  void resultInto(Storage &storage);
  /// The id of a value that ops of this trace alone refer to.
  int64_t hiddenResult(const OutputMeta &meta);

private:
  void layout(const OutputMeta &meta);
  Session &session_;
  Recording &open_;
  Trace &trace_;
};

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_RECORDING_RECORD_H
