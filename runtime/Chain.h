// SPDX-License-Identifier: Apache-2.0
// Chains: consecutive elementwise steps over one number of elements, run block by block through the
// cache, so that what lives inside a chain alone never reaches memory. Where the elements are rows of one length, a
// chain may reduce rows to one number each, compute with these, and spread them along the rows again: a block is some
// whole rows.
#ifndef SOJOURN_RUNTIME_CHAIN_H
#define SOJOURN_RUNTIME_CHAIN_H
#include "runtime/Kernel.h"
#include "runtime/VectorKernels.h"
#include "llvm/ADT/DenseMap.h"
#include <memory>
#include <optional>
#include <vector>

namespace sojourn::runtime {

/// A value as the planner sees it: a graph value or a temporary of a chain.
using BaseId = uint32_t;
inline constexpr BaseId kNoBase = UINT32_MAX;

/// An operand of a step: another base over the same elements, or memory read in place.
struct ChainOperand {
  enum class Kind : uint8_t { none, value, memory, splat } kind = Kind::none;
  BaseId base = kNoBase; ///< value: the base; memory, splat: the base that owns the memory
  int64_t bytes = 0;     ///< memory, splat: offset of the first element
  bool perRow = false;   ///< one element for each row
};

struct ChainStep {
  EOp op = EOp::copy;
  Element in = Element::f32, out = Element::f32; ///< elements of the data operands and of the result
  ChainOperand operands[3];
  BaseId result = kNoBase;
  std::shared_ptr<BlockStep> block; ///< loads, generators: runs instead of `op`
  RowsFn rows = nullptr;            ///< rows to numbers or back: runs instead of `op`
  bool perRow = false;              ///< the result is one element for each row
  uint32_t origin = 0;              ///< index of the graph op, for errors
};

struct Chain {
  int64_t numel = 0;
  int64_t row = 0; ///< elements of a row; 0: nothing asks for rows
  std::vector<ChainStep> steps;
  llvm::DenseMap<uint32_t, BaseId> loads; ///< graph value -> its block in this chain
};

/// Places of bases, as chain compilation asks for them.
class ChainPlaces {
public:
  virtual ~ChainPlaces();
  virtual SlotId slotOf(BaseId base) const = 0; ///< kNoSlot: lives in the chain alone
};

struct CompiledChain {
  std::unique_ptr<Kernel> kernel;
  size_t scratchBytes = 0; ///< per worker
};

/// Chooses loops, conversions and block memory for each step. Throws PlanFailure where an element
/// type has no kernel.
CompiledChain compileChain(const Chain &chain, const ChainPlaces &places);

/// A step on library kernels for f32, f64 and complex; null where the library has none.
std::shared_ptr<BlockStep> makeLibraryStep(EOp op, Element in, Element out, unsigned splats);

/// Fills out[0, n) with elements [lo, lo + n) of the strided window at `a`.
std::shared_ptr<BlockStep> makeStridedLoad(const StridedView &view);

} // namespace sojourn::runtime

#endif // SOJOURN_RUNTIME_CHAIN_H
