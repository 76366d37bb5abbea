// SPDX-License-Identifier: Apache-2.0
// The trace: what was recorded, as one stream of words. Neither torch nor MLIR is known here;
// the recorder writes it, the importer reads it, and equality of two streams is equality of two
// programs (values - floats, seeds, uploads, handles - stand beside the stream, never in it).
#ifndef SOJOURN_FRONTEND_RECORDING_TRACE_H
#define SOJOURN_FRONTEND_RECORDING_TRACE_H

#include "dialect/elements/Elements.h"
#include "runtime/wire/Place.h"

#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace sojourn {
enum class StepArg : uint8_t;
} // namespace sojourn

namespace sojourn::frontend {

using Word = int64_t;

/// What the recorder knows of one op, interned for the life of the process.
struct OpEntry {
  std::string name;                       ///< "aten.add_.Tensor", "sojourn.read_rows"
  std::vector<std::string> argumentNames; ///< schema order; plus "seed" for random ops
  std::vector<bool> mutated;              ///< per argument
};

/// Process-wide table of recorded ops; ids are stable within a process.
class OpTable {
public:
  static OpTable &get();
  Word intern(const OpEntry &entry);
  const OpEntry &at(Word id) const;

private:
  std::deque<OpEntry> entries_;
};

/// Strings that appear as literal arguments.
class StringTable {
public:
  static StringTable &get();
  Word intern(std::string_view text);
  const std::string &at(Word id) const;

private:
  std::deque<std::string> entries_;
  std::unordered_map<std::string, Word> ids_;
};

/// Two streams. Inputs: records `storage id, kind, element, rank, sizes..., strides...`; inputs are
/// met in the middle of an op, hence their own stream. Ops:
/// Op:      entry, argument count, arguments..., result count, results...
///          result: element, rank, sizes..., strides... (next storage id each), or -1 (undefined)
/// NumpyOp: an op by NumPy's type rules, whose default dtype is f64; else as Op
/// Outputs: keep count, storage ids..., publish count, storage ids..., trained count, storage ids...
/// DefaultFloat: element, the process's default dtype from here on; f32 where a trace says nothing
/// Tables are a third, small stream: name, rows (-1: any number), role (-1: of a single owner), column count, (name,
/// element, rank, entry sizes...)...
enum class Record : Word { Op = 1, Outputs = 2, DefaultFloat = 3, NumpyOp = 4 };

/// Kinds of inputs: State and Upload (dialect/Signature.h). The word of an input also has the place of a state.
using InputKind = StepArg;

/// Places that inputs name; ids are stable within a process. 0 is a place at all members, and any of a single owner.
class PlaceTable {
public:
  static PlaceTable &get();
  Word intern(const wire::Place &place);
  wire::Place at(Word id) const;

private:
  mutable std::mutex mutex_;
  std::map<wire::Place, Word> ids_;
  std::vector<wire::Place> places_{wire::Place()};
};
inline Word inputWord(InputKind kind, Word place) { return static_cast<Word>(kind) | place << 8; }
inline InputKind inputKindOf(Word word) { return static_cast<InputKind>(word & 0xFF); }
inline Word placeIdOf(Word word) { return word >> 8; }

/// Arguments of an op record: a tag, then its payload.
enum class Tag : Word {
  None = 0,        ///
  Whole = 1,       ///< storage id: the tensor is the storage in its base layout
  View = 2,        ///< storage id, rank, sizes..., strides..., offset
  Int = 3,         ///< value
  Bool = 4,        ///< value
  Real = 5,        ///< bits of a float64 that shapes depend on (arange)
  Dtype = 6,       ///< Element
  String = 7,      ///< string id
  Slot = 8,        ///< next slot (float64)
  IntSlot = 9,     ///< next slot (int64)
  Seed = 10,       ///< next seed
  IntList = 11,    ///< count, values...
  BoolList = 12,   ///< count, values...
  List = 13,       ///< count, arguments...
  TableRef = 14,   ///< table id
  StringList = 15, ///< count, string ids...
  Number = 16,     ///< value of an integer that no shape, and no way to compute, depends on
  /// In general forms alone (compile/General.h): a number of the run, by its position; and a window whose place such
  /// numbers say: storage id, rank, sizes..., strides..., offset of the dims that stay, rank as it is seen, sizes...,
  /// count of dims that move, (dim, position)...
  RunNumber = 17,
  MovedView = 18,
  TypedView = 19, ///< as View, then the Element: the storage's bits, or the parts of its numbers
  Complex = 20    ///< bits of two float64
};

/// A source position: where the user's program was when an op was recorded.
struct SourceLine {
  std::string file;
  int line = 0;
};

/// A place in the user's program that is resolved only when somebody asks. The frame source keeps
/// what `code` points to alive.
struct Frame {
  const void *code = nullptr;
  int instruction = 0;
};

/// Per op record: where it was called, and for backward the forward op's place too.
struct Origin {
  Frame frame;
  Frame forward; ///< code == nullptr unless recorded by backward
};

struct Trace {
  std::vector<Word> inputs;
  std::vector<Word> words;
  std::vector<Word> tables;
  std::vector<uint64_t> slots;   ///< bits, float64 or int64
  std::vector<uint32_t> slotOps; ///< per slot, its op record's position in `origins`
  size_t runNumbers = 0;         ///< of a general form: slots (int64) that follow the recorded ones
  std::vector<uint64_t> seeds;
  std::vector<Origin> origins; ///< one per op record
  int64_t storageCount = 0;
  Element defaultFloat = Element::f32; ///< as the last record of one says
  unsigned parties = 0;                ///< members of the group that it is for; 0: a single owner

  /// Where a trace ends; its tables are marked by those who write them (TableRecords).
  struct Mark {
    size_t inputs = 0, words = 0, slots = 0, seeds = 0, origins = 0;
    int64_t storages = 0;
    Element defaultFloat = Element::f32;
  };
  Mark mark() const;
  /// Forgets what was recorded since.
  void truncate(const Mark &mark);

  /// Forgets all, and keeps the memory of a trace of usual length for the next one.
  void clear();
  void push(Word word) { words.push_back(word); }
  void push(Tag tag) { words.push_back(static_cast<Word>(tag)); }
  void push(Record record) { words.push_back(static_cast<Word>(record)); }
  /// Ops from here on are recorded under this default dtype.
  void setDefaultFloat(Element element) {
    if (defaultFloat != element) {
      defaultFloat = element;
      push(Record::DefaultFloat);
      push(static_cast<Word>(element));
    }
  }
};

/// Per slot, the origin of the op record that uses it.
std::vector<Origin> originsOfSlots(const Trace &trace);

/// 128-bit hash of the stream (XXH3).
struct TraceKey {
  uint64_t low = 0, high = 0;
  auto operator<=>(const TraceKey &) const = default;
};
TraceKey hashTrace(const Trace &trace);
/// Of `words` in the place of the trace's own, and of what else they need.
TraceKey hashTrace(const Trace &trace, const std::vector<Word> &words, const std::vector<Word> &more);
/// Tests make every trace collide; full comparison must still tell them apart.
void forceHashCollisions(bool enabled);

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_RECORDING_TRACE_H
