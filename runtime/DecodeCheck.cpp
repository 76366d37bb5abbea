// SPDX-License-Identifier: Apache-2.0
// The own walk over hostile bytes: every id, range, count, kind and number, before anything is built.
#include "runtime/Wire.h"
#include "runtime/Limits.h"
#include "runtime/Version.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/ConvertUTF.h"
#include <set>

namespace sojourn::runtime {

namespace {

using namespace sojourn_wire;

llvm::Error malformed(const std::string &what) { return makeError(ErrorCode::Malformed, what); }
llvm::Error exceeded(const std::string &what, uint64_t found, uint64_t limit) {
  return makeError(ErrorCode::Limit,
                   "the program has " + std::to_string(found) + " " + what + ", the limit is " + std::to_string(limit));
}

class Walk {
public:
  explicit Walk(const Program &program) : p_(program) {}

  llvm::Error run() {
    for (auto check :
         {&Walk::counts, &Walk::strings, &Walk::types, &Walk::parties, &Walk::arguments, &Walk::ops, &Walk::results}) {
      if (llvm::Error error = (this->*check)()) {
        return error;
      }
    }
    return llvm::Error::success();
  }

private:
  llvm::Error counts() {
    const std::pair<const char *, std::pair<uint64_t, uint64_t>> bounds[] = {
        {"strings", {countOf(p_.strings()), limits::kStrings}},
        {"types", {countOf(p_.types()), limits::kTypes}},
        {"dims", {countOf(p_.dims()), limits::kTypes * limits::kRank}},
        {"tables", {countOf(p_.tables()), limits::kTables}},
        {"arguments", {countOf(p_.args()), limits::kArguments}},
        {"ops", {countOf(p_.ops()), limits::kOps}},
        {"operands", {countOf(p_.operands()), limits::kIntegers}},
        {"op results", {countOf(p_.result_types()), limits::kValues}},
        {"attributes", {countOf(p_.attrs()), limits::kIntegers}},
        {"attribute integers", {countOf(p_.ints()), limits::kIntegers}},
        {"results", {countOf(p_.results()), limits::kResults}},
        {"parts", {countOf(p_.parts()), limits::kPartsOfArguments}},
        {"segments", {countOf(p_.segments()), limits::kPartsOfArguments}},
    };
    for (const auto &[what, pair] : bounds) {
      if (pair.first > pair.second) {
        return exceeded(what, pair.first, pair.second);
      }
    }
    // The verifier does not ask where elements of 64 bits stand, and they are read in place.
    const auto aligned = [](const char *what, const auto *vector) {
      return countOf(vector) > 0 && reinterpret_cast<uintptr_t>(vector->Data()) % alignof(int64_t) != 0
                 ? malformed("the " + std::string(what) + " are not aligned to 8 bytes")
                 : llvm::Error::success();
    };
    if (llvm::Error error =
            llvm::joinErrors(llvm::joinErrors(aligned("dims", p_.dims()), aligned("attribute integers", p_.ints())),
                             llvm::joinErrors(aligned("parts", p_.parts()), aligned("segments", p_.segments())))) {
      return error;
    }
    if (p_.promotion() == nullptr) {
      return malformed("promotion is missing");
    }
    return llvm::Error::success();
  }

  llvm::Error strings() {
    llvm::StringSet<> seen;
    size_t total = 0;
    for (uint32_t i = 0; i < countOf(p_.strings()); ++i) {
      const flatbuffers::String *text = p_.strings()->Get(i);
      if (text == nullptr || text->size() > limits::kStringBytes) {
        return exceeded("bytes in string " + std::to_string(i), text == nullptr ? 0 : text->size(),
                        limits::kStringBytes);
      }
      const auto *begin = reinterpret_cast<const llvm::UTF8 *>(text->data());
      if (!llvm::isLegalUTF8String(&begin, begin + text->size())) {
        return malformed("string " + std::to_string(i) + " is not UTF-8");
      }
      // Strings of a hostile program may share memory.
      total += text->size();
      if (total > limits::kTextBytes) {
        return exceeded("bytes in strings", total, limits::kTextBytes);
      }
      if (!seen.insert(llvm::StringRef(text->data(), text->size())).second) {
        return malformed("string " + std::to_string(i) + " appears twice");
      }
    }
    return llvm::Error::success();
  }

