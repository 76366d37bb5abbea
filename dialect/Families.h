// SPDX-License-Identifier: Apache-2.0
// Registration of each family's ops.
#ifndef SOJOURN_DIALECT_FAMILIES_H
#define SOJOURN_DIALECT_FAMILIES_H

namespace sojourn {
class SojournDialect;

namespace detail {
/// Each family's own, beside what its records generate.
void registerCapturedOps(SojournDialect &dialect);
void registerContractionOps(SojournDialect &dialect);
void registerElementwiseOps(SojournDialect &dialect);
void registerIndexOps(SojournDialect &dialect);
void registerLayoutOps(SojournDialect &dialect);
void registerOwnerOps(SojournDialect &dialect);
void registerReductionOps(SojournDialect &dialect);
void registerRowOps(SojournDialect &dialect);
void registerSourceOps(SojournDialect &dialect);
void registerUnaryOps(SojournDialect &dialect);
void registerWindowOps(SojournDialect &dialect);
} // namespace detail
} // namespace sojourn

#endif // SOJOURN_DIALECT_FAMILIES_H
