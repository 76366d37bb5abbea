// SPDX-License-Identifier: Apache-2.0
// Artifacts as files: runtime/wire/Artifact.fbs, then a checksum of it. What is read is checked before it is used.
#include "frontend/ahead/Artifact.h"

#include "frontend/recording/Tensor.h"
#include "runtime/Limits.h"
#include "runtime/wire/Artifact_generated.h"
#include "runtime/wire/ReadCategories.h"

#include <sodium.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string_view>

namespace sojourn {

using namespace frontend;
namespace schema = sojourn_wire;

namespace {

/// Of artifacts for one owner, and of those with parties: what reads the former alone refuses the latter.
constexpr uint32_t kArtifactVersion = 4, kPartiesVersion = 5;
/// From this version on a file ends with its checksum.
constexpr uint32_t kChecksumSince = 3;
constexpr size_t kInputNameBytes = 128;

/// Whether error texts may have it.
bool isShown(const std::string &name) {
  return name.size() <= kInputNameBytes &&
         std::all_of(name.begin(), name.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

/// A file beyond this is no artifact of ours: weights are uploads of `init`, still bounded.
constexpr std::streamoff kArtifactBytesMax = std::streamoff{1} << 31;

/// BLAKE2b of all bytes before it.
std::string checksumOf(std::string_view content) {
  std::string sum(crypto_generichash_BYTES, '\0');
  crypto_generichash(reinterpret_cast<unsigned char *>(sum.data()), sum.size(),
                     reinterpret_cast<const unsigned char *>(content.data()), content.size(), nullptr, 0);
  return sum;
}

std::string textOf(std::string_view bytes) {
  std::string text(2 * bytes.size() + 1, '\0');
  sodium_bin2hex(text.data(), text.size(), reinterpret_cast<const unsigned char *>(bytes.data()), bytes.size());
  text.pop_back();
  return text;
}

/// The version alone: other versions lay the rest out otherwise.
struct VersionOnly : private flatbuffers::Table {
  bool Verify(flatbuffers::Verifier &verifier) const {
    return VerifyTableStart(verifier) &&
           VerifyField<uint32_t>(verifier, schema::Artifact::VT_VERSION, sizeof(uint32_t)) && verifier.EndTable();
  }
  uint32_t version() const { return GetField<uint32_t>(schema::Artifact::VT_VERSION, 0); }
};

/// Whether a tensor's bytes are as many as its sizes say.
bool fits(const wire::TensorView &tensor) {
  size_t expected = c10::elementSize(scalarTypeOf(static_cast<Element>(tensor.element)));
  for (int64_t dim : tensor.dims) {
    if (__builtin_mul_overflow(expected, static_cast<size_t>(dim), &expected)) {
      return false;
    }
  }
  return expected == tensor.data.size();
}

/// What of a call no later check would find. Empty if nothing is wrong.
std::string checkCall(ArtifactCall &call, const Artifact &artifact) {
  const std::vector<Spec> &inputs = artifact.inputs;
  call.uploadInputs.resize(call.step.uploads.size());
  call.slotInputs.resize(call.step.slots.size());
  call.slotBatches.resize(call.step.slots.size());
  for (size_t i = 0; i < call.uploadInputs.size(); ++i) {
    int input = call.uploadInputs[i];
    if (input < 0 || input > static_cast<int>(inputs.size()) || (input > 0 && inputs[input - 1].number)) {
      return "it uses input " + std::to_string(static_cast<int64_t>(input) - 1) + ", but there are " +
             std::to_string(inputs.size()) + " inputs";
    }
    if (input == 0 && !fits(call.step.uploads[i])) {
      return "a constant has " + std::to_string(call.step.uploads[i].data.size()) +
             " bytes, which does not match its shape";
    }
    if (call.step.uploads[i].sentAhead) {
      return "a constant lies outside of the file";
    }
  }
  for (int input : call.slotInputs) {
    int64_t position = std::abs(static_cast<int64_t>(input));
    if (position > static_cast<int64_t>(inputs.size()) || (position > 0 && !inputs[position - 1].number)) {
      return "a slot takes an input that is not a number";
    }
  }
  for (size_t i = 0; i < call.slotBatches.size(); ++i) {
    int64_t position = std::abs(static_cast<int64_t>(call.slotBatches[i]));
    if (position > static_cast<int64_t>(artifact.batches.size()) || (position > 0 && call.slotInputs[i] != 0)) {
      return "a slot takes batches that do not exist";
    }
  }
  for (const wire::TableBinding &binding : call.step.tables) {
    if (std::none_of(artifact.tables.begin(), artifact.tables.end(),
                     [&](const Dataset &table) { return table.name == binding.name; })) {
      return "it reads table '" + binding.name + "', which it does not describe";
    }
  }
  return {};
}

/// Whether it has parties just where its version and its tables say so. Returns the problem, or an empty text.
std::string checkRoles(const Artifact &artifact, uint32_t version) {
  if (std::string problem = checkParties(artifact.parties); !problem.empty()) {
    return problem;
  }
  if (artifact.parties.empty() != (version == kArtifactVersion)) {
    return "it has " + std::to_string(artifact.parties.size()) + " parties and version " + std::to_string(version);
  }
  for (const Dataset &table : artifact.tables) {
    const bool isKnown =
        std::find(artifact.parties.begin(), artifact.parties.end(), table.party) != artifact.parties.end();
    if (artifact.parties.empty() ? !table.party.empty() : !isKnown) {
      return "table '" + table.name + "' is of party '" + table.party + "', which is none of its parties";
    }
  }
  const auto isJoint = [](const ArtifactBatches &batches) { return batches.joint > 0; };
  const bool isJoined = !artifact.batches.empty() && isJoint(artifact.batches.front());
  const bool isAlike = std::all_of(artifact.batches.begin(), artifact.batches.end(), [&](const ArtifactBatches &each) {
    const ArtifactBatches &first = artifact.batches.front();
    return each.joint == first.joint &&
           (!isJoint(each) || (each.epochs == first.epochs && each.dropLast == first.dropLast));
  });
  int64_t rows = 0;
  for (const ArtifactBatches &each : artifact.batches) {
    rows += each.size; // each of them is bounded, and so is their number
  }
  const bool isWhole = !isJoined || (rows == artifact.batches.front().joint && !artifact.parties.empty());
  const bool fits =
      std::all_of(artifact.variants.begin(), artifact.variants.end(), [&](const ArtifactVariant &variant) {
        return isJoined && variant.sizes.size() == artifact.batches.size() && !variant.call.step.program.empty();
      });
  return isAlike && isWhole && fits ? "" : "the batches of its joined table do not match";
}

/// Reads the tables and batches of a file of `room` bytes. Returns what is wrong with them, or an empty text.
std::string readTables(const schema::Artifact &stored, size_t room, Artifact &artifact) {
  for (uint32_t i = 0; i < (stored.tables() ? stored.tables()->size() : 0); ++i) {
    const schema::ArtifactTable &from = *stored.tables()->Get(i);
    Dataset table{from.name() ? from.name()->str() : "",
                  from.policy() ? from.policy()->str() : "",
                  "",
                  from.rows(),
                  {},
                  std::nullopt};
    table.party = from.party() ? from.party()->str() : "";
    if (!isUtf8(table.name)) {
      return "the name of table " + std::to_string(i) + " (counting from 0) is not UTF-8 text";
    }
    if (from.rows() == 0 && !from.whole()) {
      table.rows.reset();
    }
    if (from.whole()) {
      artifact.wholeTables.insert(table.name);
    }
    if (from.defaults() && from.defaults()->size() != 3) {
      return "table '" + table.name + "' has " + std::to_string(from.defaults()->size()) + " defaults, expected 3";
    }
    if (from.defaults()) {
      table.defaults = {from.defaults()->Get(0), from.defaults()->Get(1), from.defaults()->Get(2)};
    }
    for (uint32_t k = 0; k < (from.columns() ? from.columns()->size() : 0); ++k) {
      const schema::ArtifactColumn &entry = *from.columns()->Get(k);
      if (entry.element() >= kElementCount || (entry.bounds() && entry.bounds()->size() != 2)) {
        return "a column of table '" + table.name + "' has an unknown type or malformed bounds";
      }
      Column column{
          entry.name() ? entry.name()->str() : "", scalarTypeOf(static_cast<Element>(entry.element())), {}, {}};
      if (entry.dims()) {
        column.shape.assign(entry.dims()->begin(), entry.dims()->end());
      }
      if (entry.bounds()) {
        column.bounds = {entry.bounds()->Get(0), entry.bounds()->Get(1)};
      }
      Meaning meaning;
      std::string problem = wire::readCategories(entry.categories(), entry.category_numbers(), room, meaning);
      if (!problem.empty()) {
        return "column '" + column.name + "' of table '" + table.name + "' " + problem;
      }
      column.meaning = meaning.isEmpty() ? nullptr : std::make_shared<const Meaning>(std::move(meaning));
      table.columns.push_back(std::move(column));
    }
    if (std::string problem = checkTableSpec(table); !problem.empty()) {
      return "table '" + table.name + "' is invalid: " + problem;
    }
    if (std::any_of(artifact.tables.begin(), artifact.tables.end(),
                    [&](const Dataset &other) { return other.name == table.name; })) {
      return "it describes table '" + table.name + "' twice";
    }
    artifact.tables.push_back(std::move(table));
  }
  for (uint32_t i = 0; i < (stored.batches() ? stored.batches()->size() : 0); ++i) {
    const schema::ArtifactBatches &from = *stored.batches()->Get(i);
    ArtifactBatches batches{from.size(), from.epochs(), from.table(), {}, from.drop_last()};
    const size_t splits = from.fractions() ? from.fractions()->size() : 0;
    batches.joint = from.joint();
    bool fits = batches.size >= (batches.joint > 0 ? 0 : 1) && batches.size <= runtime::limits::kTableRows &&
                batches.joint >= 0 && batches.joint <= runtime::limits::kTableRows && batches.epochs >= 0 &&
                batches.table < artifact.tables.size() && splits == (from.sides() ? from.sides()->size() : 0) &&
                splits <= static_cast<size_t>(kSplitsMost);
    for (uint32_t k = 0; fits && k < splits; ++k) {
      const double fraction = from.fractions()->Get(k);
      fits = fraction > 0 && fraction < 1 && from.sides()->Get(k) <= 1;
      batches.part.push_back({fraction, from.sides()->Get(k) == 1});
    }
    if (!fits) {
      return "its batches have invalid sizes";
    }
    artifact.batches.push_back(batches);
  }
  return {};
}

std::vector<int> intsOf(const flatbuffers::Vector<int32_t> *vector) {
  return vector ? std::vector<int>(vector->begin(), vector->end()) : std::vector<int>();
}

std::vector<uint64_t> numbersOf(const flatbuffers::Vector<uint64_t> *vector) {
  return vector ? std::vector<uint64_t>(vector->begin(), vector->end()) : std::vector<uint64_t>();
}

/// Refuses a file of another version or with a byte that was not written so. Returns what its checksum is of.
std::string_view checkWhole(const std::string &path, std::string_view file) {
  std::string size = std::to_string(file.size());
  auto identified = [&](const char *identifier) {
    return file.size() >= sizeof(flatbuffers::uoffset_t) + flatbuffers::kFileIdentifierLength &&
           flatbuffers::BufferHasIdentifier(file.data(), identifier);
  };
  std::string_view content = file.substr(0, file.size() - std::min<size_t>(file.size(), crypto_generichash_BYTES));
  std::string_view found = file.substr(content.size());
  std::string sum = checksumOf(content);
  bool isWhole = found == sum;
  if (!isWhole && !identified(schema::ArtifactIdentifier())) {
    raise(
        ErrorKind::Error,
        path + " is not a compiled step: its " + size +
            " bytes have no header, or a damaged one; copy it again, or make one with sojourn.compile(...).save(path)");
  }
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t *>(file.data()), file.size());
  if (verifier.VerifyBuffer<VersionOnly>(schema::ArtifactIdentifier())) {
    uint32_t version = flatbuffers::GetRoot<VersionOnly>(file.data())->version();
    bool isOlder = version > 0 && version < kChecksumSince;
    if (isOlder || (isWhole && version != kArtifactVersion && version != kPartiesVersion)) {
      raise(ErrorKind::VersionMismatch, path + " has artifact version " + std::to_string(version) +
                                            ", this build reads " + std::to_string(kArtifactVersion) + " and " +
                                            std::to_string(kPartiesVersion) + "; compile it again");
    }
  }
  if (!isWhole) {
    raise(ErrorKind::Error, path + " is damaged: it ends with the checksum " + textOf(found) + ", but the " +
                                std::to_string(content.size()) + " bytes before that have the checksum " + textOf(sum) +
                                "; copy it again, or compile it again");
  }
  return content;
}

} // namespace

void Artifact::save(const std::string &path) const {
  flatbuffers::FlatBufferBuilder builder(1 << 16);
  std::vector<flatbuffers::Offset<schema::ArtifactCall>> callOffsets;
  auto callOf = [&](const ArtifactCall &call) {
    auto step = wire::encode(builder, call.step);
    auto uploadInputs = builder.CreateVector(call.uploadInputs), slotInputs = builder.CreateVector(call.slotInputs);
    return schema::CreateArtifactCall(builder, step, static_cast<uint32_t>(call.seeds),
                                      static_cast<uint32_t>(call.published), uploadInputs, slotInputs,
                                      builder.CreateVector(call.slotBatches));
  };
  std::transform(calls.begin(), calls.end(), std::back_inserter(callOffsets), callOf);
  std::vector<flatbuffers::Offset<schema::ArtifactVariant>> variantOffsets;
  for (const ArtifactVariant &variant : variants) {
    auto call = callOf(variant.call);
    variantOffsets.push_back(schema::CreateArtifactVariantDirect(builder, &variant.sizes, call));
  }
  auto stateOffset = state.step.program.empty() ? flatbuffers::Offset<schema::ArtifactCall>() : callOf(state);
  std::vector<flatbuffers::Offset<schema::ArtifactInput>> inputOffsets;
  for (const Spec &spec : inputs) {
    if (!isShown(spec.name)) { // of C++: Python's specs are checked
      raise(ErrorKind::Error, "input " + std::to_string(inputOffsets.size()) +
                                  " has a name that is too long or not printable (" + std::to_string(spec.name.size()) +
                                  " bytes); expected up to 128 printable ASCII characters");
    }
    const auto name = spec.name.empty() ? 0 : builder.CreateString(spec.name);
    inputOffsets.push_back(schema::CreateArtifactInput(builder, static_cast<uint8_t>(elementOf(spec.dtype)),
                                                       builder.CreateVector(spec.sizes), spec.number, name));
  }
  std::vector<flatbuffers::Offset<schema::ArtifactTable>> tableOffsets;
  for (const Dataset &table : tables) {
    std::vector<flatbuffers::Offset<schema::ArtifactColumn>> columns;
    for (const Column &column : table.columns) {
      std::vector<double> bounds;
      if (column.bounds) {
        bounds = {column.bounds->first, column.bounds->second};
      }
      static const Meaning none;
      const Meaning &meaning = column.meaning ? *column.meaning : none;
      // Absent vectors take no bytes.
      decltype(builder.CreateVectorOfStrings(meaning.texts)) texts;
      decltype(builder.CreateVector(meaning.numbers)) numbers;
      decltype(builder.CreateVector(bounds)) limits;
      if (!meaning.texts.empty()) {
        texts = builder.CreateVectorOfStrings(meaning.texts);
      }
      if (!meaning.numbers.empty()) {
        numbers = builder.CreateVector(meaning.numbers);
      }
      if (!bounds.empty()) {
        limits = builder.CreateVector(bounds);
      }
      auto name = builder.CreateString(column.name);
      auto shape = builder.CreateVector(column.shape);
      columns.push_back(schema::CreateArtifactColumn(builder, name, static_cast<uint8_t>(elementOf(column.dtype)),
                                                     shape, limits, texts, numbers));
    }
    std::vector<double> defaults;
    if (table.policy == "private" && table.defaults) {
      defaults = {table.defaults->noiseMultiplier, table.defaults->clip, table.defaults->metricBound};
    }
    tableOffsets.push_back(schema::CreateArtifactTableDirect(
        builder, table.name.c_str(), table.rows.value_or(0), &columns,
        table.policy.empty() ? nullptr : table.policy.c_str(), defaults.empty() ? nullptr : &defaults,
        wholeTables.contains(table.name), table.party.empty() ? nullptr : table.party.c_str()));
  }
  std::vector<flatbuffers::Offset<schema::ArtifactBatches>> batchOffsets;
  for (const ArtifactBatches &each : batches) {
    std::vector<double> fractions;
    std::vector<uint8_t> sides;
    for (const Side &side : each.part) {
      fractions.push_back(side.fraction);
      sides.push_back(side.isOther ? 1 : 0);
    }
    batchOffsets.push_back(schema::CreateArtifactBatchesDirect(builder, each.size, each.epochs,
                                                               static_cast<uint32_t>(each.table), &fractions, &sides,
                                                               each.dropLast, each.joint));
  }
  auto callVector = builder.CreateVector(callOffsets);
  auto inputVector = builder.CreateVector(inputOffsets);
  auto from = builder.CreateVector(loopFrom), to = builder.CreateVector(loopTo);
  auto tree = builder.CreateString(outputTree), producer = builder.CreateString("sojourn");
  auto nesting = builder.CreateString(stateTree);
  auto tableVector = builder.CreateVector(tableOffsets);
  auto batchVector = builder.CreateVector(batchOffsets);
  decltype(builder.CreateVectorOfStrings(parties)) partyVector;
  decltype(builder.CreateVector(variantOffsets)) variantVector;
  if (!parties.empty()) {
    partyVector = builder.CreateVectorOfStrings(parties);
    variantVector = builder.CreateVector(variantOffsets);
  }
  const uint32_t version = parties.empty() ? kArtifactVersion : kPartiesVersion;
  builder.Finish(schema::CreateArtifact(builder, version, callVector, inputVector, from, to, tree, producer,
                                        tableVector, batchVector, shortRows, stateOffset, nesting, partyVector,
                                        variantVector),
                 schema::ArtifactIdentifier());
  std::string_view content(reinterpret_cast<const char *>(builder.GetBufferPointer()), builder.GetSize());
  std::string sum = checksumOf(content);
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(content.data(), static_cast<std::streamsize>(content.size()));
  file.write(sum.data(), static_cast<std::streamsize>(sum.size()));
  file.close();
  if (!file) {
    raise(ErrorKind::Error, "cannot write " + path + ": " + std::strerror(errno));
  }
}

Artifact Artifact::load(const std::string &path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  std::streamoff size = file ? std::streamoff{file.tellg()} : -1;
  if (size < 0) {
    raise(ErrorKind::Error, "cannot read " + path + ": " + std::strerror(errno));
  }
  auto bad = [&](const std::string &what) {
    raise(ErrorKind::Error,
          path + " is not a compiled step: " + what + "; make one with sojourn.compile(...).save(path)");
  };
  if (size > kArtifactBytesMax) {
    bad(std::to_string(size) + " bytes exceed the limit for artifacts");
  }
  auto bytes = std::make_shared<std::string>(static_cast<size_t>(size), '\0');
  file.seekg(0);
  file.read(bytes->data(), size);
  if (!file) {
    raise(ErrorKind::Error, "cannot read " + path + ": it changed while it was read; load it again");
  }
  std::string_view content = checkWhole(path, *bytes);
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t *>(content.data()), content.size());
  if (!verifier.VerifyBuffer<schema::Artifact>(schema::ArtifactIdentifier())) {
    bad("its " + std::to_string(size) + " bytes are malformed");
  }
  const schema::Artifact &stored = *schema::GetArtifact(bytes->data());
  Artifact artifact;
  if (!stored.calls() || stored.calls()->size() != artifact.calls.size()) {
    bad("it must have the four programs init, first, steady and short");
  }
  if (stored.inputs()) {
    for (const schema::ArtifactInput *input : *stored.inputs()) {
      std::vector<int64_t> sizes;
      if (input->dims()) {
        sizes.assign(input->dims()->begin(), input->dims()->end());
      }
      if (input->element() >= kElementCount || sizes.size() > 64 ||
          std::any_of(sizes.begin(), sizes.end(), [](int64_t dim) { return dim < 0; })) {
        bad("an input has an unknown element type or invalid sizes");
      }
      std::string name = input->name() ? input->name()->str() : "";
      if (!isShown(name)) {
        bad("an input has a name that is too long or not printable");
      }
      artifact.inputs.push_back(
          {sizes, scalarTypeOf(static_cast<Element>(input->element())), input->number(), std::move(name)});
    }
  }
  if (std::string problem = readTables(stored, content.size(), artifact); !problem.empty()) {
    bad(problem);
  }
  auto readCall = [&](const schema::ArtifactCall &from, ArtifactCall &call, bool takesInputs) {
    call.bytes = bytes;
    call.seeds = from.seeds();
    call.published = from.published();
    call.uploadInputs = intsOf(from.upload_inputs());
    call.slotInputs = intsOf(from.slot_inputs());
    call.slotBatches = intsOf(from.slot_batches());
    std::string problem = from.step() ? wire::decode(*from.step(), call.step) : "a call has no step";
    problem = problem.empty() ? checkCall(call, artifact) : problem;
    const auto takes = [](int input) { return input != 0; };
    if (problem.empty() && !takesInputs &&
        (std::any_of(call.uploadInputs.begin(), call.uploadInputs.end(), takes) ||
         std::any_of(call.slotInputs.begin(), call.slotInputs.end(), takes))) {
      problem = "its program for init or for its state takes inputs";
    }
    if (!problem.empty()) {
      bad(problem);
    }
  };
  for (size_t i = 0; i < artifact.calls.size(); ++i) {
    readCall(*stored.calls()->Get(static_cast<flatbuffers::uoffset_t>(i)), artifact.calls[i], i != 0);
  }
  for (uint32_t i = 0; i < (stored.variants() ? stored.variants()->size() : 0); ++i) {
    const schema::ArtifactVariant &from = *stored.variants()->Get(i);
    ArtifactVariant &variant = artifact.variants.emplace_back();
    if (!from.call()) {
      bad("a step for other batches has no program");
    }
    readCall(*from.call(), variant.call, /*takesInputs=*/true);
    if (from.sizes()) {
      variant.sizes.assign(from.sizes()->begin(), from.sizes()->end());
    }
  }
  if (stored.parties()) {
    for (const flatbuffers::String *name : *stored.parties()) {
      artifact.parties.push_back(name->str());
    }
  }
  if (std::string problem = checkRoles(artifact, stored.version()); !problem.empty()) {
    bad(problem);
  }
  if (stored.state()) {
    readCall(*stored.state(), artifact.state, /*takesInputs=*/false);
  }
  artifact.stateTree = stored.state_tree() ? stored.state_tree()->str() : "";
  artifact.shortRows = stored.short_rows();
  const bool hasShort = !artifact.calls[3].step.program.empty();
  const bool isJoined = !artifact.batches.empty() && artifact.batches[0].joint > 0; // its short step is a variant
  const bool fitsShort = artifact.shortRows > 0 && artifact.batches.size() == 1 && !artifact.batches[0].dropLast &&
                         artifact.shortRows < artifact.batches[0].size;
  if (isJoined ? hasShort || artifact.shortRows < 0 : artifact.shortRows != 0 ? !hasShort || !fitsShort : hasShort) {
    bad("its short step does not match its batches");
  }
  artifact.loopFrom = numbersOf(stored.loop_from());
  artifact.loopTo = numbersOf(stored.loop_to());
  if (artifact.loopFrom.size() != artifact.loopTo.size()) {
    bad("its loop lists differ in length");
  }
  artifact.outputTree = stored.output_tree() ? stored.output_tree()->str() : "";
  if (!isUtf8(artifact.outputTree) || !isUtf8(artifact.stateTree)) {
    bad("its description of results or of the state is not UTF-8 text");
  }
  return artifact;
}

} // namespace sojourn