  /// Strings stand in the order of their first use. Every use is counted: readers copy and print each.
  bool useString(uint64_t id) {
    if (id >= countOf(p_.strings()) || id > nextString_) {
      return false;
    }
    nextString_ += id == nextString_ ? 1 : 0;
    textBytes_ += p_.strings()->Get(static_cast<uint32_t>(id))->size();
    return true;
  }

  llvm::Error checkTexts() const {
    return textBytes_ <= limits::kTextBytes
               ? llvm::Error::success()
               : exceeded("bytes in all uses of its strings", textBytes_, limits::kTextBytes);
  }

  /// The name of an op or attribute; empty where it is none.
  llvm::StringRef useName(uint32_t id) {
    if (!useString(id)) {
      return {};
    }
    const flatbuffers::String *text = p_.strings()->Get(id);
    return text->size() > limits::kOpNameBytes ? llvm::StringRef() : llvm::StringRef(text->data(), text->size());
  }

  llvm::Error types() {
    uint64_t &cursor = dimCursor_;
    for (uint32_t i = 0; i < countOf(p_.types()); ++i) {
      const TypeRecord &type = *p_.types()->Get(i);
      std::string name = "type " + std::to_string(i);
      if (type.element() >= kElementCount || type.reserved() != 0) {
        return malformed(name + " has element " + std::to_string(type.element()));
      }
      if (type.rank() > limits::kRank) {
        return exceeded("dims in " + name, type.rank(), limits::kRank);
      }
      if (type.dims_begin() != cursor || cursor + type.rank() > countOf(p_.dims())) {
        return malformed(name + " has its dims out of place");
      }
      cursor += type.rank();
      int64_t numel = 1;
      for (uint32_t d = 0; d < type.rank(); ++d) {
        int64_t dim = p_.dims()->Get(type.dims_begin() + d);
        if (dim < 0) {
          return malformed(name + " has a dim of " + std::to_string(dim));
        }
        // Zeros do not hide large sizes beside them: each factor counts as at least 1.
        int64_t factor = std::max<int64_t>(dim, 1);
        if (dim > limits::kDimension || factor > limits::kValueElements / numel) {
          return makeError(ErrorCode::Limit,
                           name + " has more than " + std::to_string(limits::kValueElements) + " elements");
        }
        numel *= factor;
      }
      int64_t width = static_cast<int64_t>(byteWidth(static_cast<Element>(type.element())));
      if (numel * width > limits::kValueBytes) {
        return makeError(ErrorCode::Limit, name + " has more than " + std::to_string(limits::kValueBytes) + " bytes");
      }
      bytes_.push_back(numel * width);
    }
    return llvm::Error::success();
  }

  /// Sizes of entries follow those of the types, column by column; absent where no column has any.
  llvm::Error entries(const std::string &name, const TableRecord &table, uint32_t columns) {
    if (table.column_ranks() == nullptr && table.column_dims_begin() == nullptr) {
      return llvm::Error::success();
    }
    if (countOf(table.column_ranks()) != columns || countOf(table.column_dims_begin()) != columns) {
      return malformed(name + " does not have one begin and one entry rank per column");
    }
    bool shaped = false;
    for (uint32_t c = 0; c < columns; ++c) {
      uint32_t rank = table.column_ranks()->Get(c);
      std::string column = name + ", column " + std::to_string(c);
      if (rank > limits::kEntryRank) {
        return exceeded("entry sizes in " + column, rank, limits::kEntryRank);
      }
      if (table.column_dims_begin()->Get(c) != (rank == 0 ? 0 : dimCursor_) || rank > countOf(p_.dims()) - dimCursor_) {
        return malformed(column + " has the sizes of its entries out of place");
      }
      int64_t numel = 1;
      for (uint32_t d = 0; d < rank; ++d) {
        int64_t size = p_.dims()->Get(static_cast<uint32_t>(dimCursor_) + d);
        if (size < 1) {
          return malformed(column + " has entries with a size of " + std::to_string(size));
        }
        if (size > limits::kEntryElements / numel) {
          return makeError(ErrorCode::Limit, column + " has entries of more than " +
                                                 std::to_string(limits::kEntryElements) + " elements");
        }
        numel *= size;
      }
      dimCursor_ += rank;
      shaped |= rank != 0;
    }
    return shaped ? llvm::Error::success() : malformed(name + " lists entry shapes, but no column has one");
  }

