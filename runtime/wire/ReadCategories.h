// SPDX-License-Identifier: Apache-2.0
// Categories from a verified FlatBuffer: checked before anything is copied.
#ifndef SOJOURN_RUNTIME_WIRE_READCATEGORIES_H
#define SOJOURN_RUNTIME_WIRE_READCATEGORIES_H

#include "runtime/wire/Meaning.h"

namespace sojourn::wire {

/// Reads the two lists of a column into `meaning`. Returns what is wrong with them, as `problemOf` does, or an empty
/// text. `room`: bytes of the message that no list has used yet; an honest message holds each list once, while a
/// hostile one may name the same bytes again and again.
template <class Texts, class Numbers>
std::string readCategories(const Texts *texts, const Numbers *numbers, size_t &room, Meaning &meaning) {
  const size_t count = (texts ? texts->size() : 0) + (numbers ? numbers->size() : 0);
  if (count > kCategories) {
    return "has " + std::to_string(count) + " categories, the limit is " + std::to_string(kCategories);
  }
  size_t bytes = count * sizeof(int64_t); // of a text: its offset and its length
  for (uint32_t code = 0; texts && code < texts->size(); ++code) {
    bytes += texts->Get(code)->size();
  }
  if (bytes > room) {
    return "has categories of " + std::to_string(bytes) + " bytes, more than the message holds";
  }
  room -= bytes;
  for (uint32_t code = 0; texts && code < texts->size(); ++code) {
    meaning.texts.push_back(texts->Get(code)->str());
  }
  if (numbers) {
    meaning.numbers.assign(numbers->begin(), numbers->end());
  }
  return problemOf(meaning);
}

} // namespace sojourn::wire

#endif // SOJOURN_RUNTIME_WIRE_READCATEGORIES_H
