// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/parties/RandomStep.h"

#include "dialect/Build.h"
#include "dialect/ContractionOps.h"
#include "dialect/CoreForm.h"
#include "dialect/ElementwiseOps.h"
#include "dialect/IndexOps.h"
#include "dialect/LayoutOps.h"
#include "dialect/ReductionOps.h"
#include "dialect/SourceOps.h"
#include "dialect/UnaryOps.h"
#include "dialect/WindowOps.h"
#include "passes/parties/Placement.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"

#include <cmath>

using namespace mlir;

namespace sojourn::test {

namespace {

class Writer {
public:
  Writer(MLIRContext &context, std::mt19937_64 &dice, unsigned parties)
      : builder_(&context), location_(builder_.getUnknownLoc()), dice_(dice), parties_(parties) {}

  RandomStep write(size_t ops, bool isScaled) {
    RandomStep made;
    made.module = ModuleOp::create(location_);
    (*made.module)->setAttr(kPromotionAttr, builder_.getStringAttr("torch"));
    (*made.module)->setAttr(kPartiesAttr, builder_.getI64IntegerAttr(parties_));
    builder_.setInsertionPointToEnd(made.module->getBody());
    step_ = func::FuncOp::create(builder_, location_, kStepName, builder_.getFunctionType({}, {}));
    step_.addEntryBlock();
    builder_.setInsertionPointToEnd(&step_.getBody().front());
    addArguments();
    if (isScaled) {
      addScaled();
    }
    for (size_t i = 0; i < ops; ++i) {
      SmallVector<Value> made_;
      Operation *before = step_.getBody().front().empty() ? nullptr : &step_.getBody().front().back();
      addOp();
      if (!isPlaced()) {
        ++made.refused;
        while (!step_.getBody().front().empty() && &step_.getBody().front().back() != before) {
          step_.getBody().front().back().erase();
        }
        values_.resize(known_);
      }
      known_ = values_.size();
    }
    addResults();
    return made;
  }

private:
  int64_t upTo(int64_t count) { return std::uniform_int_distribution<int64_t>(0, count - 1)(dice_); }
  bool chance(double p) { return std::bernoulli_distribution(p)(dice_); }
  Type f64() { return builder_.getF64Type(); }
  static ArrayRef<int64_t> shapeOf(Value value) { return cast<RankedTensorType>(value.getType()).getShape(); }
  static bool isReal(Value value) { return cast<RankedTensorType>(value.getType()).getElementType().isF64(); }
  RankedTensorType typeOf(ArrayRef<int64_t> shape) { return RankedTensorType::get(shape, f64()); }

  /// Rows of the same batch at all roles, as one tensor in parts, as tensors of roles, and tensors that all know.
  void addArguments() {
    std::vector<int64_t> rows;
    int64_t all = 0;
    for (unsigned role = 0; role < parties_; ++role) {
      rows.push_back(1 + upTo(4));
      all += rows.back();
    }
    SmallVector<Type> types;
    SmallVector<DictionaryAttr> attributes;
    auto add = [&](ArrayRef<int64_t> shape, StringRef name, Attribute value, bool isReal = true) {
      types.push_back(RankedTensorType::get(shape, isReal ? f64() : builder_.getI64Type()));
      NamedAttrList list;
      list.set(kKindAttr, builder_.getStringAttr("state"));
      if (value) {
        list.set(name, value);
      }
      attributes.push_back(list.getDictionary(builder_.getContext()));
      values_.push_back(step_.getBody().front().addArgument(types.back(), location_));
    };
    SmallVector<int64_t> roles;
    for (unsigned role = 0; role < parties_; ++role) {
      roles.push_back(role);
    }
    const int64_t width = 2 + upTo(3);
    auto parts = [&](int64_t stride) -> Attribute {
      return PartsAttr::get(builder_.getContext(), roles, rows, stride);
    };
    add({all, width}, kPartsAttr, parts(width));
    add({all}, kPartsAttr, parts(1), /*isReal=*/false);
    add({2, all, width}, kPartsAttr, parts(width));
    // In each row two elements of a dim, or two segments at a role.
    if (chance(0.5) || rows[0] == 1) {
      add({all * 2, width}, kPartsAttr, parts(2 * width));
    } else {
      SmallVector<int64_t> parted(roles), counts(rows.begin(), rows.end());
      parted.push_back(0);
      counts.front() -= 1;
      counts.push_back(1);
      add({all, width}, kPartsAttr, PartsAttr::get(builder_.getContext(), parted, counts, width));
    }
    for (unsigned role = 0; role < parties_; ++role) {
      add({rows[role], width}, kPartyAttr, builder_.getI64IntegerAttr(role));
    }
    add({all, width}, {}, {});
    add({width, width}, {}, {});
    add({width}, {}, {});
    add({}, {}, {});
    add({all}, {}, {}, /*isReal=*/false);
    step_.setType(builder_.getFunctionType(types, {}));
    step_.setAllArgAttrs(attributes);
    // The roles' own rows, joined.
    SmallVector<Value> own(llvm::ArrayRef<Value>(values_).slice(4, parties_));
    push<ConcatOp>(own, 0);
    known_ = values_.size();
  }

