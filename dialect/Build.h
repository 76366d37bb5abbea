// SPDX-License-Identifier: Apache-2.0
// The one way to create an op whose result types follow from its operands: what ODS generates ends the process where
// they do not follow, this reports failure. tools/lint refuses the generated form everywhere else.
#ifndef SOJOURN_DIALECT_BUILD_H
#define SOJOURN_DIALECT_BUILD_H

#include "dialect/Base.h"

#include "mlir/IR/Diagnostics.h"

#include <string>

namespace sojourn {

namespace detail {
using InferFn = llvm::LogicalResult (*)(mlir::MLIRContext *, std::optional<mlir::Location>, mlir::ValueRange,
                                        mlir::DictionaryAttr, mlir::OpaqueProperties, mlir::RegionRange,
                                        llvm::SmallVectorImpl<mlir::Type> &);
/// Infers the result types of the op that `state` describes and creates it; null where they do not follow, with the
/// reason in `reason` and no diagnostic.
mlir::Operation *createInferred(mlir::OpBuilder &builder, mlir::OperationState &state, InferFn infer,
                                std::string &reason);
} // namespace detail

/// Creates an op from its operands and attributes, as `OpType::create(builder, location, ...)` would. Where the result
/// types do not follow from them the op is null and `reason` says why, in words that continue "'sojourn.add' ".
template <typename OpType, typename... Args>
OpType tryCreate(mlir::OpBuilder &builder, mlir::Location location, std::string &reason, Args &&...args) {
  static_assert(OpType::template hasTrait<mlir::InferTypeOpInterface::Trait>(),
                "the result types of this op are given, not inferred: call create");
  mlir::OperationState state(location, OpType::getOperationName());
  // Room for the results, whose types come below.
  llvm::SmallVector<mlir::Type, 2> none(OpType::template hasTrait<mlir::OpTrait::OneResult>() ? 1 : 2,
                                        mlir::NoneType::get(builder.getContext()));
  OpType::build(builder, state, mlir::TypeRange(none), std::forward<Args>(args)...);
  return mlir::dyn_cast_or_null<OpType>(detail::createInferred(builder, state, &OpType::inferReturnTypes, reason));
}

} // namespace sojourn

#endif // SOJOURN_DIALECT_BUILD_H
