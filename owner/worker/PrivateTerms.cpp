// SPDX-License-Identifier: Apache-2.0
// The key of terms (see PrivateTerms.h).
#include "owner/worker/PrivateTerms.h"

#include "llvm/Support/raw_ostream.h"

namespace sojourn::owner {

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

} // namespace sojourn::owner
