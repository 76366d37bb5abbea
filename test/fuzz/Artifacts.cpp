// SPDX-License-Identifier: Apache-2.0
// Files of compiled steps, as Artifact::load reads them. An input is a file without the checksum at its end, which is
// put there: else nothing would get past it.
#include "frontend/Error.h"
#include "frontend/ahead/Artifact.h"
#include "test/fuzz/Bytes.h"

#include <fstream>
#include <iterator>
#include <sodium.h>

namespace sojourn::fuzz {

namespace {

std::string withChecksum(std::string_view content) {
  std::string file(content);
  std::string sum(crypto_generichash_BYTES, '\0');
  crypto_generichash(reinterpret_cast<unsigned char *>(sum.data()), sum.size(),
                     reinterpret_cast<const unsigned char *>(content.data()), content.size(), nullptr, 0);
  return file + sum;
}

std::string readAll(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class Artifacts final : public Target {
protected:
  void play(std::string_view input) override;
  std::string change(std::string input, size_t most, Dice &dice) override;

private:
  const std::string path = scratchFolder() + "/train.sojourn", again = scratchFolder() + "/again.sojourn";
};

void Artifacts::play(std::string_view input) {
  writeFile(path, withChecksum(input));
  std::optional<Artifact> loaded;
  try {
    loaded = Artifact::load(path);
  } catch (const Error &error) {
    if (error.text().find(path) == std::string::npos) {
      broken("an error does not name the file: " + error.text());
    }
    ++counts.refused;
    return;
  }
  // What was taken is saved and taken again.
  loaded->save(again);
  Artifact::load(again);
  ++counts.done;
}

/// One field of a file that can be read, so that it mostly still can be.
void changeField(Artifact &artifact, Dice &dice) {
  ArtifactCall &call = artifact.calls[dice.below(artifact.calls.size())];
  const auto changeOne = [&](std::vector<uint64_t> &numbers) {
    if (!numbers.empty()) {
      mutateNumber(&numbers[dice.below(numbers.size())], sizeof(uint64_t), dice);
    }
  };
  switch (dice.below(13)) {
  case 0: return changeOne(call.step.states);
  case 1: return changeOne(call.step.results);
  case 2: return changeOne(call.step.slots);
  case 3: return changeOne(artifact.loopFrom);
  case 4: return changeOne(artifact.loopTo);
  case 5: call.seeds = static_cast<size_t>(edgeInteger(dice)); return;
  case 6: call.published = static_cast<size_t>(edgeInteger(dice)); return;
  case 7:
    if (!artifact.inputs.empty()) {
      Spec &input = artifact.inputs[dice.below(artifact.inputs.size())];
      if (dice.chance(0.3)) {
        input.number = !input.number;
      } else {
        input.sizes.push_back(edgeInteger(dice));
      }
    }
    return;
  case 8:
    if (!artifact.batches.empty()) {
      ArtifactBatches &batches = artifact.batches[dice.below(artifact.batches.size())];
      (dice.chance(0.5) ? batches.size : batches.epochs) = edgeInteger(dice);
    }
    return;
  case 9:
    if (!artifact.tables.empty()) {
      Dataset &table = artifact.tables[dice.below(artifact.tables.size())];
      if (dice.chance(0.5)) {
        table.rows = edgeInteger(dice);
      } else if (!table.columns.empty()) {
        table.columns[dice.below(table.columns.size())].bounds = {edgeReal(dice), edgeReal(dice)};
      }
    }
    return;
  case 10: artifact.shortRows = edgeInteger(dice); return;
  case 11:
    if (!call.uploadInputs.empty()) {
      call.uploadInputs[dice.below(call.uploadInputs.size())] = static_cast<int>(edgeInteger(dice));
    }
    return;
  default:
    if (!call.slotBatches.empty()) {
      call.slotBatches[dice.below(call.slotBatches.size())] = static_cast<int>(edgeInteger(dice));
    }
  }
}

std::string Artifacts::change(std::string input, size_t most, Dice &dice) {
  if (!dice.chance(wildness())) {
    writeFile(path, withChecksum(input));
    try {
      Artifact artifact = Artifact::load(path);
      for (size_t changes = 1 + dice.below(2); changes > 0; --changes) {
        changeField(artifact, dice);
      }
      artifact.save(again);
      std::string file = readAll(again);
      if (file.size() > crypto_generichash_BYTES && file.size() - crypto_generichash_BYTES <= most) {
        return file.substr(0, file.size() - crypto_generichash_BYTES);
      }
    } catch (const Error &) {
    }
  }
  if (dice.chance(0.5) && input.size() > 64) { // a number in place, many of which are of programs and tensors
    mutateNumber(input.data() + 8 * dice.below(input.size() / 8), 8, dice);
    return input;
  }
  return mutateBytes(std::move(input), most);
}

const Registered known("artifacts", [] { return std::unique_ptr<Target>(std::make_unique<Artifacts>()); });

} // namespace

} // namespace sojourn::fuzz
