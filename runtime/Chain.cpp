// SPDX-License-Identifier: Apache-2.0
// Compiles a chain into micro-ops on pointers: conversions around steps whose type computes in
// another, block memory by last use, and the loop over blocks.
#include "runtime/Chain.h"
#include "runtime/Graph.h"
#include "runtime/Stop.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SmallVector.h"
#include <algorithm>
#include <array>

namespace sojourn::runtime {

Kernel::~Kernel() = default;
BlockStep::~BlockStep() = default;
ChainPlaces::~ChainPlaces() = default;

namespace {

// Elements per block: own loops want all operands of some steps in the first cache (an optimizer's chain has ten);
// library calls cost more each.
constexpr int64_t kBlock = 512;
constexpr int64_t kLibraryBlock = 8192;
/// What is worth waking a thread for, in elements of steps; one of a library step counts for several.
constexpr int64_t kWakeWork = 65536, kLibraryWork = 8, kMathWork = 4, kReduceWork = 4;
/// Up to this many elements libm in a plain loop beats a library call; of rows this long a block has few.
constexpr int64_t kScalarElements = 8, kScalarRow = 16;

/// Where a micro-op finds an operand: pointer = (slot or scratch) + offset + (element or row) * step.
struct Ref {
  uint32_t slot = kNoSlot; ///< kNoSlot: the worker's scratch memory
  int64_t offset = 0;
  int64_t step = 0;
  bool perRow = false;
};

/// Rows from this length on are worth a call each, with the number of the row as one operand.
constexpr int64_t kCalledRow = 64;

/// One of fn, block and rows.
struct MicroOp {
  VectorFn fn = nullptr;
  const BlockStep *block = nullptr;
  RowsFn rows = nullptr;
  bool perRow = false;                   ///< fn, block: over rows
  bool byRows = false;                   ///< fn: row by row, as operands that are one number for each row ask for
  int64_t outPitch = 0, pitches[3] = {}; ///< byRows: bytes from row to row
  Ref out, operands[3];
};

class ChainKernel final : public Kernel {
public:
  std::vector<MicroOp> ops;
  std::vector<std::shared_ptr<BlockStep>> owned;
  int64_t numel = 0, row = 1, block = kBlock, blocks = 1;

  void run(SlotTable slots, int64_t lo, int64_t hi, unsigned worker) const override {
    char *local = slots.scratch(worker);
    for (int64_t number = blocks * lo / rows, past = blocks * hi / rows; number < past; ++number) {
      const int64_t begin = number * block, count = std::min(block, numel - begin);
      const int64_t firstRow = begin / row, rowCount = count / row;
      auto at = [&](const Ref &ref) {
        return (ref.slot == kNoSlot ? local : static_cast<char *>(slots[ref.slot])) + ref.offset +
               (ref.perRow ? firstRow : begin) * ref.step;
      };
      for (const MicroOp &op : ops) {
        if (op.block != nullptr) {
          checkStop(); // some special functions take microseconds for each element
        }
        const int64_t n = op.perRow ? rowCount : count;
        if (op.byRows) {
          char *out = at(op.out), *a = at(op.operands[0]), *b = at(op.operands[1]), *c = at(op.operands[2]);
          for (int64_t k = 0; k < rowCount; ++k) {
            op.fn(out + k * op.outPitch, a + k * op.pitches[0], b + k * op.pitches[1], c + k * op.pitches[2], row);
          }
        } else if (op.fn != nullptr) {
          op.fn(at(op.out), at(op.operands[0]), at(op.operands[1]), at(op.operands[2]), n);
        } else if (op.rows != nullptr) {
          op.rows(at(op.out), at(op.operands[0]), rowCount, row);
        } else {
          op.block->run(at(op.out), at(op.operands[0]), at(op.operands[1]), op.perRow ? firstRow : begin, n, worker);
        }
      }
    }
  }
  size_t bytes() const override {
    constexpr size_t kStepBytes = 256; // of a load or a generator, about
    return sizeof(*this) + ops.capacity() * sizeof(MicroOp) + owned.size() * kStepBytes;
  }
};

class Compiler {
public:
  Compiler(const Chain &chain, const ChainPlaces &places)
      : chain_(chain), places_(places), kernel_(std::make_unique<ChainKernel>()) {
    kernel_->numel = chain.numel;
    kernel_->row = std::max<int64_t>(chain.row, 1);
    findNumbers();
  }

