// SPDX-License-Identifier: Apache-2.0
// Elementwise ops: which step of a chain each becomes.
#include "runtime/Lower.h"

#include <tuple>

namespace sojourn::runtime {

namespace {

template <EOp kind>
void lowerElementwise(Lowering &lowering, const GraphOp &op) {
  lowering.elementwise(op, kind);
}

void lowerCompare(Lowering &lowering, const GraphOp &op) {
  const std::string &predicate = op.string("predicate");
  static constexpr std::pair<llvm::StringLiteral, EOp> predicates[] = {
#define SOJOURN_ELEMENTWISE(name, op, arity, kernel, library, libm)
#define SOJOURN_PREDICATE(name, library) {#name, EOp::name},
#define SOJOURN_MOVE(name, arity, library)
#define SOJOURN_FUNCTION(name, arity)
#include "runtime/Elementwise.def"
  };
  for (const auto &[name, kind] : predicates) {
    if (name == predicate) {
      lowering.elementwise(op, kind);
      return;
    }
  }
  lowering.fail("unknown predicate '" + predicate + "'");
}

void lowerSpecial(Lowering &lowering, const GraphOp &op) {
  static constexpr std::tuple<llvm::StringLiteral, size_t, EOp> functions[] = {
#define SOJOURN_SPECIAL(name, arity) {#name, arity, EOp::name},
#include "dialect/SpecialFunctions.def"
  };
  const std::string &function = op.string("function");
  for (const auto &[name, arity, kind] : functions) {
    if (name == function && arity == op.operands.size()) {
      lowering.elementwise(op, kind);
      return;
    }
  }
  lowering.fail("unknown special function '" + function + "'");
}

void lowerConvert(Lowering &lowering, const GraphOp &op) {
  ValueId operand = op.operands[0], result = op.results[0];
  if (lowering.type(operand).element == lowering.type(result).element) {
    lowering.alias(result, operand, lowering.offsetOf(operand), lowering.stridesOf(operand));
    return;
  }
  lowering.elementwise(op, EOp::convert);
}

/// Equal width: the same memory read as another type.
void lowerBitcast(Lowering &lowering, const GraphOp &op) {
  ValueId operand = op.operands[0];
  if (byteWidth(lowering.type(operand).element) != byteWidth(lowering.type(op.results[0]).element)) {
    lowering.fail("bitcast between element types of different width");
  }
  lowering.alias(op.results[0], operand, lowering.offsetOf(operand), lowering.stridesOf(operand));
}

void lowerConstant(Lowering &lowering, const GraphOp &op) { lowering.constant(op); }

} // namespace

const LowerFn kernels::lower_constant = lowerConstant;
const LowerFn kernels::lower_convert = lowerConvert;
const LowerFn kernels::lower_bitcast = lowerBitcast;
const LowerFn kernels::lower_compare = lowerCompare;
const LowerFn kernels::lower_special = lowerSpecial;
const LowerFn kernels::lower_special_binary = lowerSpecial;
const LowerFn kernels::lower_select = lowerElementwise<EOp::select>;
#define SOJOURN_ELEMENTWISE(name, op, arity, kernel, library, libm)                                                    \
  const LowerFn kernels::lower_##op = lowerElementwise<EOp::name>;
#define SOJOURN_PREDICATE(name, library)
#define SOJOURN_MOVE(name, arity, library)
#define SOJOURN_FUNCTION(name, arity)
#include "runtime/Elementwise.def"

} // namespace sojourn::runtime
