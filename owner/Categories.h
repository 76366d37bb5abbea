// SPDX-License-Identifier: Apache-2.0
// Columns of texts, dictionaries and categories as codes: the positions of their entries among the categories.
#ifndef SOJOURN_OWNER_CATEGORIES_H
#define SOJOURN_OWNER_CATEGORIES_H

#include "owner/SourceColumn.h"

namespace sojourn::owner {

/// Whether each text is a whole number in its shortest form.
bool areWholeNumbers(const std::vector<std::string> &texts);

/// The codes of a file's column. Afterwards its meaning has the categories and `options` their range.
llvm::Expected<ChunkedPtr> codes(SourceColumn &column);

/// Arrays hold codes already: they lie in the range of the categories, if there are any.
llvm::Error checkCodes(const SourceColumn &column);

/// Of a column with categories: `options.fills` becomes the code of the category that the fill names. A number beside
/// texts is a code.
llvm::Error resolveCategoryFill(SourceColumn &column);

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_CATEGORIES_H
