// SPDX-License-Identifier: Apache-2.0
// See Generator.h.
#include "frontend/recording/Generator.h"

#include "frontend/recording/OpInfo.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>

#include <algorithm>
#include <mutex>

namespace sojourn::frontend {

namespace {

constexpr auto kDeviceType = c10::DeviceType::PrivateUse1;

/// (seed, offset): each draw mixes both, so equal states draw equal seeds.
class OwnerGenerator final : public SeedGenerator {
public:
  using SeedGenerator::SeedGenerator;

  void set_current_seed(uint64_t seed) override { set({seed, 0}); }
  void set_offset(uint64_t offset) override { set({current_seed(), offset}); }
  uint64_t get_offset() const override { return now().offset; }
  uint64_t current_seed() const override { return now().seed; }
  uint64_t seed() override {
    const uint64_t seed = c10::detail::getNonDeterministicRandom();
    set_current_seed(seed);
    return seed;
  }
  void set_state(const c10::TensorImpl &state) override {
    TORCH_CHECK(state.numel() == 2 * sizeof(uint64_t) && state.is_contiguous() &&
                    state.dtype() == caffe2::TypeMeta::Make<uint8_t>(),
                "an owner generator's state is a uint8 tensor of ", 2 * sizeof(uint64_t), " bytes");
    const auto *words = static_cast<const uint64_t *>(state.data());
    set({words[0], words[1]});
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    const State state = now();
    return asState({state.seed, state.offset});
  }
  uint64_t draw() override {
    std::lock_guard lock(own_);
    return mixed(state_.seed, ++state_.offset);
  }

private:
  struct State {
    uint64_t seed = c10::default_rng_seed_val, offset = 0;
  };
  State now() const {
    std::lock_guard lock(own_);
    return state_;
  }
  void set(State state) {
    std::lock_guard lock(own_);
    state_ = state;
  }
  OwnerGenerator *clone_impl() const override {
    auto *copy = new OwnerGenerator(device().index());
    copy->state_ = now();
    return copy;
  }
  mutable std::mutex own_;
  State state_;
};

/// Torch's own generator for an undefined one.
const at::Generator &meant(const at::Generator &generator) {
  return generator.defined() ? generator : at::detail::getDefaultCPUGenerator();
}

bool isOwners(const at::Generator &generator) { return generator.device().type() == kDeviceType; }

/// Of torch's generators. Those of owners lock themselves: one may wait for Python's lock, and would hold this one.
std::unique_lock<std::mutex> lockOf(const at::Generator &generator) {
  return isOwners(generator) ? std::unique_lock<std::mutex>() : std::unique_lock(at::Generator(generator).mutex());
}

} // namespace

SeedGenerator::SeedGenerator(c10::DeviceIndex index)
    : GeneratorImpl(c10::Device(kDeviceType, index), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {}

uint64_t SeedGenerator::mixed(uint64_t seed, uint64_t offset) {
  // splitmix64.
  uint64_t z = seed + 0x9E3779B97F4A7C15ULL * offset;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

c10::intrusive_ptr<c10::TensorImpl> SeedGenerator::asState(c10::ArrayRef<uint64_t> words) {
  const auto bytes = static_cast<int64_t>(words.size() * sizeof(uint64_t));
  at::Tensor state = at::empty({bytes}, at::device(at::kCPU).dtype(at::kByte));
  std::copy(words.begin(), words.end(), static_cast<uint64_t *>(state.mutable_data_ptr()));
  return state.getIntrusivePtr();
}

at::Generator makeOwnerGenerator(c10::DeviceIndex index) { return at::make_generator<OwnerGenerator>(index); }

at::Generator generatorOf(const OpInfo &info, c10::ArrayRef<c10::IValue> args) {
  for (size_t i = 0; i < args.size(); ++i) {
    if (info.args[i] == ArgKind::Generator && !args[i].isNone()) {
      return args[i].toGenerator();
    }
  }
  return {};
}

uint64_t drawSeed(const at::Generator &given) {
  const at::Generator &generator = meant(given);
  const auto lock = lockOf(generator);
  return isOwners(generator) ? generator.get<SeedGenerator>()->draw()
                             : at::check_generator<at::CPUGeneratorImpl>(generator)->random64();
}

WatchedGenerators::WatchedGenerators(std::vector<at::Generator> generators) : generators_(std::move(generators)) {
  generators_.emplace_back(); // torch's own
  for (const at::Generator &generator : generators_) {
    const auto lock = lockOf(meant(generator));
    copies_.push_back(meant(generator).clone());
  }
}

bool WatchedGenerators::has(const at::Generator &generator) const {
  return std::find(generators_.begin(), generators_.end(), generator) != generators_.end();
}

bool WatchedGenerators::drew(const std::vector<uint64_t> &seeds, const std::vector<at::Generator> &from) const {
  std::vector<at::Generator> copies;
  for (const at::Generator &copy : copies_) {
    copies.push_back(copy.clone());
  }
  for (size_t i = 0; i < seeds.size(); ++i) {
    const auto at = std::find(generators_.begin(), generators_.end(), from[i]);
    if (at != generators_.end() && drawSeed(copies[static_cast<size_t>(at - generators_.begin())]) != seeds[i]) {
      return false;
    }
  }
  for (size_t i = 0; i < copies.size(); ++i) {
    const auto lock = lockOf(meant(generators_[i]));
    if (!at::equal(copies[i].get_state(), meant(generators_[i]).get_state())) {
      return false;
    }
  }
  return true;
}

} // namespace sojourn::frontend
