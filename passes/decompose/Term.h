// SPDX-License-Identifier: Apache-2.0
// Terms: core values with operators, so that a decomposition reads like the
// formula it implements. Every function appends core ops at the builder's
// insertion point; shapes broadcast as in ATen and are made explicit here.
#ifndef SOJOURN_PASSES_DECOMPOSE_TERM_H
#define SOJOURN_PASSES_DECOMPOSE_TERM_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"

#include <limits>
#include <string>
#include <type_traits>

namespace sojourn::decompose {

/// Thrown where a decomposition meets what the formula has no meaning for: an op whose result type does not follow, an
/// argument that is absent, a dimension that is not there. Never leaves this folder: Call::decompose catches it and
/// the pass reports it at the call, whose line is the scientist's.
struct Refusal {
  std::string reason;
};
[[noreturn]] void refuse(const llvm::Twine &reason);
/// Refuses an entry `index` of a list of `size` sizes or dimensions that is not there.
void checkEntry(size_t index, size_t size);

/// Sizes or dimensions; lists come from calls, so an entry that is not there is a refusal.
class Dims : public llvm::ArrayRef<int64_t> {
  using Base = llvm::ArrayRef<int64_t>;

public:
  using Base::Base;
  Dims(Base dims) : Base(dims) {}

  const int64_t &operator[](size_t i) const {
    checkEntry(i, size());
    return Base::operator[](i);
  }
  const int64_t &front() const { return (*this)[0]; }
  const int64_t &back() const { return (*this)[size() - 1]; }
  Dims slice(size_t from, size_t count) const {
    checkEntry(from, size() + 1);
    checkEntry(count, size() - from + 1);
    return Base::slice(from, count);
  }
  Dims take_front(size_t count = 1) const { return slice(0, count); }
  Dims drop_front(size_t count = 1) const {
    checkEntry(count, size() + 1);
    return Base::drop_front(count);
  }
  Dims drop_back(size_t count = 1) const {
    checkEntry(count, size() + 1);
    return Base::drop_back(count);
  }
};

/// The same, owned.
class Shape : public llvm::SmallVector<int64_t, 6> {
  using Base = llvm::SmallVector<int64_t, 6>;

public:
  using Base::Base;
  Shape() = default;
  /// `count` equal entries; a count below 0 (the spatial dims of a vector, say) is a refusal.
  template <typename Count, std::enable_if_t<std::is_integral_v<Count>, int> = 0>
  Shape(Count count, int64_t value) : Base(checkedCount(static_cast<int64_t>(count)), value) {}

  int64_t &operator[](size_t i) {
    checkEntry(i, size());
    return Base::operator[](i);
  }
  const int64_t &operator[](size_t i) const {
    checkEntry(i, size());
    return Base::operator[](i);
  }
  const int64_t &front() const { return (*this)[0]; }
  const int64_t &back() const { return (*this)[size() - 1]; }
  int64_t &front() { return (*this)[0]; }
  int64_t &back() { return (*this)[size() - 1]; }

private:
  static size_t checkedCount(int64_t count) {
    checkEntry(static_cast<size_t>(count), kMaxCount);
    return static_cast<size_t>(count);
  }
  static constexpr size_t kMaxCount = 4096;
};

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Where new ops go: shared by all terms of one decomposition.
struct Emitter {
  mlir::OpBuilder &builder;
  mlir::Location location;
};

/// A tensor value of the program under construction; false when absent.
/// Rank-0 terms are splats wherever an elementwise op takes them.
struct Term {
  mlir::Value value;
  Emitter *emitter = nullptr;

