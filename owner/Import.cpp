// SPDX-License-Identifier: Apache-2.0
// Checked columns from files and arrays: types, finite values, fills, bounds.
#include "owner/Import.h"

#include "dialect/Bounds.h"
#include "owner/Codes.h"
#include "owner/Entry.h"
#include "owner/Error.h"
#include "owner/ImportMemory.h"
#include "owner/Limits.h"
#include "owner/Npz.h"
#include "owner/ReadFile.h"
#include "owner/Subject.h"
#include "owner/Text.h"
#include "runtime/Limits.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <arrow/api.h>
#include <arrow/util/float16.h>
#include <cmath>
#include <filesystem>
#include <limits>
#include <new>
#include <set>
#include <sodium.h>

namespace sojourn::owner {

using llvm::Twine;
using runtime::Element;

namespace {

/// Memory of imported columns.
struct ColumnMemory {
  std::vector<std::shared_ptr<runtime::Buffer>> buffers;
};

/// What one column's values have to satisfy, and where they go.
struct ColumnTarget {
  std::string name;
  std::optional<Bounds> bounds;
  std::optional<double> fill;
  void *data = nullptr;
  int64_t perRow = 1; ///< elements of an entry
  int64_t next = 0;   ///< element, counted over all rows
};

std::string rangeText(const Bounds &bounds) {
  return "[" + numberText(bounds.lower) + ", " + numberText(bounds.upper) + "]";
}

/// The declared rules as values of the column's own type.
template <class T>
struct TypedRules {
  T lower, upper, fill;
};

template <class T>
llvm::Expected<TypedRules<T>> typedRules(const ColumnTarget &target, bool isBoolean) {
  using Range = std::numeric_limits<T>;
  TypedRules<T> rules{Range::lowest(), Range::max(), T(0)};
  if (isBoolean) {
    rules.upper = T(1);
  }
  if (target.bounds) {
    auto [lower, upper] = *target.bounds;
    if constexpr (std::is_integral_v<T>) {
      double low = std::ceil(lower), high = std::floor(upper);
      // The largest int64 is not a double; a bound at or above it does not bind.
      if (low > static_cast<double>(rules.upper) || high < static_cast<double>(rules.lower) || low > high) {
        return failure("bounds " + rangeText(*target.bounds) + " of column '" + target.name +
                       "' contain no value of its integer type");
      }
      if (low > static_cast<double>(rules.lower)) {
        rules.lower = static_cast<T>(low);
      }
      if (high < static_cast<double>(rules.upper)) {
        rules.upper = static_cast<T>(high);
      }
    } else { // round inwards: what is declared holds for the stored values exactly
      auto low = static_cast<T>(std::max(lower, double(Range::lowest())));
      auto high = static_cast<T>(std::min(upper, double(Range::max())));
      rules.lower = double(low) < lower ? std::nextafter(low, Range::max()) : low;
      rules.upper = double(high) > upper ? std::nextafter(high, Range::lowest()) : high;
      if (rules.lower > rules.upper) {
        return failure("bounds " + rangeText(*target.bounds) + " of column '" + target.name +
                       "' contain no float32 value; widen them");
      }
    }
  }
  if (target.fill) {
    double fill = *target.fill;
    bool whole = std::is_floating_point_v<T> || fill == std::floor(fill);
    if (!whole || !(fill >= double(rules.lower)) || !(fill <= double(rules.upper)) ||
        (std::is_integral_v<T> && fill >= 9223372036854775808.0)) {
      return failure("fill value " + numberText(fill) + " of column '" + target.name +
                     "' is not a value of that column within its bounds");
    }
    rules.fill = static_cast<T>(fill);
  }
  return rules;
}

/// Copies `count` values; `valid(i)` tells whether there is one, `get(i)` gives it.
template <class T, class Valid, class Get>
llvm::Error addValues(ColumnTarget &target, bool isBoolean, int64_t count, Valid valid, Get get) {
  auto rules = typedRules<T>(target, isBoolean);
  if (!rules) {
    return rules.takeError();
  }
  auto *out = static_cast<T *>(target.data) + target.next;
  for (int64_t index = 0; index < count; ++index) {
    const char *wrong = nullptr;
    T value = rules->fill;
    if (!valid(index)) {
      wrong = "no value";
    } else {
      value = static_cast<T>(get(index));
      if constexpr (std::is_floating_point_v<T>) {
        if (!std::isfinite(value)) {
          wrong = std::isnan(value) ? "NaN" : "an infinite value";
          value = rules->fill;
        }
      }
    }
    if (wrong && !target.fill) {
      return failure("column '" + target.name + "', row " + Twine((target.next + index) / target.perRow) +
                     " (counting from 0): " + wrong +
                     " found, expected a finite number; clean the data or declare a replacement (fill, --fill " +
                     target.name + "=VALUE)");
    }
    out[index] = value < rules->lower ? rules->lower : value > rules->upper ? rules->upper : value;
  }
  target.next += count;
  return llvm::Error::success();
}

template <class T, class ArrowArray>
llvm::Error addArray(ColumnTarget &target, const Elements &elements, bool isBoolean = false) {
  auto &typed = static_cast<const ArrowArray &>(*elements.values);
  return addValues<T>(
      target, isBoolean, typed.length(),
      [&](int64_t index) { return typed.IsValid(index) && (elements.gaps.empty() || elements.covers(index)); },
      [&](int64_t index) { return typed.Value(index); });
}

llvm::Error addChunk(ColumnTarget &target, const std::shared_ptr<arrow::Array> &chunk) {
  Elements elements = elementsOf(chunk);
  const arrow::Array &array = *elements.values;
  switch (array.type_id()) {
  case arrow::Type::BOOL: return addArray<uint8_t, arrow::BooleanArray>(target, elements, true);
  case arrow::Type::UINT8: return addArray<uint8_t, arrow::UInt8Array>(target, elements);
  case arrow::Type::INT8: return addArray<int8_t, arrow::Int8Array>(target, elements);
  case arrow::Type::INT16: return addArray<int16_t, arrow::Int16Array>(target, elements);
  case arrow::Type::UINT16: return addArray<int32_t, arrow::UInt16Array>(target, elements);
  case arrow::Type::INT32: return addArray<int32_t, arrow::Int32Array>(target, elements);
  case arrow::Type::UINT32: return addArray<int64_t, arrow::UInt32Array>(target, elements);
  case arrow::Type::INT64: return addArray<int64_t, arrow::Int64Array>(target, elements);
  case arrow::Type::FLOAT: return addArray<float, arrow::FloatArray>(target, elements);
  case arrow::Type::DOUBLE: return addArray<double, arrow::DoubleArray>(target, elements);
  case arrow::Type::HALF_FLOAT: {
    auto &typed = static_cast<const arrow::HalfFloatArray &>(array);
    return addValues<float>(
        target, false, array.length(), [&](int64_t index) { return typed.IsValid(index) && elements.covers(index); },
        [&](int64_t index) { return arrow::util::Float16::FromBits(typed.Value(index)).ToFloat(); });
  }
  default: // a column without any value
    return addValues<double>(
        target, false, array.length(), [](int64_t) { return false; }, [](int64_t) { return 0.0; });
  }
}

/// A caller's array under Arrow's roof, without a copy where Arrow has the type.
llvm::Expected<std::shared_ptr<arrow::Array>> wrapArray(const NamedArray &array) {
  if (llvm::Error error = checkEntry(array.name, array.dims)) {
    return error;
  }
  if (array.length > bounds::kTableRows) { // also keeps the product below in range
    return failure("column '" + array.name + "' has " + Twine(array.length) + " rows; a table holds up to " +
                   Twine(bounds::kTableRows));
  }
  int64_t elements = array.length * entryElements(array.dims);
  auto wrap = [&](std::shared_ptr<arrow::DataType> type, const void *data) {
    auto bytes = elements * static_cast<int64_t>(runtime::byteWidth(array.element));
    auto buffer = std::make_shared<arrow::Buffer>(static_cast<const uint8_t *>(data), bytes);
    auto values = arrow::MakeArray(arrow::ArrayData::Make(std::move(type), elements, {nullptr, buffer}, 0));
    return nestedArray(std::move(values), array.dims);
  };
  switch (array.element) {
  case Element::i1: {
    arrow::BooleanBuilder builder;
    std::shared_ptr<arrow::Array> result;
    auto status = builder.AppendValues(static_cast<const uint8_t *>(array.data), elements);
    if (status.ok()) {
      status = builder.Finish(&result);
    }
    if (!status.ok()) {
      return failure("column '" + array.name + "': there is not enough memory");
    }
    return nestedArray(std::move(result), array.dims);
  }
  case Element::u8: return wrap(arrow::uint8(), array.data);
  case Element::i8: return wrap(arrow::int8(), array.data);
  case Element::i16: return wrap(arrow::int16(), array.data);
  case Element::i32: return wrap(arrow::int32(), array.data);
  case Element::i64: return wrap(arrow::int64(), array.data);
  case Element::f16: return wrap(arrow::float16(), array.data);
  case Element::f32: return wrap(arrow::float32(), array.data);
  case Element::f64: return wrap(arrow::float64(), array.data);
  default:
    return failure("column '" + array.name + "' has element " + std::string(runtime::elementName(array.element)) +
                   ", expected booleans, integers or floats up to f64");
  }
}

llvm::Expected<std::shared_ptr<arrow::Table>> wrapArrays(const std::vector<NamedArray> &arrays) {
  std::vector<std::shared_ptr<arrow::Field>> fields;
  std::vector<std::shared_ptr<arrow::ChunkedArray>> columns;
  for (const NamedArray &array : arrays) {
    if (array.length != arrays.front().length) {
      return failure("column '" + array.name + "' has " + Twine(array.length) + " rows, but column '" +
                     arrays.front().name + "' has " + Twine(arrays.front().length));
    }
    auto wrapped = wrapArray(array);
    if (!wrapped) {
      return wrapped.takeError();
    }
    fields.push_back(arrow::field(array.name, (*wrapped)->type()));
    columns.push_back(std::make_shared<arrow::ChunkedArray>(*wrapped));
  }
  return arrow::Table::Make(arrow::schema(fields), columns, arrays.empty() ? 0 : arrays.front().length);
}

/// The columns to keep, in order, after checking every name that the options mention.
llvm::Expected<std::vector<int>> selectColumns(const arrow::Table &table, const RegisterOptions &options) {
  std::vector<std::string> names = table.ColumnNames();
  std::map<std::string, int> index;
  for (size_t position = 0; position < names.size(); ++position) {
    if (names[position].empty()) {
      return failure("column " + Twine(position) + " (counting from 0) has no name; add a header");
    }
    if (printableName(names[position]) != names[position]) {
      return failure("the name of column " + Twine(position) +
                     " (counting from 0) is too long or not plain UTF-8 text; rename it");
    }
    if (!index.emplace(names[position], static_cast<int>(position)).second) {
      return failure("column '" + names[position] + "' appears twice; rename one of the two");
    }
  }
  std::string known;
  for (size_t position = 0; position < names.size() && position < 20; ++position) {
    known += (position ? ", '" : "'") + names[position] + "'";
  }
  known += names.size() > 20 ? ", ..." : "";
  std::vector<int> selection;
  std::set<std::string> kept;
  std::string subject = options.subject.value_or("");
  for (const std::string &name : options.columns.empty() ? names : options.columns) {
    if (!subject.empty() && name == subject) {
      continue; // whose row it is belongs to the owner alone
    }
    auto found = index.find(name);
    if (found == index.end()) {
      return failure("unknown column '" + name + "' in the columns to keep; the table has " + known);
    }
    if (!kept.insert(name).second) {
      return failure("column '" + name + "' is named twice in the columns to keep");
    }
    selection.push_back(found->second);
  }
  auto checkName = [&](const std::string &name, const char *what) -> llvm::Error {
    return kept.count(name) || (!subject.empty() && name == subject && index.count(name))
               ? llvm::Error::success()
               : failure(Twine(what) + " for the unknown column '" + name + "'; the table has " + known);
  };
  auto checkNames = [&](const auto &declared, const char *what) {
    llvm::Error error = llvm::Error::success();
    for (auto each = declared.begin(); !error && each != declared.end(); ++each) {
      error = checkName(each->first, what);
    }
    return error;
  };
  llvm::Error error = checkNames(options.bounds, "bounds are declared");
  error = error ? std::move(error) : checkNames(options.boundTexts, "bounds are declared");
  error = error ? std::move(error) : checkNames(options.fills, "a fill value is declared");
  error = error ? std::move(error) : checkNames(options.fillTexts, "a fill value is declared");
  error = error ? std::move(error) : checkNames(options.meanings, "categories or dates are declared");
  if (error) {
    return error;
  }
  return selection;
}

llvm::Error checkRanges(const std::map<std::string, Bounds> &ranges) {
  for (const auto &[name, bounds] : ranges) {
    if (!std::isfinite(bounds.lower) || !std::isfinite(bounds.upper) || bounds.lower > bounds.upper) {
      return failure("bounds " + rangeText(bounds) + " of column '" + name +
                     "' are not a range; expected two finite numbers, the lower one first");
    }
  }
  return llvm::Error::success();
}

template <class Map>
auto lookup(const Map &map, const std::string &key) {
  auto found = map.find(key);
  return found == map.end() ? std::nullopt : std::optional(found->second);
}

} // namespace

static llvm::Expected<ImportedTable> importChecked(const DatasetSource &source, const RegisterOptions &given) {
  RegisterOptions options = given; // fills and bounds in words become numbers
  // Of a file alone: arrays of the caller are there already.
  ImportMemory &room =
      ImportMemory::lasting(source.path.empty() ? std::numeric_limits<int64_t>::max() : options.maxBytes);
  auto tell = [&](const std::string &stage, int64_t done, int64_t total) {
    if (options.progress) {
      options.progress(stage, done, total);
    }
  };
  tell("reading", 0, 1);
  NpzArrays archive; // holds the memory of an .npz until the copy is done
  llvm::Expected<std::shared_ptr<arrow::Table>> table = nullptr;
  if (source.path.empty()) {
    table = wrapArrays(source.arrays);
  } else if (std::filesystem::path(source.path).extension() == ".npz") {
    auto read = readNpz(source.path, room);
    if (!read) {
      return read.takeError();
    }
    archive = std::move(*read);
    table = wrapArrays(archive.arrays);
  } else {
    table = readFile(source.path, textColumns(options), room);
  }
  if (!table) {
    return table.takeError();
  }
  auto selection = selectColumns(**table, options);
  if (!selection) {
    return selection.takeError();
  }
  int64_t rows = (*table)->num_rows();
  if (rows == 0 || selection->empty()) {
    return failure("the source has " + Twine(rows) + " rows and " + Twine(selection->size()) +
                   " columns, expected at least one of each");
  }
  if (rows > bounds::kTableRows || selection->size() > runtime::limits::kColumns) {
    return failure("the source has " + Twine(rows) + " rows and " + Twine(selection->size()) +
                   " columns; a table holds up to " + Twine(bounds::kTableRows) + " and " + Twine(bounds::kColumns));
  }
  table = encodeColumns(*table, *selection, source, options, room);
  if (!table) {
    return table.takeError();
  }
  if (llvm::Error error = checkRanges(options.bounds)) {
    return error;
  }
  ImportedTable result;
  if (options.subject && !options.subject->empty()) {
    tell("subjects", 0, 1);
    auto subjects = readSubjects(**table, *options.subject);
    if (!subjects) {
      return subjects.takeError();
    }
    result.subjects = std::move(*subjects);
  }
  std::vector<Entry> entries;
  std::vector<std::string> lacking;
  int64_t bytes = 0;
  for (int index : *selection) {
    auto entry = storedEntry(*(*table)->schema()->field(index));
    if (!entry) {
      return entry.takeError();
    }
    // Rows and an entry's elements are bounded, so that no product or sum leaves 64 bits.
    bytes += rows * entryElements(entry->dims) * static_cast<int64_t>(runtime::byteWidth(entry->element));
    if (bytes > kTableBytes) {
      return failure("column '" + (*table)->schema()->field(index)->name() + "' (" + Twine(rows) + " rows of " +
                     entryText(entry->element, entry->dims) + ") makes the table larger than " + Twine(kTableBytes) +
                     " bytes, the limit of one table; split it into several tables");
    }
    const std::string &name = (*table)->schema()->field(index)->name();
    if (options.needsBounds && entry->element != Element::i1 && !options.bounds.count(name)) {
      lacking.push_back(name);
    }
    entries.push_back(std::move(*entry));
  }
  if (!lacking.empty()) {
    return failure(lackingBounds(lacking, entries.size()));
  }
  if (llvm::Error error = room.take(bytes, "the table of '" + source.path + "' takes")) {
    return error;
  }
  result.rows = rows;
  auto memory = std::make_shared<ColumnMemory>();
  for (auto [index, entry] : llvm::zip_equal(*selection, entries)) {
    const std::string &name = (*table)->schema()->field(index)->name();
    tell("column " + name, static_cast<int64_t>(result.columns.size()), static_cast<int64_t>(selection->size()));
    int64_t perRow = entryElements(entry.dims);
    memory->buffers.push_back(
        runtime::BufferPool::global().allocate(static_cast<size_t>(rows * perRow) * runtime::byteWidth(entry.element)));
    std::optional<Bounds> bounds = lookup(options.bounds, name);
    if (options.needsBounds && !bounds) {
      bounds = Bounds{0, 1}; // of a boolean
    }
    ColumnTarget target{name, bounds, lookup(options.fills, name), memory->buffers.back()->data(), perRow};
    for (const auto &chunk : (*table)->column(index)->chunks()) {
      if (llvm::Error error = addChunk(target, chunk)) {
        return error;
      }
    }
    const Meaning &meaning = options.meanings[name];
    result.columns.push_back({name, entry.element, target.bounds, target.data, std::move(entry.dims),
                              meaning.isEmpty() ? nullptr : std::make_shared<const Meaning>(meaning)});
  }
  tell("columns", static_cast<int64_t>(selection->size()), static_cast<int64_t>(selection->size()));
  result.storage = std::move(memory);
  return result;
}

llvm::Expected<ImportedTable> importTable(const DatasetSource &source, const RegisterOptions &options) {
  // What libraries throw may show the row.
  try {
    return importChecked(source, options);
  } catch (const std::bad_alloc &) {
    return failure("cannot read '" + source.path + "': there is not enough memory");
  } catch (const std::exception &) {
    return failure("cannot read '" + source.path + "': it is damaged; write it again");
  }
}

std::string lackingBounds(llvm::ArrayRef<std::string> names, size_t columns) {
  constexpr size_t kNamed = 20;
  std::string list = llvm::join(names.take_front(kNamed), "', '");
  return "policy private needs bounds of every column, from public knowledge and not from the data; " +
         std::to_string(names.size()) + " of " + std::to_string(columns) + " have none: '" + list + "'" +
         (names.size() > kNamed ? ", ..." : "") +
         ". Declare them (bounds, --bound COLUMN=LOWER:UPPER, or a file: --bounds), or leave the columns out";
}

std::string contentHash(const ImportedTable &table) {
  crypto_generichash_state state;
  crypto_generichash_init(&state, nullptr, 0, 32);
  auto add = [&](const void *data, size_t size) {
    crypto_generichash_update(&state, static_cast<const unsigned char *>(data), size);
  };
  add(&table.rows, sizeof(table.rows));
  for (const Column &column : table.columns) {
    uint64_t nameBytes = column.name.size();
    add(&nameBytes, sizeof(nameBytes));
    add(column.name.data(), nameBytes);
    add(&column.element, sizeof(column.element));
    uint64_t rank = column.dims.size();
    add(&rank, sizeof(rank));
    add(column.dims.data(), rank * sizeof(int64_t));
    if (column.meaning && column.meaning->categories() > 0) { // else as before there were any
      for (size_t code = 0; code < column.meaning->categories(); ++code) {
        const std::string &text =
            column.meaning->texts.empty() ? std::to_string(column.meaning->numbers[code]) : column.meaning->texts[code];
        uint64_t textBytes = text.size();
        add(&textBytes, sizeof(textBytes));
        add(text.data(), textBytes);
      }
    }
    add(column.data, static_cast<size_t>(table.rows * entryElements(column.dims)) * runtime::byteWidth(column.element));
  }
  unsigned char hash[32];
  crypto_generichash_final(&state, hash, sizeof(hash));
  char text[65];
  sodium_bin2hex(text, sizeof(text), hash, sizeof(hash));
  return text;
}

} // namespace sojourn::owner
