// SPDX-License-Identifier: Apache-2.0
// Neighbouring chains that do not need each other become one instruction: an optimizer's updates of many small
// parameters cost one hand-over to other threads, and their work is shared out as a whole.
#include "runtime/Lower.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>

namespace sojourn::runtime {

namespace {

/// Larger chains are worth an instruction of their own, and their memory is better free again before the next one.
constexpr int64_t kElementsMost = 65536;
/// As many rows as threads can need, if there is enough work to wake one.
constexpr int64_t kRowsMost = 64, kWakeWork = 65536;

/// Kernels whose rows are put together to rows of about equal work.
class GroupKernel final : public Kernel {
public:
  explicit GroupKernel(std::vector<CompiledChain> chains) {
    int64_t work = 0, done = 0, number = 0;
    for (const CompiledChain &chain : chains) {
      work += chain.work;
    }
    const int64_t wanted = work < 2 * kWakeWork ? 1 : kRowsMost;
    const int64_t share = std::max<int64_t>(work / wanted, 1);
    for (CompiledChain &chain : chains) {
      const auto part = static_cast<uint32_t>(parts_.size());
      const int64_t rows = chain.kernel->rows;
      for (int64_t row = 0; row < rows; ++row, done += chain.work / rows) {
        // A row begins where the work before it is another number of shares.
        if (begins_.empty() || done / share > number) {
          number = done / share;
          begins_.push_back(static_cast<uint32_t>(pieces_.size()));
        }
        if (begins_.back() < pieces_.size() && pieces_.back().part == part) {
          pieces_.back().past = row + 1;
        } else {
          pieces_.push_back({part, row, row + 1});
        }
      }
      parts_.push_back(std::move(chain.kernel));
    }
    rows = static_cast<int64_t>(begins_.size());
    begins_.push_back(static_cast<uint32_t>(pieces_.size()));
  }

  void run(SlotTable slots, int64_t lo, int64_t hi, unsigned worker) const override {
    for (uint32_t at = begins_[static_cast<size_t>(lo)]; at < begins_[static_cast<size_t>(hi)]; ++at) {
      parts_[pieces_[at].part]->run(slots, pieces_[at].first, pieces_[at].past, worker);
    }
  }
  size_t bytes() const override {
    size_t bytes = sizeof(*this) + pieces_.capacity() * sizeof(Piece) + begins_.capacity() * sizeof(uint32_t);
    for (const std::unique_ptr<Kernel> &part : parts_) {
      bytes += sizeof(part) + part->bytes();
    }
    return bytes;
  }

private:
  struct Piece {
    uint32_t part;
    int64_t first, past; ///< its rows
  };
  std::vector<std::unique_ptr<Kernel>> parts_;
  std::vector<Piece> pieces_;
  std::vector<uint32_t> begins_; ///< a row's first piece; one more at the end
};

} // namespace

void Lowering::groupChains() {
  // Whether a chain reads what a node from `first` on makes, itself apart.
  auto needs = [&](uint32_t node, uint32_t first) {
    return llvm::any_of(nodes[node].chain->steps, [&](const ChainStep &step) {
      return llvm::any_of(step.operands, [&](const ChainOperand &operand) {
        if (operand.kind == ChainOperand::Kind::none) {
          return false;
        }
        int32_t maker = bases_[operand.base].node;
        return maker >= static_cast<int32_t>(first) && maker != static_cast<int32_t>(node);
      });
    });
  };
  auto joins = [&](uint32_t node) { return nodes[node].chain && nodes[node].chain->numel <= kElementsMost; };

  std::vector<uint32_t> firsts(nodes.size()), positions(nodes.size());
  std::deque<Node> grouped;
  for (uint32_t node = 0; node < nodes.size(); ++node) {
    uint32_t first = node == 0 ? 0 : firsts[node - 1];
    bool isMember = node > 0 && joins(first) && joins(node) && !needs(node, first);
    firsts[node] = isMember ? first : node;
    positions[node] = static_cast<uint32_t>(isMember ? grouped.size() - 1 : grouped.size());
    if (!isMember) {
      grouped.emplace_back();
    }
  }
  if (grouped.size() == nodes.size()) {
    return;
  }
  // A chain may not write where an earlier one of its group may still read.
  llvm::DenseMap<SlotId, uint32_t> readers;
  llvm::DenseSet<std::pair<uint32_t, SlotId>> sharing;
  for (uint32_t node = 0; node < nodes.size(); ++node) {
    if (!nodes[node].chain) {
      continue;
    }
    for (const ChainStep &step : nodes[node].chain->steps) {
      for (const ChainOperand &operand : step.operands) {
        if (operand.kind == ChainOperand::Kind::none || slotOf(operand.base) == kNoSlot) {
          continue;
        }
        uint32_t &reader = readers.try_emplace(slotOf(operand.base), node).first->second;
        reader = reader < firsts[node] ? node : reader;
        if (reader != node) {
          sharing.insert({node, slotOf(operand.base)});
        }
      }
    }
  }
  llvm::erase_if(reuses_, [&](const DatedReuse &dated) { return sharing.contains({dated.node, dated.reuse.operand}); });
  for (DatedReuse &dated : reuses_) {
    dated.node = positions[dated.node];
  }
  for (Slot &slot : slots) {
    if (slot.first != UINT32_MAX) {
      slot.first = positions[slot.first];
      slot.last = positions[slot.last];
    }
  }
  for (uint32_t node = 0; node < nodes.size(); ++node) {
    Node &target = grouped[positions[node]];
    if (firsts[node] == node) {
      target = std::move(nodes[node]);
    } else {
      target.together.push_back(std::move(nodes[node].chain));
    }
  }
  nodes = std::move(grouped);
}

void Lowering::compileChains(Node &node) {
  std::vector<CompiledChain> compiled;
  size_t steps = 0;
  int64_t numel = 0;
  node.together.insert(node.together.begin(), std::move(node.chain));
  for (const std::unique_ptr<Chain> &chain : node.together) {
    compiled.push_back(compileChain(*chain, *this));
    workerScratch(compiled.back().scratchBytes);
    node.bytes += chainBytes(*chain);
    steps += chain->steps.size();
    numel += chain->numel;
  }
  std::string count = compiled.size() == 1 ? "chain" : std::to_string(compiled.size()) + " chains";
  const int64_t row = compiled.size() == 1 ? node.together.front()->row : 0;
  node.name = count + " of " + std::to_string(steps) + " over " + std::to_string(numel) +
              (row == 0 ? "" : ", rows of " + std::to_string(row));
  node.kernel =
      compiled.size() == 1 ? std::move(compiled.front().kernel) : std::make_unique<GroupKernel>(std::move(compiled));
  node.together.clear();
}

} // namespace sojourn::runtime
