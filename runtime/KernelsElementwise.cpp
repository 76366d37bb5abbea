// SPDX-License-Identifier: Apache-2.0
// Elementwise ops: which step of a chain each becomes.
#include "runtime/Lower.h"

namespace sojourn::runtime {

namespace {

template <EOp kind>
void lowerElementwise(Lowering &lowering, const GraphOp &op) {
  lowering.elementwise(op, kind);
}

void lowerCompare(Lowering &lowering, const GraphOp &op) {
  const std::string &predicate = op.string("predicate");
  static constexpr std::pair<llvm::StringLiteral, EOp> predicates[] = {
      {"eq", EOp::eq}, {"ne", EOp::ne}, {"lt", EOp::lt}, {"le", EOp::le}, {"gt", EOp::gt}, {"ge", EOp::ge}};
  for (const auto &[name, kind] : predicates) {
    if (name == predicate) {
      lowering.elementwise(op, kind);
      return;
    }
  }
  lowering.fail("unknown predicate '" + predicate + "'");
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

void addElementwiseKernels(llvm::StringMap<LowerFn> &table) {
  table["constant"] = lowerConstant;
  table["convert"] = lowerConvert;
  table["bitcast"] = lowerBitcast;
  table["compare"] = lowerCompare;
  table["select"] = lowerElementwise<EOp::select>;
  table["neg"] = lowerElementwise<EOp::neg>;
  table["abs"] = lowerElementwise<EOp::abs>;
  table["sign"] = lowerElementwise<EOp::sign>;
  table["floor"] = lowerElementwise<EOp::floor>;
  table["ceil"] = lowerElementwise<EOp::ceil>;
  table["round"] = lowerElementwise<EOp::round>;
  table["not"] = lowerElementwise<EOp::bitNot>;
  table["sqrt"] = lowerElementwise<EOp::sqrt>;
  table["exp"] = lowerElementwise<EOp::exp>;
  table["expm1"] = lowerElementwise<EOp::expm1>;
  table["log"] = lowerElementwise<EOp::log>;
  table["log1p"] = lowerElementwise<EOp::log1p>;
  table["sin"] = lowerElementwise<EOp::sin>;
  table["cos"] = lowerElementwise<EOp::cos>;
  table["tanh"] = lowerElementwise<EOp::tanh>;
  table["logistic"] = lowerElementwise<EOp::logistic>;
  table["erf"] = lowerElementwise<EOp::erf>;
  table["erfc"] = lowerElementwise<EOp::erfc>;
  table["erfinv"] = lowerElementwise<EOp::erfinv>;
  table["lgamma"] = lowerElementwise<EOp::lgamma>;
  table["digamma"] = lowerElementwise<EOp::digamma>;
  table["add"] = lowerElementwise<EOp::add>;
  table["sub"] = lowerElementwise<EOp::sub>;
  table["mul"] = lowerElementwise<EOp::mul>;
  table["div"] = lowerElementwise<EOp::div>;
  table["rem"] = lowerElementwise<EOp::rem>;
  table["pow"] = lowerElementwise<EOp::pow>;
  table["atan2"] = lowerElementwise<EOp::atan2>;
  table["max"] = lowerElementwise<EOp::max>;
  table["min"] = lowerElementwise<EOp::min>;
  table["and"] = lowerElementwise<EOp::bitAnd>;
  table["or"] = lowerElementwise<EOp::bitOr>;
  table["xor"] = lowerElementwise<EOp::bitXor>;
  table["shl"] = lowerElementwise<EOp::shl>;
  table["shr"] = lowerElementwise<EOp::shr>;
}

} // namespace sojourn::runtime