  /// Rows divided by how many of them a mask leaves: a power of two, so that all stays exact.
  void addScaled() {
    const int64_t rows = shapeOf(values_[0])[0];
    Value sums = ReduceSumOp::create(builder_, location_, values_[0], SmallVector<int64_t>({1}));
    Value iota = IotaOp::create(builder_, location_, RankedTensorType::get({rows}, builder_.getI64Type()), 0);
    Value nothing = MulOp::create(builder_, location_, sums, constant(0));
    Value position =
        AddOp::create(builder_, location_, nothing, ConvertOp::create(builder_, location_, typeOf({rows}), iota));
    const auto left = static_cast<double>(int64_t{1} << upTo(static_cast<int64_t>(std::log2(rows)) + 1));
    Value mask = CompareOp::create(builder_, location_, position, constant(left), "lt");
    Value other = CompareOp::create(builder_, location_, sums, constant(1), "lt");
    Value ones = ConvertOp::create(builder_, location_, typeOf({rows}), mask);
    Value count = ReduceSumOp::create(builder_, location_, ones, SmallVector<int64_t>({0}));
    for (int64_t more = 1 + upTo(3); more > 0; --more) {
      Value quotient =
          DivOp::create(builder_, location_, constant(std::ldexp(chance(0.5) ? 1 : -1, int(upTo(5)) - 2)), count);
      Value scaled = chance(0.5) ? push<DivOp>(sums, count) : push<MulOp>(sums, quotient);
      if (chance(0.7)) {
        scaled = push<SelectOp>(chance(0.8) ? mask : other, scaled, constant(0));
      }
      pushAs<BroadcastOp>(values_[0].getType(), scaled, builder_.getDenseI64ArrayAttr({0}));
    }
    known_ = values_.size();
  }

  void addResults() {
    SmallVector<Value> results;
    SmallVector<DictionaryAttr> attributes;
    for (Value value : values_) {
      if (value.getDefiningOp() && (value.use_empty() || chance(0.2))) {
        results.push_back(value);
        attributes.push_back(
            builder_.getDictionaryAttr(builder_.getNamedAttr(kResultAttr, builder_.getStringAttr("keep"))));
      }
    }
    addCommits(results, attributes);
    func::ReturnOp::create(builder_, location_, results);
    step_.setType(builder_.getFunctionType(step_.getArgumentTypes(), ValueRange(results).getTypes()));
    step_.setAllResultAttrs(attributes);
  }

  /// Values that all roles know, or one role has, written to tensors that all have.
  void addCommits(SmallVectorImpl<Value> &results, SmallVectorImpl<DictionaryAttr> &attributes) {
    func::ReturnOp exit = func::ReturnOp::create(builder_, location_);
    auto placement = parties::Placement::of(step_);
    exit.erase();
    for (BlockArgument argument : step_.getArguments()) {
      SmallVector<Value> fitting;
      for (Value value : values_) {
        if (value.getDefiningOp() && value.getType() == argument.getType() && !(*placement)->whereOf(value).isParts()) {
          fitting.push_back(value);
        }
      }
      if (!(*placement)->whereOf(argument).isAll() || fitting.empty() || chance(0.3)) {
        continue;
      }
      results.push_back(fitting[static_cast<size_t>(upTo(static_cast<int64_t>(fitting.size())))]);
      NamedAttrList list;
      list.set(kResultAttr, builder_.getStringAttr("commit"));
      list.set(kTargetAttr, builder_.getI64IntegerAttr(argument.getArgNumber()));
      attributes.push_back(list.getDictionary(builder_.getContext()));
    }
  }

