// SPDX-License-Identifier: Apache-2.0
// Short ways to build core ops, mostly in f64.
#ifndef SOJOURN_PASSES_EMIT_H
#define SOJOURN_PASSES_EMIT_H

#include "dialect/ElementwiseOps.h"
#include "dialect/UnaryOps.h"

namespace sojourn {

/// Builds core ops at one place and one location. Shapes have to fit; the module is verified afterwards.
class Emit {
public:
  Emit(mlir::OpBuilder &builder, mlir::Location location) : builder(builder), location(location) {}

  mlir::Value constant(double number, mlir::Type element = {});
  mlir::Value convert(mlir::Value x, mlir::Type element);
  /// The value in f64.
  mlir::Value wide(mlir::Value x) { return convert(x, builder.getF64Type()); }
  mlir::Value add(mlir::Value a, mlir::Value b) { return same<AddOp>(a, b); }
  mlir::Value mul(mlir::Value a, mlir::Value b) { return same<MulOp>(a, b); }
  mlir::Value div(mlir::Value a, mlir::Value b) { return same<DivOp>(a, b); }
  mlir::Value max(mlir::Value a, mlir::Value b) { return same<MaxOp>(a, b); }
  mlir::Value min(mlir::Value a, mlir::Value b) { return same<MinOp>(a, b); }
  mlir::Value both(mlir::Value a, mlir::Value b) { return same<AndOp>(a, b); }
  mlir::Value sqrt(mlir::Value x) { return SqrtOp::create(builder, location, x.getType(), x); }
  mlir::Value round(mlir::Value x) { return RoundOp::create(builder, location, x.getType(), x); }
  mlir::Value compare(llvm::StringRef predicate, mlir::Value a, mlir::Value b);
  mlir::Value select(mlir::Value predicate, mlir::Value a, mlir::Value b);
  mlir::Value reshape(mlir::Value x, llvm::ArrayRef<int64_t> shape);
  mlir::Value transpose(mlir::Value x, llvm::ArrayRef<int64_t> perm);
  /// Operand dim k becomes dim dims[k] of a tensor of that shape.
  mlir::Value broadcast(mlir::Value x, llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> dims);
  /// Elements [first, limit) of one dim.
  mlir::Value slice(mlir::Value x, int64_t dim, int64_t first, int64_t limit);
  mlir::Value concat(llvm::ArrayRef<mlir::Value> parts, int64_t dim);
  mlir::Value sum(mlir::Value x, llvm::ArrayRef<int64_t> dims);
  mlir::Value dot(mlir::Value a, mlir::Value b, llvm::ArrayRef<int64_t> lhsBatch, llvm::ArrayRef<int64_t> rhsBatch,
                  llvm::ArrayRef<int64_t> lhsContract, llvm::ArrayRef<int64_t> rhsContract);

  static llvm::ArrayRef<int64_t> shape(mlir::Value x) {
    return llvm::cast<mlir::RankedTensorType>(x.getType()).getShape();
  }
  static mlir::Type element(mlir::Value x) { return llvm::cast<mlir::RankedTensorType>(x.getType()).getElementType(); }
  static int64_t numel(llvm::ArrayRef<int64_t> sizes);

  mlir::OpBuilder &builder;
  mlir::Location location;

private:
  /// Shapes are equal, or one is of rank 0.
  template <typename OpType>
  mlir::Value same(mlir::Value a, mlir::Value b) {
    mlir::Type type = shape(a).empty() ? b.getType() : a.getType();
    return OpType::create(builder, location, type, a, b);
  }
};

} // namespace sojourn

#endif // SOJOURN_PASSES_EMIT_H
