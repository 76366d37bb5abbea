// SPDX-License-Identifier: Apache-2.0
// Unions over a graph of dependences (see DependenceSummary.h).
#include "passes/DependenceSummary.h"

#include "llvm/ADT/STLExtras.h"

using llvm::ArrayRef;
using namespace sojourn;

bool DependenceSummary::Graph::isValid() const {
  const size_t nodes = arguments + ends.size();
  if (nodes >= kNothing || (ends.empty() ? !sources.empty() : ends.back() != sources.size())) {
    return false;
  }
  uint32_t begin = 0;
  for (size_t node = 0; node < ends.size(); ++node) {
    if (ends[node] < begin || ends[node] > sources.size()) {
      return false;
    }
    for (; begin < ends[node]; ++begin) {
      if (sources[begin] >= arguments + node) {
        return false;
      }
    }
  }
  return llvm::all_of(returned, [&](uint32_t node) { return node == kNothing || node < nodes; });
}

ArrayRef<uint32_t> DependenceSummary::sourcesOf(size_t node) const {
  const size_t index = node - graph_.arguments, begin = index == 0 ? 0 : graph_.ends[index - 1];
  return ArrayRef(graph_.sources).slice(begin, graph_.ends[index] - begin);
}

std::vector<uint64_t> DependenceSummary::gather(ArrayRef<uint64_t> ofArguments) const {
  std::vector<uint64_t> words(ofArguments.begin(), ofArguments.end());
  words.resize(graph_.arguments + graph_.ends.size());
  uint32_t at = 0;
  for (size_t node = 0; node < graph_.ends.size(); ++node) {
    uint64_t word = 0;
    for (; at < graph_.ends[node]; ++at) {
      word |= words[graph_.sources[at]];
    }
    words[graph_.arguments + node] = word;
  }
  std::vector<uint64_t> ofResults;
  ofResults.reserve(graph_.returned.size());
  for (uint32_t node : graph_.returned) {
    ofResults.push_back(node == kNothing ? 0 : words[node]);
  }
  return ofResults;
}

std::vector<size_t> DependenceSummary::argumentsOf(size_t result) const {
  std::vector<bool> seen(graph_.arguments + graph_.ends.size());
  if (graph_.returned.at(result) != kNothing) {
    seen[graph_.returned[result]] = true;
  }
  for (size_t node = seen.size(); node-- > graph_.arguments;) {
    for (uint32_t source : seen[node] ? sourcesOf(node) : ArrayRef<uint32_t>()) {
      seen[source] = true;
    }
  }
  std::vector<size_t> list;
  for (size_t argument = 0; argument < graph_.arguments; ++argument) {
    if (seen[argument]) {
      list.push_back(argument);
    }
  }
  return list;
}

bool DependenceSummary::dependsOn(size_t result, size_t argument) const {
  return llvm::is_contained(argumentsOf(result), argument);
}

size_t DependenceSummary::bytes() const {
  return sizeof(*this) +
         (graph_.sources.capacity() + graph_.ends.capacity() + graph_.returned.capacity()) * sizeof(uint32_t);
}
