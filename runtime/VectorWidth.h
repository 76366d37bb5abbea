// SPDX-License-Identifier: Apache-2.0
// How long the vectors are for which a file of `sojourn_vector_*` is compiled.
#ifndef SOJOURN_RUNTIME_VECTORWIDTH_H
#define SOJOURN_RUNTIME_VECTORWIDTH_H

namespace sojourn::runtime {
namespace {

/// Internal to each file: the same name has another value for another instruction set.
#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif

} // namespace
} // namespace sojourn::runtime

#endif // SOJOURN_RUNTIME_VECTORWIDTH_H
