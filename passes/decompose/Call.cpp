// SPDX-License-Identifier: Apache-2.0
// Reading the arguments of a recorded ATen call by schema name.
#include "passes/decompose/Call.h"
#include "dialect/CapturedOps.h"
#include "dialect/SourceOps.h"
#include "dialect/UnaryOps.h"

#include "llvm/ADT/STLExtras.h"

#include <numeric>

using namespace mlir;

namespace sojourn::decompose {

/// The type as an error shows it.
static std::string text(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << "'" << type << "'";
  return text;
}

Attribute Call::find(StringRef name) const {
  Attribute attribute = cast<AtenOp>(op).getArg(name);
  return attribute && isa<UnitAttr>(attribute) ? Attribute() : attribute;
}

bool Call::has(StringRef name) const { return static_cast<bool>(find(name)); }

StringRef Call::anyOf(std::initializer_list<StringRef> names) const {
  for (StringRef name : names) {
    if (has(name)) {
      return name;
    }
  }
  return *names.begin();
}

Term Call::operand(Attribute attribute) {
  auto reference = dyn_cast_or_null<OperandAttr>(attribute);
  // An absent term still knows where ops go, so that a formula without it is refused by its first op.
  Value value = reference ? op->getOperand(reference.getIndex()) : Value();
  return {value && isa<RankedTensorType>(value.getType()) ? value : Value(), &emitter};
}

Term Call::in(StringRef name) { return operand(find(name)); }

Term Call::wide(StringRef name) {
  Term x = in(name);
  return x ? widen(x) : x;
}

Term Call::number(StringRef name, Type element) { return number(find(name), element); }

Term Call::entry(StringRef name, size_t index, Type element) {
  auto list = dyn_cast_or_null<ArrayAttr>(find(name));
  return number(list && index < list.size() ? list[index] : Attribute(), element);
}

Term Call::number(Attribute attribute, Type element) {
  if (Term x = operand(attribute)) {
    return convert(x, element);
  }
  if (auto integer = dyn_cast_or_null<IntegerAttr>(attribute)) {
    return constantInt(
        emitter, integer.getType().isInteger(1) ? static_cast<int64_t>(!integer.getValue().isZero()) : integer.getInt(),
        element);
  }
  if (auto real = dyn_cast_or_null<FloatAttr>(attribute)) {
    return constant(emitter, real.getValueAsDouble(), element);
  }
  if (auto number = dyn_cast_or_null<DenseElementsAttr>(attribute)) {
    auto value = number.getSplatValue<std::complex<APFloat>>();
    return complex(emitter, value.real().convertToDouble(), value.imag().convertToDouble(), element);
  }
  return {Value(), &emitter};
}

Term Call::number(StringRef name, Type element, double otherwise) {
  Term x = number(name, element);
  return x ? x : constant(emitter, otherwise, element);
}

SmallVector<Term, 4> Call::optionalList(StringRef name) {
  SmallVector<Term, 4> terms;
  if (auto array = dyn_cast_or_null<ArrayAttr>(find(name))) {
    for (Attribute attribute : array) {
      terms.push_back(operand(attribute));
    }
  } else if (Term single = in(name)) {
    terms.push_back(single);
  }
  return terms;
}

SmallVector<Term, 4> Call::list(StringRef name) {
  SmallVector<Term, 4> terms = optionalList(name);
  llvm::erase_if(terms, [](Term term) { return !term; });
  return terms;
}

std::optional<double> Call::literal(StringRef name) const {
  Attribute attribute = find(name);
  if (auto reference = dyn_cast_or_null<OperandAttr>(attribute)) {
    Value value = op->getOperand(reference.getIndex());
    if (auto cast = value.getDefiningOp<ConvertOp>()) {
      value = cast.getX();
    }
    auto source = value.getDefiningOp<ConstantOp>();
    attribute = source ? source.getValue() : Attribute();
  }
  if (auto integer = dyn_cast_or_null<IntegerAttr>(attribute)) {
    if (integer.getType().isInteger(1)) {
      return integer.getValue().isZero() ? 0.0 : 1.0;
    }
    return integer.getType().isUnsignedInteger() ? static_cast<double>(integer.getValue().getZExtValue())
                                                 : static_cast<double>(integer.getValue().getSExtValue());
  }
  if (auto real = dyn_cast_or_null<FloatAttr>(attribute)) {
    return real.getValueAsDouble();
  }
  return std::nullopt;
}

/// The attribute, which has to say its value.
static Attribute known(Attribute attribute, StringRef name) {
  if (isa_and_nonnull<OperandAttr>(attribute)) {
    refuse("needs " + name + " at compile time, found a number of the run");
  }
  return attribute;
}

int64_t Call::integer(StringRef name, int64_t otherwise) const {
  auto attribute = dyn_cast_or_null<IntegerAttr>(known(find(name), name));
  return attribute ? attribute.getInt() : otherwise;
}

Term Call::runInteger(StringRef name, size_t entry) {
  Attribute attribute = find(name);
  if (auto list = dyn_cast_or_null<ArrayAttr>(attribute)) {
    attribute = entry < list.size() ? list[entry] : Attribute();
  }
  Term x = operand(attribute);
  return x ? convert(x, i64()) : x;
}

int64_t Call::entryInteger(StringRef name, size_t entry) const {
  Attribute attribute = find(name);
  if (auto list = dyn_cast_or_null<ArrayAttr>(attribute)) {
    attribute = entry < list.size() ? list[entry] : Attribute();
  }
  auto integer = dyn_cast_or_null<IntegerAttr>(known(attribute, name));
  if (!integer) {
    refuse("has no entry " + Twine(entry) + " in " + name);
  }
  return integer.getInt();
}

bool Call::boolean(StringRef name, bool otherwise) const {
  auto attribute = dyn_cast_or_null<IntegerAttr>(known(find(name), name));
  return attribute ? !attribute.getValue().isZero() : otherwise;
}

StringRef Call::string(StringRef name) const {
  auto attribute = dyn_cast_or_null<StringAttr>(find(name));
  return attribute ? attribute.getValue() : StringRef();
}

Shape Call::ints(StringRef name) const {
  Attribute attribute = known(find(name), name);
  Shape values;
  if (auto integer = dyn_cast_or_null<IntegerAttr>(attribute)) {
    values.push_back(integer.getInt());
  } else if (auto array = dyn_cast_or_null<ArrayAttr>(attribute)) {
    for (Attribute element : array) {
      values.push_back(cast<IntegerAttr>(known(element, name)).getInt());
    }
  } else if (auto dense = dyn_cast_or_null<DenseI64ArrayAttr>(attribute)) {
    values.assign(dense.asArrayRef().begin(), dense.asArrayRef().end());
  }
  return values;
}

Shape Call::spatial(StringRef name, int64_t rank, Dims otherwise) const {
  Shape values = ints(name);
  if (values.empty()) {
    values.assign(otherwise.begin(), otherwise.end());
  }
  if (values.size() == 1) {
    values = Shape(rank, values.front());
  }
  if (static_cast<int64_t>(values.size()) != rank) {
    refuse("has " + Twine(values.size()) + " entries in " + name + ", expected 1 or " + Twine(rank));
  }
  return values;
}

Shape Call::dims(StringRef name, Term x) const {
  Shape dims = ints(name);
  if (dims.empty()) {
    return allDims(x);
  }
  if (x.rank() == 0) {
    return {};
  }
  for (int64_t &dim : dims) {
    x.dim(dim); // there is one
    dim = wrapDim(dim, x.rank());
  }
  llvm::sort(dims);
  return dims;
}

bool Call::flag(StringRef name, size_t index) const {
  auto array = dyn_cast_or_null<ArrayAttr>(find(name));
  if (!array || index >= array.size()) {
    return false;
  }
  auto attribute = dyn_cast<IntegerAttr>(array[index]);
  return attribute && !attribute.getValue().isZero();
}

bool Call::wants(size_t i) const {
  return i < op->getNumResults() && isa<RankedTensorType>(op->getResult(i).getType());
}

RankedTensorType Call::result(size_t i) const {
  auto type = i < op->getNumResults() ? dyn_cast<RankedTensorType>(op->getResult(i).getType()) : RankedTensorType();
  if (!type) {
    refuse("has no tensor as result #" + Twine(i));
  }
  return type;
}

LogicalResult Call::record(Results &results) {
  if (results.terms.size() != op->getNumResults()) {
    return fail("decomposes to " + Twine(results.terms.size()) + " results, expected the recorded " +
                Twine(op->getNumResults()));
  }
  for (auto [result, term] : llvm::zip(op->getResults(), results.terms)) {
    auto type = dyn_cast<RankedTensorType>(result.getType());
    if (result.use_empty()) {
      term = {};
    } else if (!type) {
      return fail("has an undefined result in use");
    } else if (!term) {
      return fail("decomposes to nothing, expected the recorded " + text(type));
    } else {
      Term given = convert(term, type.getElementType());
      term = given.shape() != type.getShape() && given.rank() == 0 ? broadcastTo(given, type.getShape()) : given;
      if (term.type() != type) {
        return fail("decomposes to " + text(given.type()) + ", expected the recorded " + text(type));
      }
    }
  }
  return success();
}

Results Call::decompose(Decomposition decomposition) {
  try {
    Results results = decomposition(*this);
    if (!results || failed(record(results))) {
      return failure();
    }
    return results;
  } catch (const Refusal &refusal) {
    return fail(refusal.reason);
  }
}

void Table::add(std::initializer_list<StringRef> names, Decomposition d) {
  for (StringRef name : names) {
    [[maybe_unused]] bool fresh = entries.try_emplace(name, d).second;
    assert(fresh && "an ATen operator is decomposed in one place only");
  }
}

Decomposition Table::lookup(StringRef base) const { return entries.lookup(base); }

} // namespace sojourn::decompose