  CompiledChain compile() {
    bool library = false;
    int64_t work = 0; // per element
    size_t width = 1; // of the widest element that a register holds
    for (const ChainStep &step : chain_.steps) {
      bool complex = isComplex(step.in) || isComplex(step.out);
      bool plain = !step.block && step.rows == nullptr;
      bool function = plain && classOf(step.op) == EClass::Library;
      bool own = !complex && vectorKernel(step.op, hubOf(step.in), 0) != nullptr;
      bool called = plain && ((function && !own && !isSmall(step)) || complex);
      library |= called && !step.perRow;
      if (step.perRow && step.rows != nullptr) {
        work += kReduceWork;
      } else if (!step.perRow) {
        work += called ? kLibraryWork : function ? kMathWork : step.block ? step.block->work() : 1;
      }
      width = std::max({width, byteWidth(step.in), byteWidth(step.out), byteWidth(hubOf(step.in))});
      if (plain && step.op == EOp::convert && !complex && step.in != step.out) {
        width = std::max(width, byteWidth(conversion(step.in, step.out).via));
      }
    }
    kernel_->block = std::min(library ? kLibraryBlock : kBlock, std::max<int64_t>(chain_.numel, 1));
    kernel_->block = std::max(kernel_->block / kernel_->row, int64_t{1}) * kernel_->row;
    kernel_->blocks = (chain_.numel + kernel_->block - 1) / kernel_->block;
    int64_t paying = static_cast<int64_t>(
        std::min(static_cast<double>(chain_.numel) * static_cast<double>(work) / static_cast<double>(kWakeWork), 1e12));
    kernel_->rows = std::min(kernel_->blocks, std::max<int64_t>(paying, 1));
    registerBytes_ = (static_cast<size_t>(kernel_->block) * width + 63) / 64 * 64;

    for (auto [index, step] : llvm::enumerate(chain_.steps)) {
      for (const ChainOperand &operand : step.operands) {
        if (operand.kind == ChainOperand::Kind::value) {
          lastUse_[operand.base] = index;
        }
      }
    }
    for (auto [index, step] : llvm::enumerate(chain_.steps)) {
      lower(step);
      for (const ChainOperand &operand : step.operands) {
        if (operand.kind == ChainOperand::Kind::value && lastUse_[operand.base] == index) {
          release(operand.base);
        }
      }
      if (lastUse_.find(step.result) == lastUse_.end()) {
        release(step.result); // nobody in the chain reads it
      }
    }
    CompiledChain result;
    result.scratchBytes = registers_ * registerBytes_;
    result.kernel = std::move(kernel_);
    return result;
  }

private:
  [[noreturn]] void fail(const ChainStep &step, const std::string &what) {
    throw PlanFailure{ErrorCode::Unsupported, what, step.origin};
  }

  unsigned takeRegister() {
    if (!freeRegisters_.empty()) {
      unsigned id = freeRegisters_.back();
      freeRegisters_.pop_back();
      return id;
    }
    return registers_++;
  }
  void release(BaseId base) {
    auto held = registerOf_.find(base);
    if (held != registerOf_.end()) {
      freeRegisters_.push_back(held->second);
      registerOf_.erase(held);
    }
  }
  Ref local(unsigned id, Element element) { return {kNoSlot, static_cast<int64_t>(id * registerBytes_), 0}; }

  bool isSmall(const ChainStep &step) const {
    return !isComplex(step.in) && !isComplex(step.out) &&
           (step.perRow ? chain_.row >= kScalarRow : chain_.numel <= kScalarElements);
  }

  Ref refOf(const ChainOperand &operand, Element element) {
    int64_t width = static_cast<int64_t>(byteWidth(element));
    switch (operand.kind) {
    case ChainOperand::Kind::none: return {kNoSlot, 0, 0};
    case ChainOperand::Kind::value: {
      auto held = registerOf_.find(operand.base);
      if (held != registerOf_.end()) {
        return local(held->second, element);
      }
      return {places_.slotOf(operand.base), 0, width, operand.perRow};
    }
    case ChainOperand::Kind::memory: return {places_.slotOf(operand.base), operand.bytes, width, operand.perRow};
    case ChainOperand::Kind::splat: return {places_.slotOf(operand.base), operand.bytes, 0};
    }
    return {};
  }

  void push(VectorFn fn, Ref out, Ref a, Ref b = {}, Ref c = {}) {
    MicroOp &op = kernel_->ops.emplace_back();
    op.fn = fn;
    op.perRow = perRow_;
    op.out = out;
    std::copy_n(std::array{a, b, c}.begin(), 3, op.operands);
  }
  void pushBlock(const BlockStep *block, Ref out, const Ref *refs) {
    push(nullptr, out, refs[0], refs[1], refs[2]);
    kernel_->ops.back().block = block;
  }
  /// A micro-op on one element: the widening of a splat. Its count is the block's, so it reads a splat.
  void pushWidened(Element from, Element to, Ref target, Ref source, bool splat, unsigned spare) {
    Conversion steps = conversion(from, to);
    if (!splat) {
      push(steps.first, target, source);
      return;
    }
    Ref block = {kNoSlot, static_cast<int64_t>(spare * registerBytes_), 0};
    push(vectorKernel(EOp::copy, from, 1), block, source);
    push(steps.first, target, block);
  }

