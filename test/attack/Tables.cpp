// SPDX-License-Identifier: Apache-2.0
// Contents of tables (see Tables.h).
#include "test/attack/Tables.h"

#include "llvm/Support/Error.h"

#include <cmath>
#include <cstring>

using namespace sojourn;
using namespace sojourn::attack;
using runtime::Element;

int64_t ColumnShape::numbers() const {
  int64_t count = 1;
  for (int64_t size : dims) {
    count *= size;
  }
  return count;
}

const ColumnShape *TableShape::column(llvm::StringRef columnName) const {
  for (const ColumnShape &column : columns) {
    if (column.name == columnName) {
      return &column;
    }
  }
  return nullptr;
}

const std::vector<TableShape> &attack::tableShapes() {
  static const std::vector<ColumnShape> columns = {
      {"a", Element::f64, {}, -2, 3},   {"h", Element::f32, {}, 0, 1},       {"n", Element::i64, {}, 0, 11},
      {"b", Element::i1, {}, 0, 1},     {"m", Element::f32, {2, 48}, -4, 4}, {"v", Element::f64, {64}, -1, 1},
      {"w", Element::f32, {96}, -1, 1},
  };
  // A wide one, for draws of more rows than the private ones have.
  static const std::vector<TableShape> shapes = {{"people", true, 24, columns},
                                                 {"others", true, 16, columns},
                                                 {"open", false, 24, columns},
                                                 {"wide", false, 256, {{"n", Element::i64, {}, 0, 255}}}};
  return shapes;
}

const TableShape *attack::findShape(llvm::StringRef name) {
  for (const TableShape &shape : tableShapes()) {
    if (shape.name == name) {
      return &shape;
    }
  }
  return nullptr;
}

static size_t bytesOf(Element element) { return runtime::TensorType{element, {}}.bytes(); }

Contents::Contents(const TableShape &shape, Dice &dice) : is(shape) {
  for (const ColumnShape &column : shape.columns) {
    data.emplace_back(static_cast<size_t>(shape.rows * column.numbers()) * bytesOf(column.element));
  }
  // All rows alike, each number at the same end or in the middle: then one row makes all the difference.
  std::optional<double> part;
  if (dice.chance(0.4)) {
    part = dice.of({0.0, 1.0, 0.5});
  }
  for (int64_t row = 0; row < shape.rows; ++row) {
    setRow(row, dice, part);
  }
  wrap();
}

Contents::Contents(const Contents &other, int64_t row, Dice &dice) : is(other.is), data(other.data) {
  setRow(row, dice);
  wrap();
}

void Contents::setRow(int64_t row, Dice &dice, std::optional<double> all) {
  bool isExtreme = dice.chance(0.5);
  if (!all && dice.chance(0.2)) { // a row of one number
    all = dice.of({0.0, 1.0, 0.5});
  }
  // Stretches of an array at one end and at the other: sums of parts of it are as far apart as they can be.
  int64_t stretch = !all && dice.chance(0.3) ? int64_t{1} << dice.below(7) : 0;
  for (auto [column, bytes] : llvm::zip(is.columns, data)) {
    for (int64_t k = 0; k < column.numbers(); ++k) {
      double part = stretch > 0                     ? static_cast<double>(k / stretch % 2)
                    : isExtreme || dice.chance(0.3) ? static_cast<double>(dice.below(2))
                                                    : dice.unit();
      part = all.value_or(part);
      double value = column.lower + part * (column.upper - column.lower);
      if (column.element == Element::i64 || column.element == Element::i1) {
        value = std::floor(value);
      }
      size_t size = bytesOf(column.element);
      runtime::convertElements(Element::f64, &value, column.element,
                               bytes.data() + static_cast<size_t>(row * column.numbers() + k) * size, 1);
    }
  }
}

void Contents::wrap() {
  std::vector<owner::Column> columns;
  for (auto [column, bytes] : llvm::zip(is.columns, data)) {
    columns.push_back(
        {column.name, column.element, owner::Bounds{column.lower, column.upper}, bytes.data(), column.dims});
  }
  held = std::make_shared<owner::Dataset>(is.name, "", is.rows, std::move(columns), nullptr);
}

void Contents::readRows(llvm::ArrayRef<std::string> columns, llvm::ArrayRef<int64_t> indices, Element element,
                        void *out) const {
  for (int64_t row : indices) {
    if (row >= 0 && row < is.rows) {
      ++readings[row];
    }
  }
  owner::TableRows(held).readRows(columns, indices, element, out);
}

void Contents::enter(owner::Owner &owner) const {
  owner::RegisterOptions options;
  options.name = is.name;
  options.policy = is.isPrivate ? owner::Policy::privateOnly : owner::Policy::open;
  options.subject = "";
  owner::DatasetSource source;
  for (auto [column, bytes] : llvm::zip(is.columns, data)) {
    if (column.element != Element::i1) {
      options.bounds[column.name] = {column.lower, column.upper};
    }
    source.arrays.push_back({column.name, column.element, is.rows, bytes.data(), column.dims});
  }
  llvm::cantFail(owner.registerDataset(source, options), "a table of the attacker's world is refused");
}
