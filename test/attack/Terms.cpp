// SPDX-License-Identifier: Apache-2.0
// Uploads and terms that are made up (see Terms.h).
#include "test/attack/Terms.h"

using namespace sojourn;
using namespace sojourn::attack;

owner::test::Upload attack::upload(Dice &dice, mlir::RankedTensorType type) {
  owner::test::Upload made;
  made.dims.assign(type.getShape().begin(), type.getShape().end());
  auto count = static_cast<size_t>(type.getNumElements());
  if (type.getElementType().isInteger(64)) {
    std::vector<int64_t> data;
    for (size_t k = 0; k < count; ++k) {
      data.push_back(static_cast<int64_t>(k));
    }
    for (size_t k = count; k > 1; --k) { // an order of rows, and now and then none
      std::swap(data[k - 1], data[dice.below(k)]);
    }
    if (dice.chance(0.3) && count > 0) {
      data[dice.below(count)] = dice.between(-2, 30);
    }
    made.element = static_cast<uint8_t>(runtime::Element::i64);
    made.data = owner::test::bytes(data);
  } else {
    std::vector<double> data;
    for (size_t k = 0; k < count; ++k) {
      data.push_back(dice.of({0.0, 1.0, -1.0, 0.5, 2.0}));
    }
    if (dice.chance(0.2) && count > 0) {
      data[dice.below(count)] = dice.of({1e300, -1e300, 1e-300, 1e30});
    }
    bool isNarrow = type.getElementType().isF32();
    made.element = static_cast<uint8_t>(isNarrow ? runtime::Element::f32 : runtime::Element::f64);
    made.data = isNarrow ? owner::test::bytes(std::vector<float>(data.begin(), data.end())) : owner::test::bytes(data);
  }
  return made;
}

wire::Spending attack::spending(Dice &dice, size_t published) {
  wire::Spending spending;
  if (dice.chance(0.7)) {
    for (size_t k = 0; k < published; ++k) {
      wire::ReleaseTerms release;
      release.bound = dice.chance(0.5) ? 0 : dice.of({1.0, 10.0, 0.01, 1000.0});
      release.epsilon = dice.of({0.5, 0.1, 0.01, 1.0, 8.0});
      release.delta = dice.chance(0.5) ? 0 : 1e-6;
      release.continues = k > 0 && dice.chance(0.2);
      spending.releases.push_back(release);
    }
  }
  if (spending.releases.empty() || dice.chance(0.3)) {
    spending.run = 1;
    spending.steps = dice.of<uint64_t>({4, 8, 100});
  }
  spending.noiseMultiplier = dice.chance(0.6) ? 0 : dice.of({1.0, 0.5, 4.0, 0x1p-8});
  spending.clip = dice.chance(0.6) ? 0 : dice.of({1.0, 0.1, 100.0});
  spending.metricShare = dice.chance(0.6) ? -1 : dice.of({0.5, 0.95, 0.1});
  spending.perLayer = dice.chance(0.15);
  spending.lossIsSum = dice.chance(0.3);
  return spending;
}
