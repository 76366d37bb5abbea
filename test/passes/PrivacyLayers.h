// SPDX-License-Identifier: Apache-2.0
// Programs with private tables, and tables whose rows keep no bounds: what the tests of walls share.
#ifndef SOJOURN_TEST_PASSES_PRIVACYLAYERS_H
#define SOJOURN_TEST_PASSES_PRIVACYLAYERS_H

#include "dialect/CoreForm.h"
#include "passes/privacy/Privacy.h"
#include "runtime/Execute.h"
#include "test/dialect/Context.h"
#include "test/runtime/Programs.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace sojourn::test {

using namespace sojourn::runtime;

inline const std::string kTable = "!sojourn.table<8, \"a\": f64, \"b\": f64, \"k\": i64>";
inline const std::string kTableArgument = "%t: " + kTable + " {sojourn.kind = \"table\"}";
inline const std::string kSeed = "%seed: tensor<i64> {sojourn.kind = \"seed\"}";
inline const std::string kOrder = " : tensor<8xi64>, tensor<i64>, tensor<i64>, " + kTable + " -> tensor<8xi64>\n";

inline std::string read(const std::string &name, const std::string &list, const std::string &column,
                        const std::string &type = "f64", const std::string &table = "t") {
  return "  %" + name + " = sojourn.read_rows %" + table + ", %" + list + ", columns = [\"" + column +
         "\"] : " + kTable + ", tensor<8xi64> -> tensor<8x" + type + ">\n";
}

inline std::string moduleText(const std::string &arguments, const std::string &results, const std::string &body) {
  return "module attributes {sojourn.phase = \"core\", sojourn.promotion = \"torch\"} {\nfunc.func @step(" + arguments +
         ") -> (" + results + ") {\n  %i = sojourn.iota dim = 0 : tensor<8xi64>\n" + body + "}\n}\n";
}

struct PrivacyLayers : testing::Test {
  sojourn::test::Context context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::func::FuncOp parse(const std::string &arguments, const std::string &results, const std::string &body) {
    module = context.parse(moduleText(arguments, results, body));
    EXPECT_TRUE(module) << body;
    return module ? module->lookupSymbol<mlir::func::FuncOp>(kStepName) : mlir::func::FuncOp();
  }
};

inline std::string kept(const std::string &type) { return type + " {sojourn.result = \"keep\"}"; }

/// Rows as doubles, whatever bounds were declared for them.
class GivenRows final : public RowSource {
public:
  explicit GivenRows(std::map<std::string, std::vector<double>> columns) : columns(std::move(columns)) {}
  int64_t rows() const override { return static_cast<int64_t>(columns.begin()->second.size()); }
  void readRows(llvm::ArrayRef<std::string> names, llvm::ArrayRef<int64_t> indices, Element element,
                void *out) const override {
    for (size_t at = 0; at < indices.size(); ++at) {
      double value =
          indices[at] < 0 || indices[at] >= rows() ? 0 : columns.at(names[0])[static_cast<size_t>(indices[at])];
      convertElements(Element::f64, &value, element, static_cast<char *>(out) + at * byteWidth(element), 1);
    }
  }
  std::map<std::string, std::vector<double>> columns;
};

} // namespace sojourn::test

#endif // SOJOURN_TEST_PASSES_PRIVACYLAYERS_H
