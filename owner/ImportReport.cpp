// SPDX-License-Identifier: Apache-2.0
// As JSON.
#include "owner/ImportReport.h"

#include "dialect/Bounds.h"
#include "owner/Entry.h"
#include "owner/Error.h"
#include "owner/Text.h"
#include "runtime/Limits.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/JSON.h"

#include <cmath>
#include <set>

namespace sojourn::owner {

using runtime::Element;
namespace json = llvm::json;

namespace {

/// Those of storedEntry.
constexpr Element kElements[] = {Element::i1,  Element::u8,  Element::i8,  Element::i16,
                                 Element::i32, Element::i64, Element::f32, Element::f64};

json::Object textOf(const Column &column) {
  json::Object object{{"name", column.name}, {"element", static_cast<int64_t>(column.element)}, {"dims", column.dims}};
  if (column.bounds) {
    object["lower"] = column.bounds->lower;
    object["upper"] = column.bounds->upper;
  }
  if (const Meaning *meaning = column.meaning.get()) {
    object["texts"] = meaning->texts;
    object["numbers"] = meaning->numbers;
    object["unit"] = static_cast<int64_t>(meaning->unit);
    object["isFound"] = meaning->isFound;
    if (meaning->fill) {
      object["fill"] = *meaning->fill;
    }
  }
  return object;
}

/// Whether a list was there whose entries `take` takes.
bool readList(const json::Object &object, const char *name, llvm::function_ref<bool(const json::Value &)> take) {
  const json::Array *list = object.getArray(name);
  return list && llvm::all_of(*list, take);
}

bool readMeaning(const json::Object &object, Meaning &meaning) {
  const bool areLists = readList(object, "texts",
                                 [&](const json::Value &each) {
                                   auto text = each.getAsString();
                                   meaning.texts.push_back(text ? text->str() : "");
                                   return text.has_value();
                                 }) &&
                        readList(object, "numbers", [&](const json::Value &each) {
                          auto number = each.getAsInteger();
                          meaning.numbers.push_back(number.value_or(0));
                          return number.has_value();
                        });
  auto unit = object.getInteger("unit");
  auto isFound = object.getBoolean("isFound");
  if (auto fill = object.getNumber("fill")) {
    meaning.fill = *fill;
  }
  if (!areLists || !unit || *unit < 0 || *unit > static_cast<int64_t>(Unit::Seconds) || !isFound) {
    return false;
  }
  meaning.unit = static_cast<Unit>(*unit);
  meaning.isFound = *isFound;
  return problemOf(meaning).empty();
}

bool readColumn(const json::Value &value, Column &column) {
  const json::Object *object = value.getAsObject();
  auto name = object ? object->getString("name") : std::nullopt;
  auto element = object ? object->getInteger("element") : std::nullopt;
  if (!name || !element || name->empty() || printableName(*name) != *name) {
    return false;
  }
  column.name = name->str();
  const auto *known = llvm::find_if(kElements, [&](Element each) { return static_cast<int64_t>(each) == *element; });
  const bool areDims = readList(*object, "dims", [&](const json::Value &each) {
    column.dims.push_back(each.getAsInteger().value_or(0));
    return column.dims.size() <= bounds::kEntryRank;
  });
  if (known == std::end(kElements) || !areDims) {
    return false;
  }
  column.element = *known;
  if (llvm::Error error = checkEntry(column.name, column.dims)) {
    llvm::consumeError(std::move(error));
    return false;
  }
  auto lower = object->getNumber("lower"), upper = object->getNumber("upper");
  if (lower && upper) {
    column.bounds = Bounds{*lower, *upper};
    if (!std::isfinite(*lower) || !std::isfinite(*upper) || *lower > *upper) {
      return false;
    }
  }
  if (object->get("texts")) {
    Meaning meaning;
    if (!readMeaning(*object, meaning)) {
      return false;
    }
    column.meaning = std::make_shared<const Meaning>(std::move(meaning));
  }
  return true;
}

} // namespace

std::string importReport(const DatasetRecord &record) {
  json::Array columns;
  for (const Column &column : record.columns) {
    columns.push_back(textOf(column));
  }
  std::string text;
  llvm::raw_string_ostream(text) << json::Value(json::Object{{"rows", record.rows},
                                                             {"hash", record.contentHash},
                                                             {"hasSubjects", !record.subjectsFile->empty()},
                                                             {"columns", std::move(columns)}});
  return text;
}

llvm::Error readReport(llvm::StringRef report, DatasetRecord &record) {
  auto parsed = json::parse(report);
  const json::Object *object = parsed ? parsed->getAsObject() : nullptr;
  auto rows = object ? object->getInteger("rows") : std::nullopt;
  auto hash = object ? object->getString("hash") : std::nullopt;
  auto hasSubjects = object ? object->getBoolean("hasSubjects") : std::nullopt;
  std::vector<Column> columns;
  std::set<std::string> names;
  bool isGood = rows && *rows > 0 && *rows <= bounds::kTableRows && hash && hash->size() == 64 && hasSubjects &&
                readList(*object, "columns", [&](const json::Value &each) {
                  return columns.size() < bounds::kColumns && readColumn(each, columns.emplace_back()) &&
                         names.insert(columns.back().name).second;
                });
  isGood = isGood && !columns.empty() && *hasSubjects == (record.subject && !record.subject->empty());
  if (!parsed) {
    llvm::consumeError(parsed.takeError());
  }
  if (!isGood) {
    return failure("the process that read the file reported no valid table; the file is hostile, or sojourn-owner has "
                   "a bug");
  }
  record.rows = *rows;
  record.contentHash = hash->str();
  record.subjectsFile = *hasSubjects ? record.version + ".subjects" : "";
  record.columns = std::move(columns);
  return llvm::Error::success();
}

} // namespace sojourn::owner