  explicit operator bool() const { return static_cast<bool>(value); }
  mlir::RankedTensorType type() const;
  Dims shape() const { return type().getShape(); }
  mlir::Type element() const { return type().getElementType(); }
  int64_t rank() const { return type().getRank(); }
  int64_t dim(int64_t i) const;
  int64_t numel() const { return type().getNumElements(); }
  bool isFloat() const { return llvm::isa<mlir::FloatType>(element()); }
  bool isInteger() const { return llvm::isa<mlir::IntegerType>(element()); }
  bool isBool() const { return element().isInteger(1); }
  bool isComplex() const { return llvm::isa<mlir::ComplexType>(element()); }
};

/// f32 for f16 and bf16, the type itself otherwise: what a composite computes
/// in, so that it rounds once, as ATen does.
mlir::Type wideElement(mlir::Type element);
int64_t product(Dims dims);
/// a / b of sizes; a divisor of 0 is a refusal.
int64_t quotient(int64_t a, int64_t b);
/// Non-negative form of a dimension that may count from the end.
int64_t wrapDim(int64_t dim, int64_t rank);
Shape broadcastShapes(Dims a, Dims b);

// Sources.
Term constant(Emitter &e, double value, mlir::Type element);
Term constantInt(Emitter &e, int64_t value, mlir::Type element);
/// A rank-0 constant of x's element type.
Term constantLike(Term x, double value);
Term full(Emitter &e, Dims shape, double value, mlir::Type element);
Term iota(Emitter &e, Dims shape, int64_t dim, mlir::Type element);
/// Positions along `dim` as i64 with x's shape.
Term positions(Term x, int64_t dim);
/// 0, 1, 2 ... as a vector of i64.
Term counting(Emitter &e, int64_t size);

// Casts.
/// A complex number becomes a real one by its real part, and true where it is not 0.
Term convert(Term x, mlir::Type element);
Term bitcast(Term x, mlir::Type element);
Term widen(Term x);
Term toBool(Term x);
Term toIndex(Term x);

// Unary.
Term operator-(Term x);
/// Logical or bitwise not; `!x` asks whether the term is absent.
Term operator~(Term x);
Term abs(Term x);
Term sign(Term x);
Term floor(Term x);
Term ceil(Term x);
Term round(Term x);
Term trunc(Term x);
Term exp(Term x);
Term expm1(Term x);
Term log(Term x);
Term log1p(Term x);
Term sqrt(Term x);
Term sin(Term x);
Term cos(Term x);
Term tanh(Term x);
Term logistic(Term x);
Term erf(Term x);
Term erfc(Term x);
Term erfinv(Term x);
Term lgamma(Term x);
Term digamma(Term x);
/// A function of dialect/SpecialFunctions.def, of f32 or f64.
Term special(llvm::StringRef function, Term x);
Term special(llvm::StringRef function, Term a, Term b);
Term square(Term x);
Term reciprocal(Term x);
Term isNan(Term x);
Term signBit(Term x);
/// log(1 + exp(x)) without overflow.
Term softplus(Term x);

// Binary; a number stands for a splat of the other side's element type.
Term operator+(Term a, Term b);
Term operator-(Term a, Term b);
Term operator*(Term a, Term b);
Term operator/(Term a, Term b);
Term operator&(Term a, Term b);
Term operator|(Term a, Term b);
Term operator^(Term a, Term b);
Term rem(Term a, Term b);
Term pow(Term a, Term b);
Term atan2(Term a, Term b);
Term max(Term a, Term b);
Term min(Term a, Term b);
Term shiftLeft(Term a, Term b);
Term shiftRight(Term a, Term b);
Term compare(Term a, Term b, llvm::StringRef predicate);
Term select(Term predicate, Term a, Term b);

inline Term eq(Term a, Term b) { return compare(a, b, "eq"); }
inline Term ne(Term a, Term b) { return compare(a, b, "ne"); }
inline Term operator<(Term a, Term b) { return compare(a, b, "lt"); }
inline Term operator<=(Term a, Term b) { return compare(a, b, "le"); }
inline Term operator>(Term a, Term b) { return compare(a, b, "gt"); }
inline Term operator>=(Term a, Term b) { return compare(a, b, "ge"); }

#define SOJOURN_WITH_NUMBER(name)                                                                                      \
  inline Term name(Term a, double b) { return name(a, constantLike(a, b)); }                                           \
  inline Term name(double a, Term b) { return name(constantLike(b, a), b); }
SOJOURN_WITH_NUMBER(operator+)
SOJOURN_WITH_NUMBER(operator-)
SOJOURN_WITH_NUMBER(operator*)
SOJOURN_WITH_NUMBER(operator/)
SOJOURN_WITH_NUMBER(operator<)
SOJOURN_WITH_NUMBER(operator<=)
SOJOURN_WITH_NUMBER(operator>)
SOJOURN_WITH_NUMBER(operator>=)
SOJOURN_WITH_NUMBER(eq)
SOJOURN_WITH_NUMBER(ne)
SOJOURN_WITH_NUMBER(max)
SOJOURN_WITH_NUMBER(min)
SOJOURN_WITH_NUMBER(rem)
SOJOURN_WITH_NUMBER(pow)
SOJOURN_WITH_NUMBER(atan2)
#undef SOJOURN_WITH_NUMBER
inline Term select(Term p, Term a, double b) { return select(p, a, constantLike(a, b)); }
inline Term select(Term p, double a, Term b) { return select(p, constantLike(b, a), b); }

// Complex numbers.
/// f32 of complex<f32>; a real type as it is.
mlir::Type realElement(mlir::Type element);
/// [...] to [..., 2], and back.
Term parts(Term x);
Term fromParts(Term pairs);
/// Of a real number itself, and 0.
Term real(Term x);
Term imag(Term x);
Term complex(Term re, Term im);
/// A splat; of a real type its real part.
Term complex(Emitter &e, double re, double im, mlir::Type element);
Term conj(Term x);
/// |re + i im| without overflow on the way.
Term magnitude(Term re, Term im);
/// The number of magnitude 1 in x's direction, 0 of 0: the sign of a real number.
Term direction(Term x);
/// |x|^2 as a real number.
Term squaredMagnitude(Term x);
Term fftC2c(Term x, Dims dims, bool inverse);
Term fftR2c(Term x, Dims dims);
Term fftC2r(Term x, Dims dims, int64_t size);
/// Factors, pivots and order of symmetric matrices as LAPACK has them (sojourn.ldl), and x with a x = b by them.
struct Ldl {
  Term factors, pivots, order;
};
Ldl ldl(Term x, bool hermitian);
Term ldlSolve(Term factors, Term pivots, Term b, bool hermitian);
/// Eigenvalues and eigenvectors, complex (sojourn.eig).
std::pair<Term, Term> eig(Term x);

// Layout.
/// Expands as ATen does: shapes aligned at the last dimension.
Term broadcastTo(Term x, Dims shape);
Term broadcastDims(Term x, Dims shape, Dims dims);
Term reshape(Term x, Dims shape);
Term transpose(Term x, Dims perm);
/// Moves one dimension to another place, the others keep their order.
Term moveDim(Term x, int64_t from, int64_t to);
Term slice(Term x, Dims start, Dims limit, Dims stride);
Term sliceDim(Term x, int64_t dim, int64_t start, int64_t limit, int64_t stride = 1);
Term reverse(Term x, Dims dims);
Term updateSlice(Term x, Term update, Dims start, Dims stride);
/// `size` elements along `dim` from a number of the run on, clamped so that they lie inside; and the write of as many.
Term sliceFrom(Term x, int64_t dim, Term start, int64_t size);
Term updateFrom(Term x, Term update, int64_t dim, Term start);
Term concat(llvm::ArrayRef<Term> xs, int64_t dim);
Term pad(Term x, Term value, Dims low, Dims high, Dims interior);
Term unsqueeze(Term x, int64_t dim);
Term squeeze(Term x, int64_t dim);
/// `count` equal parts along `dim`.
llvm::SmallVector<Term, 4> chunk(Term x, int64_t count, int64_t dim);
/// A vector of channels laid along dimension `dim` of `rank` dimensions.
Term alongDim(Term x, int64_t dim, int64_t rank);

// Reductions. With `keep` the reduced dimensions stay with size 1.
Term sum(Term x, Dims dims, bool keep = false);
Term prod(Term x, Dims dims, bool keep = false);
Term amax(Term x, Dims dims, bool keep = false);
Term amin(Term x, Dims dims, bool keep = false);
Term mean(Term x, Dims dims, bool keep = false);
/// Two passes: squares of the distances from the mean (notes: the one-pass
/// form loses all digits when the mean is large).
Term centeredSquares(Term x, Term keptMean, Dims dims, bool keep = false);
Term argmax(Term x, int64_t dim);
Term argmin(Term x, int64_t dim);
Term cumulative(llvm::StringRef kind, Term x, int64_t dim);
std::pair<Term, Term> sort(Term x, int64_t dim, bool descending);
std::pair<Term, Term> topk(Term x, int64_t dim, int64_t k, bool largest);
Shape allDims(Term x);

// Contraction, indexing, windows, random numbers.
struct DotDims {
  Shape lhsBatch, rhsBatch, lhsContract, rhsContract;
};
Term dot(Term a, Term b, const DotDims &dims, mlir::Type element);
/// The product of the last two dimensions; the others are batch dimensions.
Term matmul(Term a, Term b, mlir::Type element);
/// The last two dimensions swapped; and conjugated.
Term transposeLast(Term x);
Term adjointOf(Term x);
/// Lower triangular factors of the matrices in the last two dimensions; their orders as i64 (sojourn.cholesky).
std::pair<Term, Term> cholesky(Term x);
/// x with a x = b for triangular a [..., n, n] and b [..., n, k] with equal leading dims.
Term triangularSolve(Term a, Term b, bool lower, bool unit);
/// Packed factors, pivots and row numbers from 0, and orders, as i64 (sojourn.lu).
struct Lu {
  Term factors, pivots, rows, order;
};
Lu lu(Term x);
std::pair<Term, Term> qr(Term x, bool full);
std::pair<Term, Term> eigh(Term x);
struct Svd {
  Term u, s, vt;
};
Svd svd(Term x, bool full);
/// Contracts dimension `dim` of x with the second dimension of m [out, in].
Term contractDim(Term x, Term m, int64_t dim);
Term take(Term x, Term index, int64_t dim);
Term takeAlong(Term x, Term index, int64_t dim);
Term put(Term x, Term index, Term update, int64_t dim, llvm::StringRef kind);
Term putAlong(Term x, Term index, Term update, int64_t dim, llvm::StringRef kind);
struct Window {
  Shape stride, padding, dilation;
  int64_t groups = 1;
};
Term conv(Term x, Term w, const Window &window);
Term convGradInput(Term g, Term w, const Window &window, Dims shape);
Term convGradWeight(Term g, Term x, const Window &window, Dims shape);
Term poolSum(Term x, Dims size, Dims stride, Dims padding);
std::pair<Term, Term> poolMax(Term x, Dims size, const Window &window);
enum class Draw { bits, uniform, normal };
Term draw(Draw kind, Term seed, Dims shape, mlir::Type element, int64_t stream = 0);

} // namespace sojourn::decompose

#endif // SOJOURN_PASSES_DECOMPOSE_TERM_H
