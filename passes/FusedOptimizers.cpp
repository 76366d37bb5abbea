// SPDX-License-Identifier: Apache-2.0
// Fused optimizer calls (`torch.optim.Adam(fused=True)`) as elementary calls per parameter. As in ATen's CPU kernels,
// step sizes and bias corrections are f64 and halves compute in f32. The kernels skip a weight decay of 0; here it is
// a run-time number, so it is always added.
#include "passes/ExpandForeach.h"
#include "dialect/CapturedOps.h"
#include "dialect/LayoutOps.h"
#include "dialect/SourceOps.h"
#include "dialect/UnaryOps.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace sojourn;

namespace {

/// Elementary calls on tensors that have one shape, of rank 1 at least, and numbers: f64 of rank 0.
class Formula {
public:
  Formula(OpBuilder &builder, AtenOp op) : builder(builder), op(op), loc(op.getLoc()) {}

  RankedTensorType typeOf(Value x) { return cast<RankedTensorType>(x.getType()); }
  Value binary(StringRef base, Value a, Value b) {
    return AtenBuilder(builder, loc, base).arg("self", a).arg("other", b).value(wider(a, b));
  }
  Value add(Value a, Value b) { return binary("add", a, b); }
  Value sub(Value a, Value b) { return binary("sub", a, b); }
  Value mul(Value a, Value b) { return binary("mul", a, b); }
  Value div(Value a, Value b) { return binary("div", a, b); }
  Value unary(StringRef base, Value a) { return AtenBuilder(builder, loc, base).arg("self", a).value(a.getType()); }
  Value lerp(Value a, Value b, Value weight) {
    return AtenBuilder(builder, loc, "lerp").arg("self", a).arg("end", b).arg("weight", weight).value(a.getType());
  }
  Value where(Value condition, Value a, Value b) {
    return AtenBuilder(builder, loc, "where")
        .arg("condition", condition)
        .arg("self", a)
        .arg("other", b)
        .value(a.getType());
  }
  Value literalNumber(double value) {
    return ConstantOp::create(builder, loc, RankedTensorType::get({}, builder.getF64Type()),
                              builder.getF64FloatAttr(value));
  }
  Value one() { return literalNumber(1.0); }
  Value oneMinus(Value x) { return sub(one(), x); }
  Value power(Value base, Value exponent) {
    return AtenBuilder(builder, loc, "pow").arg("self", base).arg("exponent", exponent).value(exponent.getType());
  }
  Value convert(Value x, Type element) {
    auto type = typeOf(x);
    return type.getElementType() == element ? x : ConvertOp::create(builder, loc, type.clone(element), x).getResult();
  }
  /// The type to compute in: f32 for halves.
  Value widen(Value x) {
    Type element = typeOf(x).getElementType();
    return convert(x, element.isF16() || element.isBF16() ? Type(builder.getF32Type()) : element);
  }
  Value reshaped(Value x, ArrayRef<int64_t> shape) {
    auto type = typeOf(x);
    return type.getShape() == shape
               ? x
               : ReshapeOp::create(builder, loc, RankedTensorType::get(shape, type.getElementType()), x).getResult();
  }
  Value scalarized(Value x) { return reshaped(x, {}); }

  /// A float argument (a number or a tensor of one element) as rank-0 f64.
  Value number(StringRef name) {
    Value value = op.getArgOperand(name);
    if (!value) {
      return literalNumber(literal(name));
    }
    return isa<RankedTensorType>(value.getType()) ? convert(scalarized(value), builder.getF64Type())
                                                  : mul(one(), value);
  }
  bool flag(StringRef name) {
    auto attribute = dyn_cast_or_null<BoolAttr>(op.getArg(name));
    return attribute && attribute.getValue();
  }
  SmallVector<Value> list(StringRef name) {
    SmallVector<Value> values;
    if (auto attribute = dyn_cast_or_null<ArrayAttr>(op.getArg(name))) {
      for (Attribute element : attribute) {
        values.push_back(operandOf(op, element));
      }
    }
    return values;
  }