  /// Ranges and order alone: what roles and rows mean is checked with the types.
  llvm::Error parties() {
    const bool isJoint = (p_.features() & kFeatureParties) != 0;
    if (isJoint != (p_.parties() != 0)) {
      return malformed(isJoint ? "the program has no roles" : "roles without the feature that they need");
    }
    if ((p_.parts() != nullptr && (countOf(p_.parts()) == 0 || !isJoint)) ||
        (p_.parts() == nullptr) != (p_.segments() == nullptr)) {
      return malformed("parts of arguments that do not exist");
    }
    uint32_t cursor = 0;
    std::set<std::vector<int64_t>> seen;
    for (uint32_t i = 0; i < countOf(p_.parts()); ++i) {
      const PartsRecord &parts = *p_.parts()->Get(i);
      std::string name = "parts " + std::to_string(i);
      if (parts.begin() != cursor || parts.count() > countOf(p_.segments()) - cursor) {
        return malformed(name + " have their segments out of place");
      }
      std::vector<int64_t> numbers{parts.stride()};
      for (uint32_t k = 0; k < parts.count(); ++k) {
        const SegmentRecord &segment = *p_.segments()->Get(cursor++);
        if (segment.reserved() != 0) {
          return malformed(name + " have a segment with a reserved field that is not zero");
        }
        numbers.insert(numbers.end(), {segment.role(), segment.rows()});
      }
      if (!seen.insert(std::move(numbers)).second) {
        return malformed(name + " appear twice");
      }
    }
    return cursor == countOf(p_.segments()) ? llvm::Error::success() : malformed("segments that no parts use");
  }

  llvm::Error arguments() {
    uint32_t tables = 0, parts = 0;
    uint64_t totalColumns = 0;
    for (uint32_t i = 0; i < countOf(p_.args()); ++i) {
      const ArgRecord &arg = *p_.args()->Get(i);
      std::string name = "argument " + std::to_string(i);
      if (arg.kind() > ArgKind_table) {
        return malformed(name + " has kind " + std::to_string(arg.kind()));
      }
      if (arg.party() > p_.parties() || arg.parts() > countOf(p_.parts()) || arg.parts() > parts + 1 ||
          (arg.party() != 0 && arg.parts() != 0)) {
        return malformed(name + " has role " + std::to_string(arg.party()) + " and parts " +
                         std::to_string(arg.parts()) + " of " + std::to_string(p_.parties()) + " roles");
      }
      parts = std::max<uint32_t>(parts, arg.parts());
      if (arg.kind() != ArgKind_table) {
        if (arg.type() >= bytes_.size()) {
          return malformed(name + " has type " + std::to_string(arg.type()));
        }
        continue;
      }
      if (arg.type() != tables || arg.type() >= countOf(p_.tables())) {
        return malformed(name + " names table " + std::to_string(arg.type()));
      }
      const TableRecord *table = p_.tables()->Get(tables++);
      if (table->rows() < -1 || table->rows() > limits::kTableRows) {
        return makeError(ErrorCode::Limit, name + " has " + std::to_string(table->rows()) + " rows, the limit is " +
                                               std::to_string(limits::kTableRows));
      }
      uint32_t columns = countOf(table->column_names());
      totalColumns += columns;
      if (totalColumns > limits::kColumns) {
        return exceeded("columns up to " + name, totalColumns, limits::kColumns);
      }
      if (columns != countOf(table->column_elements())) {
        return malformed(name + " does not have one element type per column");
      }
      for (uint32_t c = 0; c < columns; ++c) {
        if (!useString(table->column_names()->Get(c)) || table->column_elements()->Get(c) >= kElementCount) {
          return malformed(name + " has a column whose name or element type does not exist");
        }
      }
      if (llvm::Error error = entries(name, *table, columns)) {
        return error;
      }
    }
    if (tables != countOf(p_.tables())) {
      return malformed("tables that no argument uses");
    }
    if (parts != countOf(p_.parts())) {
      return malformed("parts that no argument has");
    }
    if (dimCursor_ != countOf(p_.dims())) {
      return malformed("dims that no type and no column uses");
    }
    if (llvm::Error error = checkTexts()) {
      return error;
    }
    return llvm::Error::success();
  }