  bool isPlaced() {
    ScopedDiagnosticHandler quiet(builder_.getContext(), [](Diagnostic &) { return success(); });
    func::ReturnOp exit = func::ReturnOp::create(builder_, location_);
    const bool isFine = succeeded(parties::Placement::of(step_));
    exit.erase();
    return isFine;
  }

  template <typename Op, typename... Args>
  Value push(Args &&...args) {
    std::string reason;
    Op op = tryCreate<Op>(builder_, location_, reason, std::forward<Args>(args)...);
    if (!op) {
      return {};
    }
    return keep(op->getResult(0));
  }
  template <typename Op, typename... Args>
  Value pushAs(Type type, Args &&...args) {
    return keep(Op::create(builder_, location_, type, std::forward<Args>(args)...)->getResult(0));
  }
  Value keep(Value value) {
    ScopedDiagnosticHandler quiet(builder_.getContext(), [](Diagnostic &) { return success(); });
    if (failed(verify(value.getDefiningOp()))) {
      value.getDefiningOp()->erase();
      return {};
    }
    values_.push_back(value);
    return value;
  }

  /// Later ones more often.
  Value any() {
    const auto count = static_cast<int64_t>(known_);
    return values_[static_cast<size_t>(chance(0.5) ? upTo(count) : std::max(upTo(count), upTo(count)))];
  }
  Value real() {
    for (int i = 0; i < 50; ++i) {
      if (Value value = any(); isReal(value)) {
        return value;
      }
    }
    return values_[0];
  }
  Value realOfRank(size_t least) {
    for (int i = 0; i < 50; ++i) {
      if (Value value = real(); shapeOf(value).size() >= least) {
        return value;
      }
    }
    return values_[0];
  }
  Value sameShape(Value like) {
    for (int i = 0; i < 50; ++i) {
      if (Value value = real(); value.getType() == like.getType()) {
        return value;
      }
    }
    return like;
  }
  int64_t dimOf(Value value) { return upTo(static_cast<int64_t>(shapeOf(value).size())); }

  Value constant(double number) {
    return ConstantOp::create(builder_, location_, typeOf({}), builder_.getF64FloatAttr(number));
  }
  /// Keeps numbers small: products are followed by a remainder.
  void bound(Value value) {
    if (value && isReal(value)) {
      values_.pop_back();
      pushAs<RemOp>(value.getType(), value, constant(16));
    }
  }

  void addOp() {
    switch (upTo(22)) {
    case 0: elementwise(); break;
    case 1: elementwise(); break;
    case 2: compareAndSelect(); break;
    case 3: reshape(); break;
    case 4: transpose(); break;
    case 5: slice(); break;
    case 6: concat(); break;
    case 7: sum(); break;
    case 8: sum(); break;
    case 9: dot(); break;
    case 10: dot(); break;
    case 11: broadcast(); break;
    case 12: alongDim(); break;
    case 13: takeOrPut(); break;
    case 14: takeOrPutAlong(); break;
    case 15: convolve(); break;
    case 16: padOrReverse(); break;
    case 17: update(); break;
    case 18: extreme(); break;
    case 19: dynamic(); break;
    case 20: pool(); break;
    default: random(); break;
    }
  }