  OpBuilder &builder;
  AtenOp op;
  Location loc;

private:
  double literal(StringRef name) {
    Attribute attribute = op.getArg(name);
    if (auto real = dyn_cast_or_null<FloatAttr>(attribute)) {
      return real.getValueAsDouble();
    }
    auto integer = dyn_cast_or_null<IntegerAttr>(attribute);
    return integer ? static_cast<double>(integer.getInt()) : 0.0;
  }
  /// Type of an operation on a tensor and a rank-0 f64 or number, by torch's rules for floats.
  Type wider(Value a, Value b) {
    auto left = dyn_cast<RankedTensorType>(a.getType());
    auto right = dyn_cast<RankedTensorType>(b.getType());
    return left && (!right || left.getRank() >= right.getRank()) ? left : right;
  }
};

/// One parameter of a group: its tensors in list order, widened. Rewrites them in place.
using Update = function_ref<void(Formula &, MutableArrayRef<Value>, size_t)>;

} // namespace

static FailureOr<SmallVector<Value>> updateGroup(Formula &f, ArrayRef<StringRef> lists, Update update) {
  SmallVector<SmallVector<Value>> values;
  for (StringRef name : lists) {
    SmallVector<Value> list = f.list(name);
    if (!list.empty()) {
      values.push_back(std::move(list));
    }
  }
  size_t count = values.empty() ? 0 : values.front().size();
  for (const SmallVector<Value> &list : values) {
    if (list.size() != count || llvm::is_contained(list, Value())) {
      return f.op.emitError() << "has lists of " << count << " and " << list.size()
                              << " tensors, expected one state tensor per parameter";
    }
  }
  if (f.op->getNumResults() > count * values.size() || (count > 0 && f.op->getNumResults() % count != 0)) {
    return f.op.emitError() << "returns " << f.op->getNumResults() << " tensors for " << values.size() << " lists of "
                            << count << "; a tensor that is in a list twice is not supported yet, pass it once";
  }
  Value overflow, scale = f.op.getArgOperand("grad_scale");
  if (Value found = f.op.getArgOperand("found_inf")) {
    Value flag = f.scalarized(found);
    overflow = AtenBuilder(f.builder, f.loc, "eq")
                   .arg("self", flag)
                   .arg("other", 1)
                   .value(RankedTensorType::get({}, f.builder.getI1Type()));
  }
  SmallVector<Value> results(count * values.size());
  for (size_t i = 0; i < count; ++i) {
    SmallVector<Value> old, now;
    // Rates, which are f64 of rank 0, would decide the type of a parameter of rank 0.
    const bool isNumber = f.typeOf(values.front()[i]).getRank() == 0;
    for (const SmallVector<Value> &list : values) {
      old.push_back(list[i]);
      now.push_back(f.widen(list[i]));
      if (isNumber) {
        now.back() = f.reshaped(now.back(), {1});
      }
    }
    if (scale) {
      now[1] = f.div(now[1], f.scalarized(scale));
    }
    Value unscaled = now[1];
    if (f.flag("maximize")) {
      now[1] = f.unary("neg", now[1]);
    }
    update(f, now, i);
    now[1] = unscaled;
    for (size_t k = 0; k < values.size(); ++k) {
      Value result = f.convert(f.reshaped(now[k], f.typeOf(old[k]).getShape()), f.typeOf(old[k]).getElementType());
      results[k * count + i] = overflow && result != old[k] ? f.where(overflow, old[k], result) : result;
    }
  }
  results.resize(f.op->getNumResults());
  return results;
}

