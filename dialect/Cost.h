// SPDX-License-Identifier: Apache-2.0
// The arithmetic that formulas of prices are written in: unsigned numbers that saturate instead of wrapping, so that a
// hostile shape costs the most there is.
#ifndef SOJOURN_DIALECT_COST_H
#define SOJOURN_DIALECT_COST_H

#include "mlir/IR/Value.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

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
/// Operations of a function of one element, times the elements: those of a complex number and of an integer differ.
uint64_t each(mlir::Value value, uint64_t ofReal, uint64_t ofInteger, uint64_t ofComplex);
/// The same of a special function of two variables, whose loops are as long as a degree.
uint64_t special(mlir::Value value, llvm::StringRef function);
/// Factors of the matrices x: a call for each; `times` the products of an elimination; and per entry of a result
/// `made` for each step of it.
uint64_t factors(mlir::Operation *op, uint64_t call, uint64_t times, uint64_t made);
/// Equations with the matrices a and right sides b: a call for each matrix, and each entry of b with each row of a.
uint64_t solve(mlir::Value a, mlir::Value b, uint64_t call);
/// Elements of the op's results.
uint64_t results(mlir::Operation *op);
/// A convolution of images x with w to y, or one of its gradients: products, `perElement` for what is read and written,
/// a call for each group and image, and columns.
uint64_t convolution(mlir::Value x, mlir::Value w, mlir::Value y, uint64_t groups, uint64_t perElement);
/// Copies of all three, and the columns that are laid out at once.
uint64_t convolutionBytes(mlir::Value x, mlir::Value w, mlir::Value y);
/// Elements of x [N, C, spatial] that one window can lie on.
uint64_t windowElements(mlir::Value x, llvm::ArrayRef<int64_t> window);

} // namespace sojourn::cost

#endif // SOJOURN_DIALECT_COST_H