  void elementwise() {
    Value a = real();
    Value b = chance(0.2) ? values_[values_.size() > 4 + parties_ + 3 ? 4 + parties_ + 3 : 0] : sameShape(a);
    if (b.getType() != a.getType() && !shapeOf(b).empty()) {
      b = a;
    }
    switch (upTo(7)) {
    case 0: pushAs<NegOp>(a.getType(), a); break;
    case 1: pushAs<AbsOp>(a.getType(), a); break;
    case 2: push<AddOp>(a, b); break;
    case 3: push<SubOp>(a, b); break;
    case 4: push<MaxOp>(a, b); break;
    case 5: push<SubOp>(b, a); break;
    default: bound(push<MulOp>(a, b)); break;
    }
  }
  void compareAndSelect() {
    Value a = real(), b = sameShape(a);
    std::string reason;
    auto flags = tryCreate<CompareOp>(builder_, location_, reason, a, b, "lt");
    if (flags) {
      push<SelectOp>(flags.getResult(), a, chance(0.5) ? b : constant(chance(0.5) ? 3 : 0));
    }
  }
  void reshape() {
    Value x = realOfRank(1);
    SmallVector<int64_t> shape(shapeOf(x));
    const auto dim = static_cast<size_t>(dimOf(x));
    if (chance(0.5) && dim + 1 < shape.size()) {
      shape[dim] *= shape[dim + 1];
      shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(dim) + 1);
    } else if (shape[dim] % 2 == 0) {
      const int64_t half = shape[dim] / 2;
      shape[dim] = chance(0.5) ? 2 : half;
      shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(dim) + 1, shape[dim] == 2 ? half : 2);
    } else {
      shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(dim), 1);
    }
    if (shape.size() <= 5) {
      pushAs<ReshapeOp>(typeOf(shape), x);
    }
  }
  void transpose() {
    Value x = realOfRank(2);
    SmallVector<int64_t> order;
    for (size_t i = 0; i < shapeOf(x).size(); ++i) {
      order.push_back(static_cast<int64_t>(i));
    }
    std::shuffle(order.begin(), order.end(), dice_);
    push<TransposeOp>(x, order);
  }
  void slice() {
    Value x = realOfRank(1);
    SmallVector<int64_t> start, limit, stride;
    for (int64_t size : shapeOf(x)) {
      const bool isWhole = chance(0.5) || size == 0;
      start.push_back(isWhole ? 0 : upTo(size));
      limit.push_back(isWhole ? size : start.back() + upTo(size - start.back() + 1));
      stride.push_back(isWhole ? 1 : 1 + upTo(3));
    }
    push<SliceOp>(x, start, limit, stride);
  }
  void concat() {
    Value x = realOfRank(1);
    SmallVector<Value> all{x};
    for (int64_t i = upTo(3); i >= 0; --i) {
      all.push_back(sameShape(x));
    }
    std::shuffle(all.begin(), all.end(), dice_);
    if (cast<RankedTensorType>(x.getType()).getNumElements() < 200) {
      push<ConcatOp>(all, dimOf(x));
    }
  }
  SmallVector<int64_t> someDims(Value x) {
    SmallVector<int64_t> dims;
    for (size_t i = 0; i < shapeOf(x).size(); ++i) {
      if (chance(0.5)) {
        dims.push_back(static_cast<int64_t>(i));
      }
    }
    return dims;
  }
  void sum() {
    Value x = realOfRank(1);
    bound(push<ReduceSumOp>(x, someDims(x)));
  }
  void dot() {
    Value a = realOfRank(1), b = realOfRank(1);
    const int64_t i = dimOf(a);
    for (size_t j = 0; j < shapeOf(b).size(); ++j) {
      if (shapeOf(b)[j] != shapeOf(a)[static_cast<size_t>(i)]) {
        continue;
      }
      SmallVector<int64_t> batchA, batchB, left{i}, right{static_cast<int64_t>(j)};
      if (chance(0.3)) {
        std::swap(batchA, left);
        std::swap(batchB, right);
      }
      const int64_t work =
          cast<RankedTensorType>(a.getType()).getNumElements() * cast<RankedTensorType>(b.getType()).getNumElements();
      if (work < 20000 && shapeOf(a).size() + shapeOf(b).size() < 7) {
        auto made = DotOp::create(builder_, location_, a, b, batchA, batchB, left, right);
        bound(keep(made.getResult()));
      }
      return;
    }
  }
  void broadcast() {
    Value x = real();
    SmallVector<int64_t> shape, dims;
    for (int64_t size : shapeOf(x)) {
      if (chance(0.3)) {
        shape.push_back(chance(0.5) ? 2 : shapeOf(values_[0])[0]);
      }
      dims.push_back(static_cast<int64_t>(shape.size()));
      shape.push_back(size == 1 && chance(0.5) ? shapeOf(values_[0])[0] : size);
    }
    if (shape.size() <= 4 && typeOf(shape).getNumElements() < 600) {
      pushAs<BroadcastOp>(typeOf(shape), x, dims);
    }
  }
  void alongDim() {
    Value x = realOfRank(1);
    const int64_t dim = dimOf(x);
    if (chance(0.5)) {
      bound(pushAs<CumSumOp>(x.getType(), x, builder_.getI64IntegerAttr(dim)));
    } else {
      push<SortOp>(x, dim, chance(0.5));
    }
  }
  Value index() {
    for (int i = 0; i < 50; ++i) {
      if (Value value = any(); cast<RankedTensorType>(value.getType()).getElementType().isInteger(64)) {
        return value;
      }
    }
    return values_[1];
  }
  void takeOrPut() {
    Value x = realOfRank(1), at = index();
    const int64_t dim = dimOf(x);
    SmallVector<int64_t> shape(shapeOf(x));
    shape.erase(shape.begin() + dim);
    shape.insert(shape.begin() + dim, shapeOf(at).begin(), shapeOf(at).end());
    if (shape.size() > 5 || typeOf(shape).getNumElements() > 600) {
      return;
    }
    if (chance(0.4)) {
      push<TakeOp>(x, at, dim);
      return;
    }
    for (int i = 0; i < 50; ++i) {
      if (Value u = real(); u.getType() == typeOf(shape)) {
        Value onto = chance(0.8) ? BroadcastOp::create(builder_, location_, x.getType(), constant(0),
                                                       builder_.getDenseI64ArrayAttr({}))
                                       .getResult()
                                 : x;
        bound(pushAs<PutOp>(x.getType(), onto, at, u, dim, "add"));
        return;
      }
    }
  }
  void takeOrPutAlong() {
    Value x = realOfRank(1);
    std::string reason;
    const int64_t dim = dimOf(x);
    auto at = tryCreate<ArgMaxOp>(builder_, location_, reason, x, dim);
    if (!at || shapeOf(x)[static_cast<size_t>(dim)] == 0) {
      return;
    }
    SmallVector<int64_t> shape(shapeOf(x));
    shape[static_cast<size_t>(dim)] = 1;
    Value index = ReshapeOp::create(builder_, location_, RankedTensorType::get(shape, builder_.getI64Type()), at);
    if (chance(0.5)) {
      push<TakeAlongOp>(sameShape(x), index, dim);
    } else {
      Value update =
          BroadcastOp::create(builder_, location_, typeOf(shape), constant(7), builder_.getDenseI64ArrayAttr({}));
      Value onto = sameShape(x);
      pushAs<PutAlongOp>(onto.getType(), onto, index, update, builder_.getI64IntegerAttr(dim),
                         builder_.getStringAttr("set"));
    }
  }
  void convolve() {
    Value x = realOfRank(3);
    if (shapeOf(x).size() != 3 || shapeOf(x)[1] == 0 || shapeOf(x)[2] == 0) {
      return;
    }
    const SmallVector<int64_t> one{1}, padding{1};
    SmallVector<int64_t> shape{2, shapeOf(x)[1], 2};
    Value weight =
        BroadcastOp::create(builder_, location_, typeOf(shape), values_[4 + parties_ + 2],
                            builder_.getDenseI64ArrayAttr({shapeOf(values_[4 + parties_ + 2])[0] == 2 ? 0 : 1}));
    if (failed(verifyQuietly(weight))) {
      return;
    }
    Value y = push<ConvOp>(x, weight, one, padding, one, 1);
    if (!y) {
      return;
    }
    bound(y);
    y = values_.back();
    if (chance(0.5)) {
      bound(pushAs<ConvGradWeightOp>(typeOf(shape), y, x, one, padding, one, 1));
    } else {
      bound(pushAs<ConvGradInputOp>(x.getType(), y, weight, one, padding, one, 1));
    }
  }
  LogicalResult verifyQuietly(Value value) {
    ScopedDiagnosticHandler quiet(builder_.getContext(), [](Diagnostic &) { return success(); });
    if (succeeded(verify(value.getDefiningOp()))) {
      return success();
    }
    value.getDefiningOp()->erase();
    return failure();
  }
  void padOrReverse() {
    Value x = realOfRank(1);
    if (chance(0.5)) {
      pushAs<ReverseOp>(x.getType(), x, someDims(x));
      return;
    }
    SmallVector<int64_t> low, high, interior;
    for (size_t i = 0; i < shapeOf(x).size(); ++i) {
      const bool pads = chance(0.4);
      low.push_back(pads ? upTo(3) - 1 : 0);
      high.push_back(pads ? upTo(3) - 1 : 0);
      interior.push_back(pads && chance(0.3) ? 1 : 0);
    }
    if (cast<RankedTensorType>(x.getType()).getNumElements() < 200) {
      push<PadOp>(x, constant(5), low, high, interior);
    }
  }
  void update() {
    Value x = realOfRank(1), y = sameShape(x);
    SmallVector<int64_t> start, limit, stride(shapeOf(x).size(), 1);
    for (int64_t size : shapeOf(x)) {
      const bool isWhole = chance(0.6) || size == 0;
      start.push_back(isWhole ? 0 : upTo(size));
      limit.push_back(isWhole ? size : start.back() + 1 + upTo(size - start.back()));
    }
    Value window = push<SliceOp>(y, start, limit, stride);
    if (window) {
      pushAs<UpdateSliceOp>(x.getType(), x, window, start, stride);
    }
  }
  void extreme() {
    Value x = realOfRank(1);
    if (chance(0.5)) {
      push<ReduceMaxOp>(x, someDims(x));
    } else {
      push<ArgMaxOp>(x, dimOf(x));
    }
  }
  void dynamic() {
    Value x = realOfRank(2);
    Value at = ConstantOp::create(builder_, location_, RankedTensorType::get({}, builder_.getI64Type()),
                                  builder_.getI64IntegerAttr(upTo(3)));
    SmallVector<int64_t> dims, sizes;
    SmallVector<Value> starts;
    for (size_t i = 0; i < shapeOf(x).size(); ++i) {
      if (chance(0.6)) {
        const int64_t size = shapeOf(x)[i];
        dims.push_back(static_cast<int64_t>(i));
        sizes.push_back(chance(0.6) ? size : upTo(size + 1));
        starts.push_back(at);
      }
    }
    Value part = push<DynamicSliceOp>(x, starts, dims, sizes);
    if (part && chance(0.5)) {
      pushAs<DynamicUpdateSliceOp>(x.getType(), x, part, starts, dims);
    }
  }
  void pool() {
    Value x = realOfRank(3);
    if (shapeOf(x).size() == 3 && shapeOf(x)[2] >= 2) {
      const SmallVector<int64_t> two{2}, none{0}, one{1};
      if (chance(0.5)) {
        bound(push<PoolSumOp>(x, two, one, none, one));
      } else {
        push<PoolMaxOp>(x, two, one, none, one);
      }
    }
  }
  void random() {
    Value seed = ConstantOp::create(builder_, location_, RankedTensorType::get({}, builder_.getI64Type()),
                                    builder_.getI64IntegerAttr(upTo(1000)));
    Value bits =
        RngBitsOp::create(builder_, location_, RankedTensorType::get(shapeOf(real()), builder_.getI64Type()), seed, 0);
    Value real = ConvertOp::create(builder_, location_, typeOf(shapeOf(bits)), bits);
    pushAs<RemOp>(real.getType(), real, constant(8));
  }

  OpBuilder builder_;
  Location location_;
  std::mt19937_64 &dice_;
  unsigned parties_;
  func::FuncOp step_;
  std::vector<Value> values_;
  size_t known_ = 0;
};

} // namespace

RandomStep randomStep(MLIRContext &context, std::mt19937_64 &dice, unsigned parties, size_t ops, bool isScaled) {
  return Writer(context, dice, parties).write(ops, isScaled);
}

} // namespace sojourn::test
