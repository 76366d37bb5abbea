// SPDX-License-Identifier: Apache-2.0
// Types and attributes: text forms, verifiers, layout questions.
#include "dialect/Base.h"
#include "dialect/Bounds.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace sojourn;

/// Names and types of a table, and an index: a program may read each of thousands of columns.
struct sojourn::detail::TableTypeStorage : TypeStorage {
  using KeyTy = std::tuple<int64_t, ArrayRef<StringAttr>, ArrayRef<Type>>;
  TableTypeStorage(int64_t rows, ArrayRef<StringAttr> names, ArrayRef<Type> types)
      : rows(rows), names(names), types(types) {
    index.reserve(names.size());
    for (auto [name, type] : llvm::zip_equal(names, types)) {
      index.try_emplace(name.getValue(), type);
    }
  }
  bool operator==(const KeyTy &key) const { return key == KeyTy(rows, names, types); }
  static TableTypeStorage *construct(TypeStorageAllocator &allocator, const KeyTy &key) {
    auto [rows, names, types] = key;
    return new (allocator.allocate<TableTypeStorage>())
        TableTypeStorage(rows, allocator.copyInto(names), allocator.copyInto(types));
  }

  int64_t rows;
  ArrayRef<StringAttr> names;
  ArrayRef<Type> types;
  llvm::DenseMap<StringRef, Type> index;
};

#define GET_ATTRDEF_CLASSES
#include "dialect/Attrs.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "dialect/Types.cpp.inc"

void SojournDialect::registerTypes() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialect/Types.cpp.inc"
      >();
}

void SojournDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialect/Attrs.cpp.inc"
      >();
}

LogicalResult OperandAttr::verify(function_ref<InFlightDiagnostic()> emitError, int64_t index) {
  if (index < 0) {
    return emitError() << "operand reference is " << index << ", expected 0 or more";
  }
  return success();
}

LogicalResult ScalarType::verify(function_ref<InFlightDiagnostic()> emitError, Type elementType) {
  if (!elementType.isF64() && !elementType.isSignlessInteger(64) && !elementType.isSignlessInteger(1)) {
    return emitError() << "!sojourn.scalar of " << elementType << ", expected f64, i64 or i1";
  }
  return success();
}

// -- !sojourn.ref ----------------------------------------------------------------------------------------------------

SmallVector<int64_t> RefType::denseStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size());
  int64_t next = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = next;
    // Wrap rather than overflow: the verifier refuses such shapes, but only after the builder ran.
    next = static_cast<int64_t>(static_cast<uint64_t>(next) * static_cast<uint64_t>(std::max<int64_t>(shape[i], 1)));
  }
  return strides;
}

int64_t RefType::getNumElements() const { return checkedNumel(getShape(), bounds::kViewElements).value_or(0); }

bool RefType::isContiguous() const {
  if (getNumElements() == 0) {
    return true;
  }
  SmallVector<int64_t> dense = denseStrides(getShape());
  for (auto [size, stride, expected] : llvm::zip_equal(getShape(), getStrides(), dense)) {
    if (size != 1 && stride != expected) {
      return false;
    }
  }
  return true;
}

bool RefType::isDenseRoot() const {
  if (getOffset() != 0) {
    return false;
  }
  if (getNumElements() == 0) {
    return true;
  }
  SmallVector<std::pair<int64_t, int64_t>> dims; // (stride, size)
  for (auto [size, stride] : llvm::zip_equal(getShape(), getStrides())) {
    if (size != 1) {
      dims.emplace_back(stride, size);
    }
  }
  llvm::sort(dims);
  int64_t next = 1;
  for (auto [stride, size] : dims) {
    if (stride != next) {
      return false;
    }
    next *= size;
  }
  return true;
}

std::optional<int64_t> RefType::getExtent() const {
  if (getNumElements() == 0) {
    return 0;
  }
  int64_t last = getOffset();
  for (auto [size, stride] : llvm::zip_equal(getShape(), getStrides())) {
    int64_t span = 0;
    if (__builtin_mul_overflow(size - 1, stride, &span) || __builtin_add_overflow(last, span, &last)) {
      return std::nullopt;
    }
  }
  int64_t extent = 0;
  if (__builtin_add_overflow(last, int64_t(1), &extent)) {
    return std::nullopt;
  }
  return extent;
}

