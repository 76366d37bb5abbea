// SPDX-License-Identifier: Apache-2.0
// Prints versions and bounds of the format as the Python module sojourn_wire.format: the build runs it, so that
// owner/numpy has the numbers that C++ was compiled with.
#include "dialect/Bounds.h"
#include "dialect/Version.h"
#include "runtime/Version.h"
#include "runtime/wire/Meaning.h"
#include "runtime/wire/Protocol.h"

#include <cstdint>
#include <cstdio>
#include <initializer_list>

using namespace sojourn;

int main() {
  struct Number {
    const char *name;
    uint64_t value;
  };
  std::puts("# Written by the build from dialect/Bounds.h, dialect/Version.h, runtime/Version.h,\n"
            "# runtime/wire/Meaning.h and runtime/wire/Protocol.h; do not edit.");
  for (auto [name, value] : {Number{"PROTOCOL_VERSION", wire::kProtocolVersion},
                             {"FORMAT_VERSION", runtime::kFormatVersion},
                             {"OLDEST_FORMAT_VERSION", runtime::kOldestFormatVersion},
                             {"FEATURE_PARTIES", runtime::kFeatureParties},
                             {"DIALECT_VERSION", kDialectVersion},
                             {"OLDEST_DIALECT_VERSION", kOldestDialectVersion},
                             {"RANK_MAX", bounds::kRank},
                             {"DIM_MAX", bounds::kDimension},
                             {"VALUE_ELEMENTS_MAX", bounds::kValueElements},
                             {"VALUE_BYTES_MAX", bounds::kValueBytes},
                             {"TABLE_ROWS_MAX", bounds::kTableRows},
                             {"COLUMNS_MAX", bounds::kColumns},
                             {"ENTRY_RANK_MAX", bounds::kEntryRank},
                             {"ENTRY_ELEMENTS_MAX", bounds::kEntryElements},
                             {"PARTIES_LEAST", bounds::kPartiesLeast},
                             {"PARTIES_MOST", bounds::kPartiesMost},
                             {"SEGMENTS_MAX", bounds::kSegments},
                             {"CATEGORIES_MAX", kCategories},
                             {"CATEGORY_BYTES_MAX", kCategoryBytes},
                             {"TABLE_CATEGORY_BYTES_MAX", kTableCategoryBytes}}) {
    std::printf("%s = %llu\n", name, static_cast<unsigned long long>(value));
  }
  return 0;
}
