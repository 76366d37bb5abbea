// SPDX-License-Identifier: Apache-2.0
// The values of a program while it is made up, and the one way to add an op: any attributes, and what does not verify
// is taken back.
#ifndef SOJOURN_TEST_ATTACK_VALUES_H
#define SOJOURN_TEST_ATTACK_VALUES_H

#include "dialect/rows/Analysis.h"
#include "test/attack/Dice.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <optional>
#include <vector>

namespace sojourn::attack {

using mlir::RankedTensorType;
using mlir::Type;
using mlir::Value;
using Sizes = llvm::SmallVector<int64_t, 4>;

inline RankedTensorType typeOf(Value value) { return mlir::cast<RankedTensorType>(value.getType()); }
inline llvm::ArrayRef<int64_t> shapeOf(Value value) { return typeOf(value).getShape(); }
inline Type elementOf(Value value) { return typeOf(value).getElementType(); }
inline int64_t rankOf(Value value) { return typeOf(value).getRank(); }

/// What the generator guesses of a value, to choose by; nothing rests on it.
struct Guess {
  bool isPrivate = false; ///< rows reach it
  bool isDrawn = false;   ///< a draw with `expected` does
  bool isSummed = false;  ///< behind a sum over slots
  int64_t slots = 0;      ///< of its first dim; 0: not per row
};

class Values {
public:
  Values(Dice &dice, mlir::OpBuilder &builder) : dice(dice), builder(builder) {}

  void add(Value value, Guess guess = {});
  const std::vector<Value> &all() const { return pool; }
  Guess guess(Value value) const { return guesses.lookup(value); }
  /// What the owner's analysis of rows takes it for so far.
  sojourn::rows::Fact fact(Value value) const { return facts.factOf(value); }

  /// A later value more often than an earlier one; null where none is such.
  Value pick(llvm::function_ref<bool(Value)> isSuch);
  Value pick();
  Value pickFloat();
  /// Of this type, or a splat of its element: a value or a constant.
  Value partner(Value value);
  /// A number of this element: ordinary ones, and ones at the ends of what floats and integers can be.
  Value constant(Type element);
  Value constant(Type element, double number);

  /// Adds sojourn.`name`. Result types follow from the op where `result` is null. Null where it does not verify.
  mlir::Operation *tryOp(llvm::StringRef name, mlir::ValueRange operands,
                         llvm::ArrayRef<mlir::NamedAttribute> attributes = {}, Type result = {}, unsigned results = 1);
  /// Likewise; its results join the pool.
  Value op(llvm::StringRef name, mlir::ValueRange operands, llvm::ArrayRef<mlir::NamedAttribute> attributes = {},
           Type result = {}, unsigned results = 1);

  mlir::NamedAttribute number(llvm::StringRef name, int64_t value);
  mlir::NamedAttribute list(llvm::StringRef name, llvm::ArrayRef<int64_t> values);
  mlir::NamedAttribute reals(llvm::StringRef name, llvm::ArrayRef<double> values);
  mlir::NamedAttribute text(llvm::StringRef name, llvm::StringRef value);
  mlir::NamedAttribute flag(llvm::StringRef name, bool value);
  /// Any element of core form, common ones more often.
  Type anyElement();

  Dice &dice;
  mlir::OpBuilder &builder;
  /// The arguments that stand for open tables.
  llvm::SmallVector<Value> openTables;
  /// How often the last values are chosen before any other: deep programs, or wide ones.
  double depth = 0;
  /// How often values are passed over that the owner's analysis has given up: what is made of them is refused.
  double care = 0;
  /// How often values are passed over that no row reaches.
  double focus = 0;
  /// How often, of a few values, that one is chosen of which the analysis says what it says of the fewest here.
  double novelty = 0;
  /// How often a constant is at an end of what its type can be.
  double extremes = 0.3;
  sojourn::rows::Analysis facts;

private:
  std::vector<Value> pool;
  llvm::DenseMap<Value, Guess> guesses;
  /// By value what the analysis says of it, without its numbers; and of how many values it says so.
  llvm::DenseMap<Value, uint64_t> claims;
  llvm::DenseMap<uint64_t, unsigned> claimed;
};

/// Tries to add one op or a few; families of them, in files of their own.
using Move = void (*)(Values &);
void elementwiseMove(Values &values);
void clampMove(Values &values);
void scaleMove(Values &values);
void layoutMove(Values &values);
void reduceMove(Values &values);
void contractionMove(Values &values);
void indexMove(Values &values);
void matrixMove(Values &values);
void listMove(Values &values);
void sourceMove(Values &values);
void drawMove(Values &values);
void readMove(Values &values);
/// Between two numbers, which may be one.
Value clamped(Values &values, Value x);
/// Sums a value over all its slots; null where there is none to sum.
Value sumMove(Values &values);

} // namespace sojourn::attack

#endif // SOJOURN_TEST_ATTACK_VALUES_H