  llvm::Error attribute(const std::string &op, const AttrRecord &attr, llvm::StringRef &previous, uint64_t &cursor) {
    llvm::StringRef name = useName(attr.name());
    if (name.empty()) {
      return malformed(op + " has an attribute without a name of 1 to " + std::to_string(limits::kOpNameBytes) +
                       " bytes");
    }
    std::string where = op + ", attribute '" + name.str() + "'";
    if (name <= previous) {
      return malformed(where + ": names are not unique and in ascending order");
    }
    previous = name;
    if (attr.kind() > AttrKind_reals || attr.element() >= kElementCount || attr.reserved() != 0) {
      return malformed(where + " has an unknown kind or element type");
    }
    if (attr.begin() != cursor || attr.count() > countOf(p_.ints()) - cursor) {
      return malformed(where + " has its integers out of place");
    }
    cursor += attr.count();
    bool isNumbers = attr.kind() == AttrKind_integers || attr.kind() == AttrKind_reals;
    if (isNumbers && attr.count() > limits::kIntegersPerAttribute) {
      return exceeded("numbers in " + where, attr.count(), limits::kIntegersPerAttribute);
    }
    bool isList = isNumbers || attr.kind() == AttrKind_strings;
    if (!isList && attr.count() != 1) {
      return malformed(where + " has " + std::to_string(attr.count()) + " integers, expected 1");
    }
    Element element = static_cast<Element>(attr.element());
    for (uint32_t k = 0; k < attr.count(); ++k) {
      int64_t value = p_.ints()->Get(attr.begin() + k);
      bool fits = true;
      switch (static_cast<AttrKind>(attr.kind())) {
      case AttrKind_integer: fits = fitsInteger(element, value); break;
      case AttrKind_boolean: fits = (value == 0 || value == 1) && element == Element::i1; break;
      case AttrKind_real: fits = isFloat(element); break;
      case AttrKind_integers: fits = element == Element::i64; break;
      case AttrKind_reals: fits = element == Element::f64; break;
      case AttrKind_type:
        fits = value >= 0 && value < static_cast<int64_t>(kElementCount) && element == Element::i64;
        break;
      case AttrKind_string:
      case AttrKind_strings:
        fits = value >= 0 && useString(static_cast<uint64_t>(value)) && element == Element::i64;
        break;
      }
      if (!fits) {
        return malformed(where + " has " + std::to_string(value) + ", which its kind does not allow");
      }
    }
    return checkTexts();
  }

  static bool fitsInteger(Element element, int64_t value) {
    switch (element) {
    case Element::u8: return value >= 0 && value <= UINT8_MAX;
    case Element::i8: return value >= INT8_MIN && value <= INT8_MAX;
    case Element::i16: return value >= INT16_MIN && value <= INT16_MAX;
    case Element::i32: return value >= INT32_MIN && value <= INT32_MAX;
    case Element::i64: return true;
    default: return false;
    }
  }

