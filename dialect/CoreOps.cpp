// SPDX-License-Identifier: Apache-2.0
// The list of core ops against their records, both ways: no code, the compiler compares.
#include "dialect/Dialect.h"

#include <string_view>
#include <type_traits>

using namespace mlir;
using namespace sojourn;

namespace {

template <typename Record>
constexpr bool isCore() {
  return Record::template hasTrait<CoreOp>();
}

/// Whether a member function is the record's own, not what it inherits.
template <typename Record, typename Owner>
constexpr bool isOwn(LogicalResult (Owner::*)()) {
  return std::is_same_v<Record, Owner>;
}

/// Whether something says which result types fit the operands: inference, one type for all, or a verifier.
template <typename Record>
constexpr bool hasTypeRule() {
  constexpr bool isInferred = Record::template hasTrait<InferTypeOpInterface::Trait>();
  constexpr bool isOne = Record::template hasTrait<OpTrait::SameOperandsAndResultType>();
  constexpr bool isVerified = requires { requires isOwn<Record>(&Record::verify); };
  return isInferred || isOne || isVerified;
}

constexpr bool isImplemented(std::string_view name) {
  constexpr std::string_view planned = "planned";
#define SOJOURN_CORE_OP(mnemonic, tier, status, note)                                                                  \
  if (name == "sojourn." #mnemonic) {                                                                                  \
    return #status != planned;                                                                                         \
  }
#include "dialect/CoreOps.def"
  return false;
}

/// One record: what it lacks is named in the compiler's next line, "In instantiation of ... [with Record = ...]".
template <typename Record>
constexpr bool checkRecord() {
  if constexpr (isCore<Record>()) {
    static_assert(isImplemented(Record::getOperationName()),
                  "a core op has a record, but no line in dialect/CoreOps.def that calls it implemented");
    static_assert(hasTypeRule<Record>(), "the record of a core op has no type rule: let it infer its result types, or "
                                         "give it a verifier (hasVerifier) in the .cpp of its family");
  }
  return true;
}

template <typename... Records>
struct RecordList {
  static constexpr bool checked = (checkRecord<Records>() && ...);
  static constexpr bool hasCoreOp(std::string_view name) {
    return ((isCore<Records>() && std::string_view(Records::getOperationName()) == name) || ...);
  }
};

using Records = RecordList<
#define GET_OP_LIST
#include "dialect/CapturedOps.cpp.inc"
    ,
#define GET_OP_LIST
#include "dialect/ContractionOps.cpp.inc"
    ,
#define GET_OP_LIST
#include "dialect/ElementwiseOps.cpp.inc"
    ,
#define GET_OP_LIST
#include "dialect/IndexOps.cpp.inc"
    ,
#define GET_OP_LIST
#include "dialect/LayoutOps.cpp.inc"
    ,
#define GET_OP_LIST
#include "dialect/OwnerOps.cpp.inc"
    ,
#define GET_OP_LIST
#include "dialect/ReductionOps.cpp.inc"
    ,
#define GET_OP_LIST
#include "dialect/RowOps.cpp.inc"
    ,
#define GET_OP_LIST
#include "dialect/SourceOps.cpp.inc"
    ,
#define GET_OP_LIST
#include "dialect/UnaryOps.cpp.inc"
    ,
#define GET_OP_LIST
#include "dialect/WindowOps.cpp.inc"
    >;
static_assert(Records::checked);

#define SOJOURN_RECORD_implemented(mnemonic)                                                                           \
  static_assert(Records::hasCoreOp("sojourn." #mnemonic),                                                              \
                "dialect/CoreOps.def calls " #mnemonic                                                                 \
                " implemented, and no record of dialect/*Ops.td has that name");
#define SOJOURN_RECORD_planned(mnemonic)
#define SOJOURN_CORE_OP(mnemonic, tier, status, note) SOJOURN_RECORD_##status(mnemonic)
#include "dialect/CoreOps.def"

} // namespace