RankedTensorType RefType::getTensorType() const { return RankedTensorType::get(getShape(), getElementType()); }

LogicalResult RefType::verify(function_ref<InFlightDiagnostic()> emitError, ArrayRef<int64_t> shape, Type elementType,
                              ArrayRef<int64_t> strides, int64_t offset) {
  if (!elementType || !(isCoreElement(elementType) || isa<UnresolvedType>(elementType))) {
    return emitError() << "!sojourn.ref of " << elementType << ", expected an element type of core form";
  }
  if (shape.size() > bounds::kViewRank) {
    return emitError() << "!sojourn.ref of rank " << shape.size() << ", expected at most " << bounds::kViewRank;
  }
  if (!checkedNumel(shape, bounds::kViewElements)) {
    return emitError() << "!sojourn.ref with a negative size or more than " << boundText(bounds::kViewElements)
                       << " elements";
  }
  if (strides.size() != shape.size()) {
    return emitError() << "!sojourn.ref has " << strides.size() << " strides, expected " << shape.size();
  }
  if (llvm::any_of(strides, [](int64_t stride) { return stride < 0 || stride > bounds::kDimension; })) {
    return emitError() << "!sojourn.ref has a stride outside [0, " << boundText(bounds::kDimension) << "]";
  }
  if (offset < 0 || offset > bounds::kDimension) {
    return emitError() << "!sojourn.ref has offset " << offset << ", expected one in [0, "
                       << boundText(bounds::kDimension) << "]";
  }
  return success();
}

Type RefType::parse(AsmParser &parser) {
  SmallVector<int64_t> shape;
  SmallVector<int64_t> strides;
  int64_t offset = 0;
  Type elementType;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() || parser.parseDimensionList(shape, /*allowDynamic=*/false) || parser.parseType(elementType)) {
    return {};
  }
  bool hasStrides = false;
  while (succeeded(parser.parseOptionalComma())) {
    if (!hasStrides && succeeded(parser.parseOptionalKeyword("strides"))) {
      hasStrides = true;
      if (parser.parseEqual() || parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&] {
            return parser.parseInteger(strides.emplace_back());
          })) {
        return {};
      }
    } else if (parser.parseKeyword("offset") || parser.parseEqual() || parser.parseInteger(offset)) {
      return {};
    }
  }
  if (parser.parseGreater()) {
    return {};
  }
  if (!hasStrides) {
    strides = denseStrides(shape);
  }
  return parser.getChecked<RefType>(loc, parser.getContext(), shape, elementType, ArrayRef<int64_t>(strides), offset);
}

void RefType::print(AsmPrinter &printer) const {
  printer << "<";
  printer.printDimensionList(getShape());
  printer << (getShape().empty() ? "" : "x") << getElementType();
  if (getOffset() != 0 || getStrides() != ArrayRef<int64_t>(denseStrides(getShape()))) {
    printer << ", strides = [";
    llvm::interleaveComma(getStrides(), printer);
    printer << "], offset = " << getOffset();
  }
  printer << ">";
}

// -- !sojourn.table --------------------------------------------------------------------------------------------------

int64_t TableType::getRows() const { return getImpl()->rows; }
ArrayRef<StringAttr> TableType::getNames() const { return getImpl()->names; }
ArrayRef<Type> TableType::getTypes() const { return getImpl()->types; }
Type TableType::getColumnType(StringRef name) const { return getImpl()->index.lookup(name); }

