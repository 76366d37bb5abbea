// SPDX-License-Identifier: Apache-2.0
// Files with tables: those that a data owner imports (.csv, .tsv, .npz, .arrow) and those that tables rest in. The
// first byte of an input chooses the format, the second one what is declared of the columns.
#include "owner/Entry.h"
#include "owner/Import.h"
#include "owner/ReadFile.h"
#include "test/fuzz/Bytes.h"
#include "test/owner/Archives.h"

#include <filesystem>

namespace sojourn::fuzz {

namespace {

using runtime::Element;

constexpr int64_t kImportBytes = int64_t{64} << 20;

enum Format : uint8_t { kCsv, kTsv, kNpz, kArrow, kResting, kFormats };
const char *const kExtensions[kFormats] = {".csv", ".tsv", ".npz", ".arrow", ".arrow"};

/// Of columns that seeds and mutants have.
owner::RegisterOptions declared(uint8_t choice) {
  owner::RegisterOptions options;
  options.name = "t";
  options.policy = owner::Policy::open;
  options.maxBytes = kImportBytes;
  if ((choice & 1) != 0) {
    options.bounds = {{"a", {-2, 3}}, {"n", {0, 11}}, {"k", {-1e300, 1e300}}};
    options.fills = {{"a", 0.5}, {"n", 3}};
  }
  if ((choice & 2) != 0) {
    options.subject = "id";
  }
  if ((choice & 4) != 0) {
    options.meanings["s"].texts = {"low", "high"};
    options.fillTexts = {{"s", "low"}};
  }
  if ((choice & 8) != 0) {
    options.untyped = {"s"};
  }
  if ((choice & 16) != 0) {
    options.columns = {"a"};
  }
  return options;
}

/// What the file that a table rests in is said to hold.
std::vector<owner::Column> resting() {
  return {{"a", Element::f64, owner::Bounds{-2, 3}},
          {"n", Element::i64, std::nullopt},
          {"b", Element::i1, std::nullopt},
          {"m", Element::f32, std::nullopt, nullptr, {2, 3}}};
}
constexpr int64_t kRestingRows = 5;

class Tables final : public Target {
protected:
  void play(std::string_view input) override;
  std::string change(std::string input, size_t most, Dice &dice) override;

private:
  void import(const std::string &path, const owner::RegisterOptions &options);
  void map(const std::string &path);
};

void Tables::play(std::string_view input) {
  if (input.size() < 2) {
    ++counts.refused;
    return;
  }
  const auto format = static_cast<uint8_t>(input[0]) % kFormats;
  const std::string path = scratchFolder() + "/table" + kExtensions[format];
  writeFile(path, input.substr(2));
  if (format == kResting) {
    map(path);
  } else {
    import(path, declared(static_cast<uint8_t>(input[1])));
  }
}

void Tables::import(const std::string &path, const owner::RegisterOptions &options) {
  owner::DatasetSource source;
  source.path = path;
  auto table = owner::importTable(source, options);
  if (!table) {
    llvm::consumeError(table.takeError());
    ++counts.refused;
    return;
  }
  // What was taken is written, mapped and equal.
  const std::string rest = scratchFolder() + "/rest.arrow";
  if (llvm::Error error = owner::writeTable(*table, rest)) {
    broken("an imported table cannot be written: " + llvm::toString(std::move(error)));
  }
  std::vector<owner::Column> expected = table->columns;
  for (const owner::Column &column : expected) {
    if (auto bounds = column.bounds; bounds && column.element == Element::f64) {
      const auto *values = static_cast<const double *>(column.data);
      for (int64_t at = 0; at < table->rows * owner::entryElements(column.dims); ++at) {
        if (!(values[at] >= bounds->lower && values[at] <= bounds->upper)) {
          broken("a value of column '" + column.name + "' is outside of its bounds");
        }
      }
    }
  }
  auto mapped = owner::mapTable(rest, table->rows, expected);
  if (!mapped) {
    broken("an imported table cannot be mapped: " + llvm::toString(mapped.takeError()));
  }
  if (owner::contentHash(*mapped) != owner::contentHash(*table)) {
    broken("a table has other contents once it is mapped");
  }
  ++counts.done;
}

void Tables::map(const std::string &path) {
  auto mapped = owner::mapTable(path, kRestingRows, resting());
  if (!mapped) {
    llvm::consumeError(mapped.takeError());
    ++counts.refused;
    return;
  }
  (void)owner::contentHash(*mapped); // reads each value
  ++counts.done;
}

std::string cellOf(Dice &dice, size_t column) {
  if (dice.chance(0.03)) {
    return dice.of<std::string>(
        {"", "NA", "nan", "-inf", "1e999", "9223372036854775808", "x", "\"", "1,5", "0x1p3", "\xff"});
  }
  switch (column) {
  case 0: return std::to_string(dice.between(-20, 30) / 8.0);
  case 1: return std::to_string(dice.between(0, 11));
  case 2: return dice.of<std::string>({"low", "high"});
  case 3: return std::to_string(dice.word() >> 44);
  case 4: return dice.of<std::string>({"2020-02-29", "1969-12-31", "2024-01-01"});
  default: return std::to_string(edgeReal(dice));
  }
}

/// A text with a heading, most of it as it should be.
std::string textTable(char comma, Dice &dice) {
  static const char *const names[] = {"a", "n", "s", "id", "d", "k"};
  const size_t columns = 1 + dice.below(std::size(names)), rows = 1 + dice.below(12);
  std::string text;
  for (size_t row = 0; row <= rows; ++row) {
    for (size_t column = 0; column < columns; ++column) {
      text += (column > 0 ? std::string(1, comma) : "") + (row == 0 ? names[column] : cellOf(dice, column));
    }
    text += dice.chance(0.02) ? "\r\n" : "\n";
  }
  return text;
}

std::string archive(Dice &dice) {
  std::vector<std::pair<std::string, std::string>> members;
  const size_t rows = 1 + dice.below(6);
  static const char *const names[] = {"a", "n", "k", "m"};
  for (size_t at = 0, count = 1 + dice.below(std::size(names)); at < count; ++at) {
    const auto [descr, width] = dice.of<std::pair<const char *, size_t>>(
        {{"<f8", 8}, {"<f4", 4}, {"<i8", 8}, {"<i2", 2}, {"|u1", 1}, {"<u4", 4}, {"<f2", 2}, {"|b1", 1}, {">f8", 8}});
    std::string shape = "(" + std::to_string(rows) + ",";
    size_t entry = 1;
    for (size_t more = dice.chance(0.3) ? 1 + dice.below(2) : 0; more > 0; --more) {
      const size_t size = 1 + dice.below(4);
      entry *= size;
      shape += " " + std::to_string(size) + ",";
    }
    std::string data(rows * entry * width, '\0');
    for (size_t number = 0; number < rows * entry; ++number) {
      data[number * width] = static_cast<char>(dice.below(2)); // small integers, tiny reals
    }
    if (dice.chance(0.1)) {
      data.resize(data.size() - 1);
    }
    members.emplace_back(std::string(names[at]) + ".npy", owner::test::npy(descr, shape + ")", data, dice.chance(0.3)));
  }
  return owner::test::zip(members, dice.chance(0.5));
}

/// A file as the owner's own, of the columns that are expected of it.
std::string restingTable(Dice &dice) {
  std::vector<std::vector<uint64_t>> memory;
  owner::ImportedTable table;
  table.rows = kRestingRows;
  for (owner::Column column : resting()) {
    const auto count = static_cast<size_t>(kRestingRows * owner::entryElements(column.dims));
    memory.emplace_back(count);
    for (uint64_t &word : memory.back()) {
      word = column.element == Element::i1 ? 0 : dice.word();
    }
    column.data = memory.back().data();
    table.columns.push_back(column);
  }
  const std::string path = scratchFolder() + "/made.arrow";
  if (llvm::Error error = owner::writeTable(table, path)) {
    broken("a table cannot be written: " + llvm::toString(std::move(error)));
  }
  std::string bytes(std::filesystem::file_size(path), '\0');
  std::FILE *file = std::fopen(path.c_str(), "rb");
  bytes.resize(std::fread(bytes.data(), 1, bytes.size(), file));
  std::fclose(file);
  return bytes;
}

std::string Tables::change(std::string input, size_t most, Dice &dice) {
  if (input.size() < 2 || !dice.chance(0.2 + 2 * wildness())) {
    const auto format = static_cast<uint8_t>(dice.below(kFormats));
    std::string made;
    switch (format) {
    case kCsv: made = textTable(',', dice); break;
    case kTsv: made = textTable('\t', dice); break;
    case kNpz: made = archive(dice); break;
    default: made = restingTable(dice);
    }
    // Of the columns that are declared there may be none.
    const bool isDeclared = dice.chance(2 * wildness());
    const auto choice = static_cast<char>(isDeclared ? dice.below(32) : 0);
    return (std::string{static_cast<char>(format), choice} + made).substr(0, most);
  }
  if (dice.chance(0.1)) {
    input[1] = static_cast<char>(dice.below(32));
    return input;
  }
  const auto format = static_cast<uint8_t>(input[0]) % kFormats;
  if (format <= kTsv && dice.chance(0.6)) { // a cell for a cell
    size_t at = input.find_first_of(",\t\n", 2 + dice.below(input.size() - 1));
    if (at != std::string::npos) {
      const size_t end = std::min(input.find_first_of(",\t\n", at + 1), input.size());
      input.replace(at + 1, end - at - 1, cellOf(dice, dice.below(6)));
      return input.substr(0, most);
    }
  }
  if (format >= kNpz && dice.chance(0.6)) { // a number, most of which are contents
    const size_t width = dice.of<size_t>({1, 2, 4, 8});
    if (input.size() > 2 + width) {
      mutateNumber(input.data() + 2 + dice.below(input.size() - 2 - width), width, dice);
      return input;
    }
  }
  return input.substr(0, 2) + mutateBytes(input.substr(2), most - 2);
}

const Registered known("tables", [] { return std::unique_ptr<Target>(std::make_unique<Tables>()); });

} // namespace

} // namespace sojourn::fuzz
