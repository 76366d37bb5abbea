// SPDX-License-Identifier: Apache-2.0
// The arithmetic that formulas of prices are written in: unsigned numbers that saturate instead of wrapping, so that a
// hostile shape costs the most there is.
#ifndef SOJOURN_DIALECT_COST_H
#define SOJOURN_DIALECT_COST_H

#include "mlir/IR/Value.h"
#include "llvm/ADT/ArrayRef.h"

#include <cstdint>
#include <initializer_list>

namespace sojourn::cost {

uint64_t sum(std::initializer_list<uint64_t> terms);
uint64_t times(std::initializer_list<uint64_t> factors);
/// 1 + the binary logarithm of `count`, rounded up: the passes of a sort over so many elements.
uint64_t passes(uint64_t count);

/// Number of elements of a tensor, 0 for a table; the largest number where the type is none of core form.
uint64_t elements(mlir::Value value);
uint64_t elements(mlir::Type type);
/// Bytes of a dense tensor, 0 for a table.
uint64_t bytes(mlir::Value value);
uint64_t bytes(mlir::Type type);
/// Bytes of the widest element that such elements are computed in: 16 of complex numbers, 8 of others.
uint64_t width(mlir::Value value);
/// Size of one dim; the largest number where there is no such dim.
uint64_t size(mlir::Value value, int64_t dim);
/// Product of the sizes of those dims.
uint64_t sizes(mlir::Value value, llvm::ArrayRef<int64_t> dims);
/// Product of the spatial sizes of a convolution's kernel or input: all dims but the first two.
uint64_t spatial(mlir::Value value);
/// Elements of x [N, C, spatial] that one window can lie on.
uint64_t windowElements(mlir::Value x, llvm::ArrayRef<int64_t> window);

} // namespace sojourn::cost

#endif // SOJOURN_DIALECT_COST_H