static FailureOr<SmallVector<Value>> expandAdam(Formula &f, bool decoupled) {
  Value lr = f.number("lr"), beta1 = f.number("beta1"), beta2 = f.number("beta2"), decay = f.number("weight_decay"),
        eps = f.number("eps");
  SmallVector<Value> steps = f.list("state_steps");
  bool amsgrad = f.flag("amsgrad");
  Value weight = f.oneMinus(beta1), squareWeight = f.oneMinus(beta2);
  return updateGroup(f, {"self", "grads", "exp_avgs", "exp_avg_sqs", "max_exp_avg_sqs"},
                     [&](Formula &f, MutableArrayRef<Value> x, size_t i) {
                       Value step = f.convert(f.scalarized(steps[i]), f.builder.getF64Type());
                       Value size = f.div(lr, f.oneMinus(f.power(beta1, step)));
                       Value correction = f.unary("sqrt", f.oneMinus(f.power(beta2, step)));
                       Value grad = x[1];
                       if (decoupled) {
                         x[0] = f.mul(x[0], f.oneMinus(f.mul(lr, decay)));
                       } else {
                         grad = f.add(grad, f.mul(x[0], decay));
                       }
                       x[2] = f.lerp(x[2], grad, weight);
                       x[3] = f.add(f.mul(x[3], beta2), f.mul(f.mul(grad, squareWeight), grad));
                       Value square = x[3];
                       if (amsgrad && x.size() > 4) {
                         square = x[4] = f.binary("maximum", x[4], x[3]);
                       }
                       Value denominator = f.add(f.div(f.unary("sqrt", square), correction), eps);
                       x[0] = f.sub(x[0], f.div(f.mul(x[2], size), denominator));
                     });
}

static FailureOr<SmallVector<Value>> expandSgd(Formula &f) {
  Value lr = f.number("lr"), momentum = f.number("momentum"), decay = f.number("weight_decay"),
        kept = f.oneMinus(f.number("dampening"));
  bool first = f.flag("is_first_step"), nesterov = f.flag("nesterov");
  return updateGroup(f, {"self", "grads", "momentum_buffer_list"}, [&](Formula &f, MutableArrayRef<Value> x, size_t) {
    Value grad = f.add(x[1], f.mul(x[0], decay));
    if (x.size() > 2) {
      x[2] = first ? grad : f.add(f.mul(x[2], momentum), f.mul(grad, kept));
      grad = nesterov ? f.add(grad, f.mul(x[2], momentum)) : x[2];
    }
    x[0] = f.sub(x[0], f.mul(grad, lr));
  });
}

static FailureOr<SmallVector<Value>> expandAdagrad(Formula &f) {
  Value lr = f.number("lr"), lrDecay = f.number("lr_decay"), decay = f.number("weight_decay"), eps = f.number("eps");
  SmallVector<Value> steps = f.list("state_steps");
  return updateGroup(f, {"self", "grads", "state_sums", "state_steps"},
                     [&](Formula &f, MutableArrayRef<Value> x, size_t i) {
                       Value step = f.convert(f.scalarized(steps[i]), f.builder.getF64Type());
                       Value size = f.div(lr, f.add(f.one(), f.mul(f.sub(step, f.one()), lrDecay)));
                       Value grad = f.add(x[1], f.mul(x[0], decay));
                       x[2] = f.add(x[2], f.mul(grad, grad));
                       x[0] = f.sub(x[0], f.div(f.mul(grad, size), f.add(f.unary("sqrt", x[2]), eps)));
                     });
}

std::optional<FailureOr<SmallVector<Value>>> sojourn::expandFusedOptimizer(OpBuilder &builder, AtenOp op) {
  StringRef base = op.getBaseName();
  Formula f(builder, op);
  if (base == "_fused_adam" || base == "_fused_adamw") {
    return expandAdam(f, base == "_fused_adamw");
  }
  if (base == "_fused_sgd") {
    return expandSgd(f);
  }
  if (base == "_fused_adagrad") {
    return expandAdagrad(f);
  }
  return std::nullopt;
}