  /// Windows and spread numbers that are one number along each row, and only asked for by loops that take one: they are
  /// not laid out. A chain without rows gets those that the first of these has.
  void findNumbers() {
    auto runOf = [](const ChainStep &step) { return step.block && !step.perRow ? step.block->run() : 1; };
    for (const ChainStep &step : chain_.steps) {
      constexpr int64_t kParts = 64;
      for (int64_t parts = 1, run = runOf(step); kernel_->row == 1 && parts <= kParts && run / parts >= kCalledRow;
           ++parts) {
        if (run % parts == 0 && run / parts <= kBlock && chain_.numel % (run / parts) == 0) {
          kernel_->row = run / parts;
        }
      }
    }
    if (kernel_->row < kCalledRow) {
      return;
    }
    for (const ChainStep &step : chain_.steps) {
      bool isSpread = step.rows != nullptr && !step.perRow;
      if ((isSpread || runOf(step) % kernel_->row == 0) && places_.slotOf(step.result) == kNoSlot) {
        numbers_.insert(step.result);
      }
    }
    for (const ChainStep &step : chain_.steps) {
      unsigned asked = 0, others = 0;
      for (const ChainOperand &operand : step.operands) {
        bool isNumber = operand.kind == ChainOperand::Kind::value && numbers_.contains(operand.base);
        asked += isNumber ? 1 : 0;
        others +=
            !isNumber && (operand.kind == ChainOperand::Kind::value || operand.kind == ChainOperand::Kind::memory);
      }
      bool takes = !step.block && step.rows == nullptr && !step.perRow && others > 0 && !isComplex(step.in) &&
                   (step.op == EOp::select || (classOf(step.op) == EClass::Loop && hubOf(step.in) == step.in &&
                                               vectorKernel(step.op, step.in, 0) != nullptr));
      for (const ChainOperand &operand : step.operands) {
        if (asked > 0 && !takes) {
          numbers_.erase(operand.base);
        }
      }
    }
  }

  /// A micro-op that was pushed for a step takes some operands as one number for each row.
  void takeNumbers(const ChainStep &step, const Element *types) {
    MicroOp &op = kernel_->ops.back();
    auto width = [](Element element) { return static_cast<int64_t>(byteWidth(element)); };
    op.byRows = true;
    op.outPitch = kernel_->row * width(step.out);
    for (unsigned k = 0; k < 3; ++k) {
      const ChainOperand &operand = step.operands[k];
      bool isOne = operand.kind == ChainOperand::Kind::none || operand.kind == ChainOperand::Kind::splat;
      op.pitches[k] = isOne ? 0 : numbers_.contains(operand.base) ? width(types[k]) : kernel_->row * width(types[k]);
    }
  }

  void lower(const ChainStep &step) {
    perRow_ = step.perRow || numbers_.contains(step.result);
    unsigned count = arityOf(step.op);
    unsigned splats = 0;
    bool takesNumbers = false;
    Element types[3] = {step.in, step.in, step.in};
    if (step.op == EOp::select) {
      types[0] = Element::i1;
    }
    Ref refs[3];
    for (unsigned k = 0; k < 3; ++k) {
      refs[k] = refOf(step.operands[k], types[k]);
      bool isNumber = step.operands[k].kind == ChainOperand::Kind::value && numbers_.contains(step.operands[k].base);
      splats |= step.operands[k].kind == ChainOperand::Kind::splat || isNumber ? 1u << k : 0u;
      takesNumbers |= isNumber;
    }
    // The result's register is taken before operands are released: a kernel that needs several
    // micro-ops may write it while an operand is still to be read.
    SlotId slot = places_.slotOf(step.result);
    Ref out;
    if (slot != kNoSlot) {
      out = {slot, 0, static_cast<int64_t>(byteWidth(step.out)), step.perRow};
    } else {
      unsigned id = takeRegister();
      registerOf_[step.result] = id;
      out = local(id, step.out);
    }
    if (takesNumbers) {
      push(vectorKernel(step.op, step.op == EOp::select ? step.out : step.in, splats), out, refs[0], refs[1], refs[2]);
      takeNumbers(step, types);
      return;
    }
    if (step.rows != nullptr && numbers_.contains(step.result)) {
      push(vectorKernel(EOp::copy, step.out, 0), out, refs[0]);
      return;
    }
    if (step.block && numbers_.contains(step.result)) {
      kernel_->owned.push_back(step.block->perRow(kernel_->row));
      pushBlock(kernel_->owned.back().get(), out, refs);
      return;
    }
    if (step.block) {
      kernel_->owned.push_back(step.block);
      pushBlock(step.block.get(), out, refs);
      return;
    }
    if (step.rows != nullptr) {
      push(nullptr, out, refs[0]);
      kernel_->ops.back().rows = step.rows;
      return;
    }
    if (step.op == EOp::copy || step.op == EOp::select) {
      push(vectorKernel(step.op, step.out, splats), out, refs[0], refs[1], refs[2]);
      return;
    }
    bool complex = isComplex(step.in) || isComplex(step.out);
    if (step.op == EOp::convert && !complex) {
      lowerConvert(step, out, refs[0], splats);
      return;
    }
    // Loops and library calls take their length from operand 0 where every operand is a splat.
    std::optional<unsigned> spare;
    if (splats == (1u << count) - 1) {
      spare = takeRegister();
      Ref block = local(*spare, step.in);
      push(vectorKernel(EOp::copy, step.in, 1), block, refs[0]);
      refs[0] = block;
      splats &= ~1u;
    }
    // The type it computes in; a conversion computes nothing.
    Element hub = step.op == EOp::convert ? step.in : hubOf(step.in);
    if (hub != step.in) {
      lowerThroughHub(step, hub, count, splats, out, refs);
    } else {
      emit(step, step.in, step.out, splats, out, refs);
    }
    if (spare) {
      freeRegisters_.push_back(*spare);
    }
  }