/// An element, or a static shape of one that fits the bounds of an entry.
static LogicalResult verifyColumn(function_ref<InFlightDiagnostic()> emitError, StringAttr name, Type type) {
  Type element = type;
  if (auto entry = dyn_cast_if_present<RankedTensorType>(type)) {
    element = entry.getElementType();
    if (entry.getEncoding() || entry.getRank() < 1 || entry.getRank() > static_cast<int64_t>(bounds::kEntryRank) ||
        llvm::any_of(entry.getShape(), [](int64_t size) { return size < 1; })) {
      return emitError() << "!sojourn.table column " << name << " has type " << type << ", expected an entry of 1 to "
                         << bounds::kEntryRank << " sizes of at least 1";
    }
    std::optional<int64_t> numel = checkedNumel(entry.getShape());
    if (!numel || *numel > bounds::kEntryElements) {
      return emitError() << "!sojourn.table column " << name << " has type " << type
                         << ", expected an entry of at most " << bounds::kEntryElements << " elements";
    }
  }
  if (!name || !element || !isCoreElement(element) || isa<ComplexType>(element)) {
    return emitError() << "!sojourn.table column " << name << " has type " << type << ", expected a real element";
  }
  return success();
}

LogicalResult TableType::verify(function_ref<InFlightDiagnostic()> emitError, int64_t rows, ArrayRef<StringAttr> names,
                                ArrayRef<Type> types) {
  if (!ShapedType::isDynamic(rows) && (rows < 0 || rows > bounds::kTableRows)) {
    return emitError() << "!sojourn.table of " << rows << " rows, expected a number in [0, "
                       << boundText(bounds::kTableRows) << "]";
  }
  if (names.size() != types.size()) {
    return emitError() << "!sojourn.table has " << names.size() << " names and " << types.size() << " types";
  }
  if (names.size() > bounds::kColumns) {
    return emitError() << "!sojourn.table of " << names.size() << " columns, expected at most " << bounds::kColumns;
  }
  llvm::StringSet<> seen;
  for (auto [name, type] : llvm::zip_equal(names, types)) {
    if (failed(verifyColumn(emitError, name, type))) {
      return failure();
    }
    if (!seen.insert(name.getValue()).second) {
      return emitError() << "!sojourn.table names column " << name << " twice";
    }
  }
  return success();
}

Type TableType::parse(AsmParser &parser) {
  int64_t rows = 0;
  SmallVector<StringAttr> names;
  SmallVector<Type> types;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess()) {
    return {};
  }
  if (succeeded(parser.parseOptionalQuestion())) {
    rows = ShapedType::kDynamic;
  } else if (parser.parseInteger(rows)) {
    return {};
  } else if (rows < 0) {
    parser.emitError(loc) << "!sojourn.table of " << rows << " rows, expected a number in [0, "
                          << boundText(bounds::kTableRows) << "], or ? for any";
    return {};
  }
  while (succeeded(parser.parseOptionalComma())) {
    std::string name;
    SmallVector<int64_t> sizes;
    Type &type = types.emplace_back();
    if (parser.parseString(&name) || parser.parseColon() || parser.parseDimensionList(sizes, /*allowDynamic=*/false) ||
        parser.parseType(type)) {
      return {};
    }
    if (!sizes.empty()) {
      if (!isCoreElement(type)) {
        parser.emitError(loc) << "!sojourn.table column \"" << name << "\" has entries of " << type
                              << ", expected a real element";
        return {};
      }
      type = RankedTensorType::get(sizes, type);
    }
    names.push_back(StringAttr::get(parser.getContext(), name));
  }
  if (parser.parseGreater()) {
    return {};
  }
  return parser.getChecked<TableType>(loc, parser.getContext(), rows, ArrayRef<StringAttr>(names),
                                      ArrayRef<Type>(types));
}

void TableType::print(AsmPrinter &printer) const {
  printer << "<";
  if (hasStaticRows()) {
    printer << getRows();
  } else {
    printer << "?";
  }
  for (auto [name, type] : llvm::zip_equal(getNames(), getTypes())) {
    printer << ", ";
    printer.printAttributeWithoutType(name);
    printer << " : ";
    if (auto entry = dyn_cast<RankedTensorType>(type)) {
      printer.printDimensionList(entry.getShape());
      printer << "x" << entry.getElementType();
    } else {
      printer << type;
    }
  }
  printer << ">";
}