  llvm::Error ops() {
    uint64_t values = countOf(p_.args()), operandCursor = 0, resultCursor = 0, attrCursor = 0, intCursor = 0;
    int64_t total = 0;
    for (uint32_t i = 0; i < countOf(p_.ops()); ++i) {
      const OpRecord &op = *p_.ops()->Get(i);
      std::string name = "op " + std::to_string(i);
      llvm::StringRef opName = useName(op.name());
      if (opName.empty()) {
        return malformed(name + " has no name of 1 to " + std::to_string(limits::kOpNameBytes) + " bytes");
      }
      name += " '" + opName.str() + "'";
      if (op.operand_count() > limits::kOperandsPerOp) {
        return exceeded("operands in " + name, op.operand_count(), limits::kOperandsPerOp);
      }
      if (op.attr_count() > limits::kAttributesPerOp) {
        return exceeded("attributes in " + name, op.attr_count(), limits::kAttributesPerOp);
      }
      // Ranges follow each other without gap or overlap, so no record is read twice.
      if (op.operand_begin() != operandCursor || op.operand_count() > countOf(p_.operands()) - operandCursor ||
          op.attr_begin() != attrCursor || op.attr_count() > countOf(p_.attrs()) - attrCursor ||
          op.result_count() > countOf(p_.result_types()) - resultCursor) {
        return malformed(name + " has operands, attributes or results out of place");
      }
      for (uint32_t k = 0; k < op.operand_count(); ++k) {
        uint32_t operand = p_.operands()->Get(op.operand_begin() + k);
        if (operand >= values) {
          return malformed(name + " reads value " + std::to_string(operand) + ", which is not defined before it");
        }
      }
      llvm::StringRef previous;
      for (uint32_t k = 0; k < op.attr_count(); ++k) {
        if (llvm::Error error = attribute(name, *p_.attrs()->Get(op.attr_begin() + k), previous, intCursor)) {
          return error;
        }
      }
      for (uint32_t k = 0; k < op.result_count(); ++k) {
        uint32_t type = p_.result_types()->Get(static_cast<uint32_t>(resultCursor) + k);
        if (type >= bytes_.size()) {
          return malformed(name + " has a result of type " + std::to_string(type));
        }
        total += bytes_[type];
        if (total > limits::kSumOfValueBytes) {
          return makeError(ErrorCode::Limit,
                           "all values together have more than " + std::to_string(limits::kSumOfValueBytes) + " bytes");
        }
      }
      operandCursor += op.operand_count();
      attrCursor += op.attr_count();
      resultCursor += op.result_count();
      values += op.result_count();
    }
    if (operandCursor != countOf(p_.operands()) || attrCursor != countOf(p_.attrs()) ||
        resultCursor != countOf(p_.result_types()) || intCursor != countOf(p_.ints()) ||
        nextString_ != countOf(p_.strings())) {
      return malformed("operands, attributes, types or strings that no op uses");
    }
    values_ = values;
    return checkTexts();
  }

  llvm::Error results() {
    int64_t total = 0;
    for (uint32_t i = 0; i < countOf(p_.results()); ++i) {
      const ResultRecord &result = *p_.results()->Get(i);
      std::string name = "result " + std::to_string(i);
      if (result.value() >= values_ || result.kind() > ResultKind_publish || result.flags() > 1 ||
          result.reserved1() != 0) {
        return malformed(name + " has an unknown value or kind");
      }
      bool commits = result.kind() == ResultKind_commit;
      if (commits ? result.target() >= countOf(p_.args()) : result.target() != 0) {
        return malformed(name + " has target " + std::to_string(result.target()));
      }
      uint32_t argCount = countOf(p_.args());
      if (result.value() >= argCount) {
        total += bytes_[p_.result_types()->Get(result.value() - argCount)];
      }
      if (total > limits::kResultBytes) {
        return makeError(ErrorCode::Limit,
                         "the results have more than " + std::to_string(limits::kResultBytes) + " bytes");
      }
    }
    return llvm::Error::success();
  }

  const Program &p_;
  uint64_t nextString_ = 0, textBytes_ = 0, values_ = 0, dimCursor_ = 0;
  std::vector<int64_t> bytes_;
};

} // namespace

llvm::Error checkProgram(const Program &program) { return Walk(program).run(); }

} // namespace sojourn::runtime
