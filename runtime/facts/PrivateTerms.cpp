// SPDX-License-Identifier: Apache-2.0
// Terms as a key, to bytes and back (see PrivateTerms.h).
#include "runtime/facts/PrivateTerms.h"

#include "runtime/Error.h"
#include "runtime/Limits.h"
#include "runtime/facts/ReadBytes.h"
#include "runtime/facts/Terms_generated.h"

#include "llvm/ADT/Twine.h"
#include "llvm/Support/raw_ostream.h"

namespace sojourn::runtime {

namespace wire = sojourn_wire;
using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;
using llvm::Twine;

std::string PrivateTerms::key() const {
  std::string text;
  llvm::raw_string_ostream out(text);
  // Of fixed width; what may be there or not comes after a count, so that no two terms have one text.
  auto number = [&](double value) { out.write(reinterpret_cast<const char *>(&value), sizeof(value)); };
  for (bool isPublic : publicArguments) {
    out << isPublic;
  }
  for (const Table &table : tables) {
    out << "|" << table.isPrivate << ' ' << table.rows;
    for (const Column &column : table.columns) {
      out << ";" << column.name.size() << ":" << column.name << static_cast<int>(column.element)
          << (column.bounds ? '=' : '-');
      if (column.bounds) {
        number(column.bounds->low);
        number(column.bounds->high);
      }
    }
  }
  out << "|" << perLayer << lossIsSum << ' ' << releases.size() << ' ' << slots.size() << ' ';
  for (double value : {noiseMultiplier, clip, metricBound, metricShare}) {
    number(value);
  }
  for (const terms::Release &release : releases) {
    number(release.bound);
    number(release.rho);
    number(release.laplaceEpsilon);
    out << release.continues << ' ';
  }
  for (uint64_t word : slots) {
    out << word << ' ';
  }
  for (size_t index = 0; index < extents.size(); ++index) {
    if (extents[index]) {
      out << '|' << index << ' ';
      number(extents[index]->low);
      number(extents[index]->high);
    }
  }
  return text;
}

std::string writeTerms(const PrivateTerms &terms) {
  FlatBufferBuilder builder;
  std::vector<Offset<wire::TableTerms>> tables;
  for (uint32_t argument = 0; argument < terms.tables.size(); ++argument) {
    const PrivateTerms::Table &table = terms.tables[argument];
    std::vector<Offset<wire::ColumnTerms>> columns;
    for (const PrivateTerms::Column &column : table.columns) {
      const Extent bounds = column.bounds.value_or(Extent());
      columns.push_back(wire::CreateColumnTerms(builder, builder.CreateString(column.name),
                                                static_cast<uint8_t>(column.element), column.bounds.has_value(),
                                                bounds.low, bounds.high));
    }
    if (table.isPrivate || table.rows != 0 || !columns.empty()) { // others are no tables
      tables.push_back(
          wire::CreateTableTerms(builder, argument, table.isPrivate, table.rows, builder.CreateVector(columns)));
    }
  }
  std::vector<Offset<wire::ReleaseOfTerms>> releases;
  for (const terms::Release &release : terms.releases) {
    releases.push_back(
        wire::CreateReleaseOfTerms(builder, release.bound, release.rho, release.laplaceEpsilon, release.continues));
  }
  std::vector<wire::RangeTerms> extents;
  for (uint32_t argument = 0; argument < terms.extents.size(); ++argument) {
    if (terms.extents[argument]) {
      extents.emplace_back(argument, terms.extents[argument]->low, terms.extents[argument]->high);
    }
  }
  const std::vector<uint8_t> publicArguments(terms.publicArguments.begin(), terms.publicArguments.end());
  auto releasesVector = builder.CreateVector(releases);
  auto publicVector = builder.CreateVector(publicArguments);
  auto tablesVector = builder.CreateVector(tables);
  auto slots = builder.CreateVector(terms.slots);
  auto extentsVector = builder.CreateVectorOfStructs(extents);
  wire::FinishTermsBuffer(builder, wire::CreateTerms(builder, terms.noiseMultiplier, terms.clip, terms.metricBound,
                                                     terms.metricShare, terms.perLayer, terms.lossIsSum, releasesVector,
                                                     publicVector, tablesVector, slots, extentsVector));
  return {reinterpret_cast<const char *>(builder.GetBufferPointer()), builder.GetSize()};
}

static llvm::Error malformedTerms(const Twine &what) {
  return makeError(ErrorCode::Malformed, ("terms of a step: " + what).str());
}

llvm::Expected<PrivateTerms> readTerms(llvm::StringRef bytes) {
  std::optional<std::vector<uint64_t>> words = wordsOf(bytes);
  flatbuffers::Verifier verifier(words ? reinterpret_cast<const uint8_t *>(words->data()) : nullptr,
                                 words ? bytes.size() : 0, 16, kTablesMost);
  if (!words || !wire::VerifyTermsBuffer(verifier)) {
    return malformedTerms(Twine(bytes.size()) + " bytes are not terms (identifier " + wire::TermsIdentifier() + ")");
  }
  const wire::Terms &from = *wire::GetTerms(words->data());
  PrivateTerms terms;
  static_cast<terms::Defaults &>(terms) = {from.noise_multiplier(), from.clip(), from.metric_bound()};
  terms.metricShare = from.metric_share();
  terms.perLayer = from.per_layer();
  terms.lossIsSum = from.loss_is_sum();
  const size_t count = sizeOf(from.public_arguments());
  if (count > limits::kArguments || sizeOf(from.releases()) > limits::kResults) {
    return malformedTerms(Twine(count) + " arguments and " + Twine(sizeOf(from.releases())) +
                          " releases, a program has up to " + Twine(limits::kArguments) + " and " +
                          Twine(limits::kResults));
  }
  for (size_t at = 0; at < sizeOf(from.releases()); ++at) {
    const auto *release = from.releases()->Get(static_cast<flatbuffers::uoffset_t>(at));
    terms.releases.push_back({release->bound(), release->rho(), release->laplace_epsilon(), release->continues()});
  }
  for (size_t at = 0; at < count; ++at) {
    terms.publicArguments.push_back(from.public_arguments()->Get(static_cast<flatbuffers::uoffset_t>(at)) != 0);
  }
  terms.tables.resize(count);
  terms.extents.resize(count);
  terms.slots = listOf(from.slots());
  Texts texts;
  for (size_t at = 0; at < sizeOf(from.tables()); ++at) {
    const auto *table = from.tables()->Get(static_cast<flatbuffers::uoffset_t>(at));
    if (table->argument() >= count || table->rows() < 0) {
      return malformedTerms("a table of argument " + Twine(table->argument()) + " with " + Twine(table->rows()) +
                            " rows; there are " + Twine(count) + " arguments");
    }
    PrivateTerms::Table &into = terms.tables[table->argument()];
    into = {table->is_private(), table->rows(), {}};
    for (size_t index = 0; index < sizeOf(table->columns()); ++index) {
      const auto *column = table->columns()->Get(static_cast<flatbuffers::uoffset_t>(index));
      const std::optional<Element> element = elementOfNumber(column->element());
      PrivateTerms::Column named;
      if (!element || !texts.take(column->name(), limits::kStringBytes, named.name)) {
        return malformedTerms("a column of element " + Twine(unsigned(column->element())) +
                              ", or with a name beyond the limits");
      }
      named.element = *element;
      if (column->has_bounds()) {
        named.bounds = Extent{column->low(), column->high()};
      }
      into.columns.push_back(std::move(named));
    }
  }
  for (size_t at = 0; at < sizeOf(from.extents()); ++at) {
    const auto *range = from.extents()->Get(static_cast<flatbuffers::uoffset_t>(at));
    if (range->argument() >= count) {
      return malformedTerms("a range of argument " + Twine(range->argument()) + " of " + Twine(count));
    }
    terms.extents[range->argument()] = Extent{range->low(), range->high()};
  }
  return terms;
}

} // namespace sojourn::runtime
