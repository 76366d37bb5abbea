// SPDX-License-Identifier: Apache-2.0
// From a Graph to scheduled instructions: layout ops become windows, elementwise ops join chains,
// every other op becomes one kernel.
#ifndef SOJOURN_RUNTIME_LOWER_H
#define SOJOURN_RUNTIME_LOWER_H
#include "runtime/Chain.h"
#include "runtime/Graph.h"
#include "runtime/Kernel.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringMap.h"
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace sojourn::runtime {

/// One scheduled instruction: a chain until all ops are seen, then a kernel.
struct Node {
  std::unique_ptr<Chain> chain;
  std::unique_ptr<Kernel> kernel;
  std::string name;
  uint32_t origin = 0; ///< index of the (first) graph op
  size_t bytes = 0;    ///< read and written, by shapes: operands and results; a chain's memory
};

class Lowering final : public ChainPlaces {
public:
  explicit Lowering(const Graph &graph);
  ~Lowering() override;

  /// Lowers every op, then compiles chains and plans memory. Throws PlanFailure.
  void run();

  // --- For kernels (Kernels*.cpp) -----------------------------------------------------------------
  const Graph &graph() const { return graph_; }
  const TensorType &type(ValueId value) const { return types_[value]; }

  /// Dense contents of an operand of the op being lowered (copied before it where it is a window).
  Place dense(ValueId value);
  /// The same, converted to `element` by a chain before the op where that is not its own.
  Place denseAs(ValueId value, Element element);
  /// An operand as it lies in memory, without a copy.
  StridedView window(ValueId value);
  /// The operand with its dims in another order: a value of its own, without a copy.
  ValueId permuted(ValueId value, llvm::ArrayRef<int64_t> perm);
  /// Dense memory for a result of the op being lowered.
  Place result(ValueId value);
  /// Memory for the result as `element`; a chain after the op converts it to its own type.
  Place resultAs(ValueId value, Element element);
  /// Memory that lives during this op alone.
  Place scratch(size_t bytes);
  /// Memory that ops with an equal key share, from the first one's instructions on: `isNew` for that one, which fills
  /// it.
  Place shared(const std::vector<int64_t> &key, size_t bytes, bool &isNew);
  /// Each worker gets at least this much memory at SlotTable::scratch during every op.
  void workerScratch(size_t bytes);
  /// What the library allocates inside of a call, about: nothing is set aside, but it counts.
  void libraryMemory(size_t bytes, int64_t calls = 1);
  /// The op's work is cut into so many calls, about equal ones; a stop of the run waits for one.
  void libraryCalls(const GraphOp &op, int64_t count);
  /// The operand's memory may become the result's, if the operand dies here: the kernel must cope
  /// with both being one.
  void mayReuse(Place result, Place operand);
  void emit(const GraphOp &op, std::unique_ptr<Kernel> kernel);
  /// An instruction of the op before its last one, which `emit` adds: all see the same memory.
  void emitPart(const GraphOp &op, std::unique_ptr<Kernel> kernel);
  /// One that is not of this op alone, by a name of its own: `bytes` are read and written.
  void emitFor(const GraphOp &op, std::string name, std::unique_ptr<Kernel> kernel, size_t bytes);
  /// The table argument's RowSource is at slots[slot].
  SlotId tableSlot(ValueId value);

  void elementwise(const GraphOp &op, EOp kind);
  /// Reduces the operand's rows, its last dims as far as `dims` hold them, within a chain. What is left to reduce, and
  /// of what: no dims where that was all. nullopt where a chain cannot, or should not.
  struct Rest {
    ValueId value;
    std::vector<int64_t> dims;
  };
  std::optional<Rest> reduceRows(const GraphOp &op, RowOp kind, ValueId operand);
  /// Elements made from their index and at most one number (`seed`; kNoValue for none).
  void generate(const GraphOp &op, std::shared_ptr<BlockStep> step, ValueId seed, bool cheap);
  void constant(const GraphOp &op);
  /// The result is a window on the operand: same memory, other offset, sizes and strides.
  void alias(ValueId result, ValueId operand, int64_t offset, llvm::ArrayRef<int64_t> strides);
  void reshape(const GraphOp &op);
  const llvm::SmallVector<int64_t, 4> &stridesOf(ValueId value) const { return values_[value].strides; }
  int64_t offsetOf(ValueId value) const { return values_[value].offset; }
  /// x where the value is x * x, made for the op being lowered alone; kNoValue else. It was not made.
  ValueId rootOf(ValueId value) const {
    auto entry = roots_.find(value);
    return entry == roots_.end() ? kNoValue : entry->second;
  }
  /// The sum that takes the product which is being lowered, and is made with it; null else.
  const GraphOp *sumOf(const GraphOp &dot) const;
  /// The maximum pooling whose gradient the op is, and whose positions nothing else reads; null else.
  const GraphOp *poolOf(const GraphOp &op) const;
  /// Whether positions of this pooling are kept as codes (codesPositions).
  bool isCoded(const GraphOp &pool) const { return coded_.contains(pool.results[1]); }
  /// The value is never made: what is asked of it is its shape.
  void leaveOut(ValueId value) { define(value, newBase(type(value), 0)); }
  [[noreturn]] void fail(const std::string &what);

  static constexpr ValueId kNoValue = UINT32_MAX;

  // --- For the executable -------------------------------------------------------------------------
  std::vector<Slot> slots;
  std::deque<Node> nodes;
  std::vector<char> constants; ///< the constant block
  size_t arenaBytes = 0;
  size_t scratchBytes = 0; ///< per worker
  size_t libraryBytes = 0;
  std::vector<LibraryCalls> calls;
  /// Per result: its slot (output), or the argument it passes on.
  struct ResultPlace {
    bool isArgument = false;
    uint32_t index = 0; ///< argument number, or slot
  };
  std::vector<ResultPlace> results;

  SlotId slotOf(BaseId base) const override { return bases_[base].slot; }

private:
  struct ValueInfo {
    BaseId base = kNoBase;
    int64_t offset = 0;
    llvm::SmallVector<int64_t, 4> strides;
  };
  struct Base {
    int32_t node = -1; ///< position of its producer; -1: there before the first instruction
    int64_t numel = 0;
    size_t bytes = 0;
    SlotId slot = kNoSlot;
    bool isConstant = false;
    int32_t argument = -1;
    std::shared_ptr<BlockStep> cheap; ///< made again in each chain rather than kept
    Element element = Element::f32;
  };

  BaseId newBase(const TensorType &type, int32_t node);
  void define(ValueId value, BaseId base);
  SlotId forceSlot(BaseId base);
  Place fresh(BaseId base);
  bool isSplat(ValueId value) const;
  bool isWhole(ValueId value) const;
  bool isSpread(ValueId value, int64_t numel) const;
  int32_t earliest(ValueId value, int64_t numel) const;
  unsigned chainFor(int64_t numel, int32_t earliest, int64_t row = 0);
  ChainOperand chainOperand(unsigned node, ValueId value, int64_t numel);
  BaseId loadInChain(unsigned node, ValueId value, ChainStep step);
  BaseId materialize(ValueId value);
  /// The value's elements as another type, made by a chain once.
  BaseId converted(ValueId value, Element element);
  BaseId convertInChain(unsigned node, ChainOperand operand, Element from, const TensorType &to);
  void push(std::string name, std::unique_ptr<Kernel> kernel, size_t bytes);
  void reuseInChains();
  size_t chainBytes(const Chain &chain) const;
  void lowerOp(const GraphOp &op);
  bool mayWait(const GraphOp &op) const;
  bool isNumber(const GraphOp &op) const;
  void bringInFor(const GraphOp &op);
  void bringIn(llvm::ArrayRef<ValueId> values, int32_t floor, int64_t numel);
  void placeResults();
  void finish();
  void markLive();
  void countUses();
  void findSquares();
  void findSums();
  void findPools();

  const Graph &graph_;
  uint32_t current_ = 0;
  std::vector<bool> live_;
  // The graph's values, then permuted ones. References to them stay good while values are added.
  std::deque<TensorType> types_;
  std::deque<ValueInfo> values_;
  std::vector<Base> bases_;
  llvm::DenseMap<ValueId, BaseId> materialized_;
  llvm::DenseMap<std::pair<ValueId, unsigned>, BaseId> converted_;
  llvm::DenseMap<int64_t, std::vector<uint32_t>> chainsBySize_;
  llvm::DenseMap<ValueId, unsigned> uses_;    ///< by live ops, and as results
  llvm::DenseMap<ValueId, ValueId> roots_;    ///< of squares that are only summed
  llvm::DenseMap<ValueId, uint32_t> sums_;    ///< of products that are only added: the op that adds them
  llvm::DenseSet<ValueId> madeEarlier_;       ///< these sums
  llvm::DenseMap<ValueId, uint32_t> pools_;   ///< gradients of maximum poolings: the pooling
  llvm::DenseSet<ValueId> coded_;             ///< positions that are kept as codes
  llvm::DenseMap<ValueId, uint32_t> waiting_; ///< results of ops that nobody has asked for yet, and these ops
  int32_t chainFloor_ = 0;                    ///< the earliest node for the op being lowered
  std::map<std::vector<int64_t>, SlotId> shared_;
  std::vector<SlotId> pendingTouches_;
  std::vector<BaseId> pendingResults_;
  std::vector<Reuse> pendingReuses_;
  std::vector<std::pair<ValueId, BaseId>> pendingNarrowed_; ///< results and their wide memory
  bool pendingParts_ = false;
  struct DatedReuse {
    Reuse reuse;
    uint32_t node;
  };
  std::vector<DatedReuse> reuses_;
};

/// Lowers one op.
using LowerFn = void (*)(Lowering &, const GraphOp &);

/// The kernel of each implemented op of dialect/CoreOps.def, by its name: defined in the file of its family
/// (`const LowerFn kernels::lower_dot = ...`). One that is missing is an undefined reference, one too many was not
/// declared.
namespace kernels {
#define SOJOURN_KERNEL_implemented(name) extern const LowerFn lower_##name;
#define SOJOURN_KERNEL_planned(name)
#define SOJOURN_CORE_OP(name, tier, status, note) SOJOURN_KERNEL_##status(name)
#include "dialect/CoreOps.def"
#undef SOJOURN_KERNEL_implemented
#undef SOJOURN_KERNEL_planned
/// Of the owner's own form, the one op that runs.
extern const LowerFn lower_first_rows;
} // namespace kernels

/// Whether a product can be made with something added to it, to the bits of a product and a sum.
bool addsInProduct(const Lowering &lowering, const GraphOp &dot);
/// Lowers both.
void lowerProductSum(Lowering &lowering, const GraphOp &dot, const GraphOp &sum);

/// Whether a maximum pooling can keep positions as codes, if only its gradient reads them.
bool codesPositions(const Lowering &lowering, const GraphOp &pool);
/// Lowers such a pooling, and the op that is its gradient.
void lowerCodedPoolMax(Lowering &lowering, const GraphOp &op);
void lowerPoolMaxGradient(Lowering &lowering, const GraphOp &op, const GraphOp &pool);

/// All of them, by op name.
const llvm::StringMap<LowerFn> &kernelTable();

} // namespace sojourn::runtime

#endif // SOJOURN_RUNTIME_LOWER_H
