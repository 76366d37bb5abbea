// SPDX-License-Identifier: Apache-2.0
// Random draws (Philox4x32-10), index ramps, and the rows at positions of an epoch's order.
#include "runtime/Elements.h"
#include "runtime/Philox.h"
#include <algorithm>
#include <cmath>

namespace sojourn::runtime {

namespace {

/// The stream of words of one draw; remembers the block of four it last made.
class WordStream {
public:
  WordStream(const void *seed, int64_t stream) : stream_(static_cast<uint32_t>(stream)) {
    uint64_t bits;
    std::memcpy(&bits, seed, sizeof(bits));
    key0_ = static_cast<uint32_t>(bits);
    key1_ = static_cast<uint32_t>(bits >> 32);
  }
  uint32_t operator[](uint64_t index) {
    uint64_t block = index / 4;
    if (block != block_ || !valid_) {
      words_ = philox({{static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), stream_, 0}}, key0_, key1_);
      block_ = block;
      valid_ = true;
    }
    return words_.word[index % 4];
  }

private:
  uint32_t key0_, key1_, stream_;
  uint64_t block_ = 0;
  bool valid_ = false;
  Words words_{};
};

float uniform32(uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }
double uniform64(uint32_t low, uint32_t high) {
  return static_cast<double>((uint64_t{high} << 32 | low) >> 11) * 0x1p-53;
}

enum class Draw { bits, uniform, normal };

template <Draw draw, typename T>
class Generator final : public BlockStep {
public:
  explicit Generator(int64_t stream) : stream_(stream) {}
  int64_t work() const override { return 8; }
  void run(void *out, const void *seed, const void *, int64_t lo, int64_t n, unsigned) const override {
    WordStream words(seed, stream_);
    T *target = static_cast<T *>(out);
    for (int64_t k = 0; k < n; ++k) {
      uint64_t i = static_cast<uint64_t>(lo + k);
      if constexpr (draw == Draw::bits) {
        target[k] = words[i];
      } else if constexpr (draw == Draw::uniform && sizeof(T) == 4) {
        target[k] = uniform32(words[i]);
      } else if constexpr (draw == Draw::uniform) {
        uint32_t low = words[2 * i];
        target[k] = uniform64(low, words[2 * i + 1]);
      } else if constexpr (sizeof(T) == 4) {
        float u1 = uniform32(words[2 * i]), u2 = uniform32(words[2 * i + 1]);
        target[k] = std::sqrt(-2.0f * std::log(1.0f - u1)) * std::cos(6.2831853071795864769f * u2);
      } else {
        uint32_t low1 = words[4 * i], high1 = words[4 * i + 1];
        double u1 = uniform64(low1, high1), u2 = uniform64(words[4 * i + 2], words[4 * i + 3]);
        target[k] = std::sqrt(-2.0 * std::log(1.0 - u1)) * std::cos(6.2831853071795864769 * u2);
      }
    }
  }

private:
  int64_t stream_;
};

template <Draw draw>
void lowerDraw(Lowering &lowering, const GraphOp &op) {
  int64_t stream = op.integer("stream");
  std::shared_ptr<BlockStep> step;
  switch (lowering.type(op.results[0]).element) {
  case Element::i64: step = std::make_shared<Generator<Draw::bits, int64_t>>(stream); break;
  case Element::f32:
    step = std::make_shared<Generator<draw == Draw::bits ? Draw::uniform : draw, float>>(stream);
    break;
  case Element::f64:
    step = std::make_shared<Generator<draw == Draw::bits ? Draw::uniform : draw, double>>(stream);
    break;
  default:
    lowering.fail("no kernel for element type " + std::string(elementName(lowering.type(op.results[0]).element)));
  }
  lowering.generate(op, std::move(step), op.operands[0], /*cheap=*/false);
}

/// Element i is its index along one dim, as `convert` from i64 would give it.
class Ramp final : public BlockStep {
public:
  Ramp(const Split &split, Element element) : split_(split), width_(byteWidth(element)) {
    if (element != Element::i64) {
      convert_ = conversion(Element::i64, element).first;
    }
  }
  void run(void *out, const void *, const void *, int64_t lo, int64_t n, unsigned) const override {
    constexpr int64_t kPiece = 256;
    int64_t piece[kPiece];
    char *target = static_cast<char *>(out);
    int64_t inner = lo % split_.inner, at = lo / split_.inner % split_.size;
    for (int64_t done = 0; done < n;) {
      int64_t count = std::min(kPiece, n - done);
      for (int64_t k = 0; k < count; ++k) {
        piece[k] = at;
        if (++inner == split_.inner) {
          inner = 0;
          at = at + 1 == split_.size ? 0 : at + 1;
        }
      }
      if (convert_ != nullptr) {
        convert_(target, piece, nullptr, nullptr, count);
      } else {
        std::memcpy(target, piece, static_cast<size_t>(count) * sizeof(int64_t));
      }
      target += static_cast<size_t>(count) * width_;
      done += count;
    }
  }

private:
  Split split_;
  size_t width_;
  VectorFn convert_ = nullptr;
};

void lowerIota(Lowering &lowering, const GraphOp &op) {
  const TensorType &type = lowering.type(op.results[0]);
  Split split(type.dims, op.integer("dim"));
  lowering.generate(op, std::make_shared<Ramp>(split, type.element), Lowering::kNoValue, /*cheap=*/true);
}

/// Each position costs its own draws, of few rows all share theirs: nothing is kept, and nothing is as long as the
/// table.
void lowerSampleRows(Lowering &lowering, const GraphOp &op) {
  constexpr int64_t kPiece = 256, kFewRows = 256;
  int64_t count = lowering.type(op.results[0]).numel();
  Place positions = lowering.dense(op.operands[0]), seed = lowering.dense(op.operands[1]),
        epoch = lowering.dense(op.operands[2]);
  SlotId table = lowering.tableSlot(op.operands[3]);
  Place out = lowering.result(op.results[0]);
  bool isSplit = op.integer("split") != 0;
  std::vector<Side> sides = partOf(op);
  size_t held = sides.size() * sizeof(Side);
  auto body = [=, sides = std::move(sides)](SlotTable slots, int64_t lo, int64_t hi) {
    PartRows part = rowsOfPart(static_cast<const RowSource *>(slots[table])->rows(), sides);
    const int64_t *from = positions.in<int64_t>(slots);
    int64_t *to = out.in<int64_t>(slots);
    uint64_t key = *seed.in<uint64_t>(slots), stream = *epoch.in<uint64_t>(slots);
    const int64_t begin = lo * kPiece, end = std::min(hi * kPiece, count);
    // Walks are long where rows are few: all of them together visit each of 256 numbers once.
    const int64_t ordered = isSplit ? part.parent : part.rows;
    if (ordered <= kFewRows && end - begin > ordered) {
      int64_t order[kFewRows];
      for (int64_t p = 0; p < ordered; ++p) {
        order[p] = rowAt(p, ordered, key, stream);
      }
      for (int64_t i = begin; i < end; ++i) {
        to[i] = from[i] >= 0 && from[i] < part.rows ? order[from[i] + (isSplit ? part.start : 0)] : -1;
      }
      return;
    }
    for (int64_t i = begin; i < end; ++i) {
      to[i] = isSplit ? rowOfSplit(from[i], part, key, stream) : rowAt(from[i], part.rows, key, stream);
    }
  };
  lowering.emit(op, makeKernel(std::move(body), (count + kPiece - 1) / kPiece, held));
}

} // namespace

const LowerFn kernels::lower_iota = lowerIota;
const LowerFn kernels::lower_rng_bits = lowerDraw<Draw::bits>;
const LowerFn kernels::lower_rng_uniform = lowerDraw<Draw::uniform>;
const LowerFn kernels::lower_rng_normal = lowerDraw<Draw::normal>;
const LowerFn kernels::lower_sample_rows = lowerSampleRows;

} // namespace sojourn::runtime