  void emit(const ChainStep &step, Element in, Element outElement, unsigned splats, Ref out, const Ref *refs) {
    VectorFn fn = isComplex(in) || isComplex(outElement) ? nullptr : vectorKernel(step.op, in, splats);
    if (fn == nullptr && isSmall(step)) {
      fn = scalarKernel(step.op, in, splats);
    }
    if (fn != nullptr) {
      push(fn, out, refs[0], refs[1], refs[2]);
      return;
    }
    std::shared_ptr<BlockStep> block = makeLibraryStep(step.op, in, outElement, splats);
    if (!block) {
      fail(step, "no kernel for element type " + std::string(elementName(step.in)));
    }
    pushBlock(block.get(), out, refs);
    kernel_->owned.push_back(std::move(block));
  }

  void lowerConvert(const ChainStep &step, Ref out, Ref source, unsigned splats) {
    llvm::SmallVector<unsigned, 2> spare;
    if (splats != 0) {
      spare.push_back(takeRegister());
      Ref block = local(spare.back(), step.in);
      push(vectorKernel(EOp::copy, step.in, 1), block, source);
      source = block;
    }
    if (step.in == step.out) {
      push(vectorKernel(EOp::copy, step.in, 0), out, source);
    } else {
      Conversion steps = conversion(step.in, step.out);
      if (steps.second == nullptr) {
        push(steps.first, out, source);
      } else {
        spare.push_back(takeRegister());
        push(steps.first, local(spare.back(), steps.via), source);
        push(steps.second, out, local(spare.back(), steps.via));
      }
    }
    freeRegisters_.append(spare.begin(), spare.end());
  }

  /// Widen operands, compute, narrow the result: one rounding per step, as the dialect demands.
  void lowerThroughHub(const ChainStep &step, Element hub, unsigned count, unsigned splats, Ref out, const Ref *refs) {
    llvm::SmallVector<unsigned, 4> spare;
    Ref wide[3] = {};
    for (unsigned k = 0; k < count; ++k) {
      spare.push_back(takeRegister());
      unsigned target = spare.back();
      bool splat = (splats >> k & 1) != 0;
      unsigned helper = target;
      if (splat) {
        spare.push_back(takeRegister());
        helper = spare.back();
      }
      wide[k] = local(target, hub);
      pushWidened(step.in, hub, wide[k], refs[k], splat, helper);
    }
    bool boolean = step.out == Element::i1 && step.in != Element::i1;
    if (boolean) {
      emit(step, hub, Element::i1, 0, out, wide);
    } else {
      spare.push_back(takeRegister());
      Ref result = local(spare.back(), hub);
      emit(step, hub, hub, 0, result, wide);
      push(conversion(hub, step.out).first, out, result);
    }
    freeRegisters_.append(spare.begin(), spare.end());
  }

  const Chain &chain_;
  const ChainPlaces &places_;
  std::unique_ptr<ChainKernel> kernel_;
  size_t registerBytes_ = 0;
  bool perRow_ = false; ///< the step that is being lowered is
  unsigned registers_ = 0;
  llvm::SmallVector<unsigned, 16> freeRegisters_;
  llvm::DenseMap<BaseId, unsigned> registerOf_;
  llvm::DenseMap<BaseId, size_t> lastUse_;
  llvm::DenseSet<BaseId> numbers_; ///< held as one number for each row
};

} // namespace

CompiledChain compileChain(const Chain &chain, const ChainPlaces &places) { return Compiler(chain, places).compile(); }

} // namespace sojourn::runtime
