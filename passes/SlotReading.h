// SPDX-License-Identifier: Apache-2.0
// A second reading of a program with private tables: which slot of a list of row numbers each element of a value
// belongs to. Written from the texts of the ops alone and sharing nothing with dialect/rows: privacy/SecondReading.h
// compares both.
#ifndef SOJOURN_PASSES_SLOTREADING_H
#define SOJOURN_PASSES_SLOTREADING_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace sojourn {

/// Where the elements of a value lie with respect to the slots of one list of row numbers: size `dim` of its shape is
/// outer x slots x inner, and an element at k along `slots` belongs to slot first + step k of the list, counted from
/// `start`, clamped as dynamic_slice clamps it, where there is one. A step is negative behind `reverse`. With slots = 1
/// every element belongs to that slot and the other numbers say nothing; `dim` is 0 for rank 0. Where slots lie in no
/// single dim, `dim` is -1 and all elements, in row-major order, are outer x slots x inner.
struct SlotPlace {
  /// The list: the sample_rows of a secret draw; else the row numbers that a private table was read at.
  mlir::Value root;
  int64_t dim = 0, outer = 1, slots = 1, inner = 1;
  int64_t first = 0, step = 1;
  mlir::Value start;
};

struct SlotReading {
  /// None: from no private row and no secret draw. Summed: rows were combined by a sum over slots; or a function of
  /// such values, and `root` is null where they were of several lists. A sum over one slot alone stays with its slot.
  enum class Kind : uint8_t { None, Slots, Summed, Unknown };
  Kind kind = Kind::None;
  SlotPlace place;
  /// The first op that could not be read; null where that is an argument.
  mlir::Operation *unread = nullptr;
};

/// Reads a step, regions of clipped_sum included, in time linear in its ops. Values without elements are None.
class SlotReader {
public:
  SlotReader(mlir::func::FuncOp step, llvm::function_ref<bool(unsigned)> isPublicArgument,
             llvm::function_ref<bool(unsigned)> isPrivateTable);
  SlotReading readingOf(mlir::Value value) const;

private:
  void findDraws(mlir::Block &body);
  void readBlock(mlir::Block &body);
  void readClippedSum(mlir::Operation *op);
  SlotReading readRows(mlir::Operation *op);
  SlotReading readCore(mlir::Operation *op) const;
  void set(mlir::Value value, SlotReading reading);
  /// The row numbers that these are copies of, moved about and here and there replaced by a number of no row.
  mlir::Value originalOf(mlir::Value index);

  llvm::DenseMap<mlir::Value, SlotReading> readings;
  /// The ops sample_rows with `expected` that lead to a private table: secret draws.
  llvm::DenseSet<mlir::Operation *> draws;
  /// Private tables and what their contents went into. Only other values may say which private rows are read.
  llvm::DenseSet<mlir::Value> contents;
  /// The row numbers that private tables are read at, per draw: others would bring a second row into a slot.
  llvm::DenseMap<mlir::Value, mlir::Value> lists;
  llvm::DenseMap<mlir::Value, mlir::Value> originals;
};

/// What the row analysis claims; made by the caller.
struct SlotClaim {
  enum class Kind : uint8_t { Public, PerRow, Sum, Nothing };
  Kind kind = Kind::Nothing;
  mlir::Value list; ///< row numbers of the draw: a root, or what is computed from one element by element
  int64_t dim = 0, outer = 1, slots = 1, inner = 1, first = 0, step = 1;
  mlir::Value start;
};

enum class Agreement : uint8_t { Agrees, Contradicts, CannotTell };
/// Contradicts where the claim is stronger than what was read, CannotTell where nothing could be read.
Agreement compare(const SlotReading &reading, const SlotClaim &claim);

} // namespace sojourn

#endif // SOJOURN_PASSES_SLOTREADING_H
