// SPDX-License-Identifier: Apache-2.0
// Edits of traffic (see MessageMutator.h).
#include "test/fuzz/MessageMutator.h"

#include "runtime/wire/Step.h"
#include "test/attack/Generator.h"
#include "test/attack/Terms.h"
#include "test/fuzz/Bytes.h"
#include "test/fuzz/ProgramMutator.h"
#include "test/fuzz/Traffic.h"

#include <deque>

namespace sojourn::fuzz {

namespace wire_ = sojourn_wire;

namespace {

/// Of the text that names a version of a table.
constexpr size_t kVersionBytes = 16;

/// A step's message as it is changed, with the bytes that it refers to.
class StepEditor {
public:
  StepEditor(const wire_::Step &message, Dice &dice) : dice(dice) { isRead = wire::decode(message, step).empty(); }

  bool edit() {
    if (!isRead) {
      return false;
    }
    switch (dice.below(12)) {
    case 0:
    case 1:
    case 2: return changeProgram();
    case 3:
    case 4: return changeUploads();
    case 5: return changeNumber(dice.chance(0.5) ? step.slots : step.seeds);
    case 6: return changeHandles();
    case 7: return changeSpending();
    case 8: return changeRepetitions();
    case 9: return changeReleases();
    case 10: return changeShape();
    default: return changeTables();
    }
  }

  std::string finish() const {
    flatbuffers::FlatBufferBuilder builder;
    auto body = wire::encode(builder, step);
    wire_::FinishRequestBuffer(builder, wire_::CreateRequest(builder, wire_::RequestBody_Step, body.Union()));
    return {reinterpret_cast<const char *>(builder.GetBufferPointer()), builder.GetSize()};
  }

private:
  std::string &keep(std::string bytes) { return kept.emplace_back(std::move(bytes)); }

  bool changeProgram() {
    if (step.program.empty()) {
      return false;
    }
    auto mutant = mutateProgram(step.program, step.debug, /*changesResults=*/false, dice);
    if (!mutant) {
      return false;
    }
    step.program = keep(std::move(mutant->program));
    step.debug = keep(std::move(mutant->debug));
    return true; // its hash stays the name by which later steps mean it
  }

  /// Those of the step, or of one of its repetitions.
  std::vector<wire::TensorView> &anyUploads() {
    const size_t which = dice.below(step.repetitions.size() + 1);
    return which == 0 ? step.uploads : step.repetitions[which - 1].uploads;
  }

  bool changeUploads() {
    std::vector<wire::TensorView> &uploads = anyUploads();
    if (uploads.empty()) {
      return false;
    }
    wire::TensorView &upload = uploads[dice.below(uploads.size())];
    if (upload.data.empty()) {
      return false;
    }
    std::string &data = keep({reinterpret_cast<const char *>(upload.data.data()), upload.data.size()});
    const auto element = static_cast<Element>(upload.element);
    const size_t width =
        std::max<size_t>(1, std::min<size_t>(upload.element < kElementCount ? byteWidth(element) : 1, 8));
    for (size_t changes = 1 + dice.below(3); changes > 0 && data.size() >= width; --changes) {
      char *number = data.data() + dice.below(data.size() / width) * width;
      if (element == Element::i1) {
        *number = static_cast<char>(1 - (*number & 1));
      } else {
        mutateNumber(number, width, dice);
      }
    }
    upload.data = {reinterpret_cast<const uint8_t *>(data.data()), data.size()};
    return true;
  }

  /// Sizes or type of an upload, without its bytes or with other ones.
  bool changeShape() {
    std::vector<wire::TensorView> &uploads = anyUploads();
    if (uploads.empty()) {
      return false;
    }
    wire::TensorView &upload = uploads[dice.below(uploads.size())];
    switch (dice.below(4)) {
    case 0: upload.element = static_cast<uint8_t>(dice.below(14)); return true;
    case 1: upload.dims.push_back(dice.chance(0.5) ? 1 : edgeInteger(dice)); return true;
    case 2: upload.sentAhead = dice.below(4); return true;
    default:
      if (upload.dims.empty()) {
        return false;
      }
      upload.dims[dice.below(upload.dims.size())] = edgeInteger(dice);
      return true;
    }
  }

  bool changeNumber(std::vector<uint64_t> &numbers) {
    if (numbers.empty()) {
      return false;
    }
    mutateNumber(&numbers[dice.below(numbers.size())], sizeof(uint64_t), dice);
    return true;
  }

  bool changeHandles() {
    std::vector<uint64_t> &handles = dice.chance(0.7) ? step.states : step.results;
    if (handles.empty()) {
      return false;
    }
    uint64_t &one = handles[dice.below(handles.size())];
    const uint64_t before = one;
    one = dice.chance(0.7) ? handles[dice.below(handles.size())] : one + dice.word() % 3 - 1;
    return one != before;
  }

  bool changeReleases() {
    std::vector<uint64_t> all = step.states;
    all.insert(all.end(), step.results.begin(), step.results.end());
    if (all.empty()) {
      return false;
    }
    step.releases.push_back(all[dice.below(all.size())]);
    return true;
  }

  bool changeSpending() {
    wire::Spending &spending = step.spending;
    switch (dice.below(8)) {
    case 0: spending.run = dice.below(3); return true;
    case 1: spending.steps = static_cast<uint64_t>(edgeInteger(dice)); return true;
    case 2: spending.noiseMultiplier = edgeReal(dice); return true;
    case 3: spending.clip = edgeReal(dice); return true;
    case 4: spending.metricShare = dice.chance(0.5) ? dice.unit() : edgeReal(dice); return true;
    case 5: (dice.chance(0.5) ? spending.perLayer : spending.lossIsSum) ^= true; return true;
    case 6: spending = attack::spending(dice, spending.releases.size() + dice.below(2)); return true;
    default:
      if (spending.releases.empty()) {
        return false;
      }
      wire::ReleaseTerms &terms = spending.releases[dice.below(spending.releases.size())];
      double &number = dice.chance(0.4) ? terms.bound : dice.chance(0.5) ? terms.epsilon : terms.delta;
      number = dice.chance(0.5) ? dice.unit() : edgeReal(dice);
      return true;
    }
  }

  bool changeRepetitions() {
    if (!step.repetitions.empty() && dice.chance(0.5)) {
      step.repetitions.erase(step.repetitions.begin() + static_cast<long>(dice.below(step.repetitions.size())));
      return true;
    }
    wire::Repetition more = step.repetitions.empty() ? wire::Repetition() : step.repetitions.back();
    more.seeds = step.seeds;
    more.results = step.results;
    for (uint64_t &result : more.results) { // new handles
      result += 1000 * (1 + step.repetitions.size());
    }
    step.repetitions.push_back(std::move(more));
    return true;
  }

  bool changeTables() {
    if (step.tables.empty()) {
      step.deadlineMs = static_cast<uint64_t>(edgeInteger(dice));
      return true;
    }
    step.tables[dice.below(step.tables.size())].name = dice.of({"people", "others", "open", "wide", "nowhere"});
    return true;
  }

  Dice &dice;
  wire::Step step;
  bool isRead = false;
  std::deque<std::string> kept;
};

/// Messages of a session that somebody made up who knows core form.
std::vector<Sent> madeUp(Dice &dice) {
  attack::Attack attack = attack::generate(dice.word(), sharedContext());
  std::vector<Sent> traffic;
  for (attack::AttackStep &each : attack.steps) {
    auto program = runtime::encodeProgram(*each.module);
    if (!program) {
      llvm::consumeError(program.takeError());
      continue;
    }
    owner::test::StepRequest step = each.terms;
    step.session = 1;
    step.hash.assign(program->hash.begin(), program->hash.end());
    step.program = program->program;
    step.debug = program->debug;
    for (owner::test::TableName &table : step.tables) {
      table.version = std::string(kVersionBytes, 'v');
    }
    auto sendAhead = [&](std::vector<owner::test::Upload> &uploads) {
      for (owner::test::Upload &upload : uploads) {
        if (upload.sentAhead != 0) {
          traffic.push_back({static_cast<uint8_t>(each.client), 0,
                             owner::test::uploadBytes(1, upload.sentAhead, upload.data.size(), 0, upload.data)});
          upload.data.clear();
        }
      }
    };
    sendAhead(step.uploads);
    for (owner::test::StepRequest &next : step.repetitions) {
      sendAhead(next.uploads);
    }
    traffic.push_back({static_cast<uint8_t>(each.client), 0, owner::test::stepBytes(step)});
  }
  return traffic;
}

/// Moves, repeats or leaves out a message, or has another client send it.
void rearrange(std::vector<Sent> &traffic, size_t at, Dice &dice) {
  switch (dice.below(6)) {
  case 0: traffic.insert(traffic.begin() + static_cast<long>(at), Sent(traffic[at])); return;
  case 1: std::swap(traffic[at], traffic[dice.below(traffic.size())]); return;
  case 2: traffic[at].client = static_cast<uint8_t>(dice.below(3)); return;
  case 3: traffic[at].flags ^= dice.chance(0.5) ? Sent::kAsItIs : Sent::kAfterPause; return;
  default: traffic.resize(at + 1); // what comes behind it may rest on it
  }
}

bool changeStep(Sent &sent, Dice &dice) {
  const wire_::Request *request = requestIn(sent.bytes);
  const wire_::Step *step = request != nullptr ? request->body_as_Step() : nullptr;
  if (step == nullptr) {
    return false;
  }
  StepEditor editor(*step, dice);
  bool isChanged = false;
  for (size_t edits = 1 + dice.below(2), attempt = 0; edits > 0 && attempt < 8; ++attempt) {
    const bool worked = editor.edit();
    edits -= worked;
    isChanged |= worked;
  }
  if (isChanged) {
    sent.bytes = editor.finish();
  }
  return isChanged;
}

} // namespace

std::string mutateTraffic(std::string input, size_t most, size_t messagesMost, Dice &dice) {
  std::vector<Sent> traffic = readTraffic(input, messagesMost);
  const double choice = dice.unit();
  if (traffic.empty() || choice < 0.06) {
    std::vector<Sent> more = madeUp(dice);
    traffic.insert(traffic.end(), more.begin(), more.end());
  } else {
    const size_t at = dice.below(traffic.size());
    if (choice < 0.14) {
      rearrange(traffic, at, dice);
    } else if (choice < 0.24) {
      traffic[at].bytes = mutateBytes(std::move(traffic[at].bytes), traffic[at].bytes.size() + 64);
    } else if (!changeStep(traffic[at], dice)) {
      rearrange(traffic, at, dice);
    }
  }
  if (traffic.size() > messagesMost) {
    traffic.resize(messagesMost);
  }
  std::string bytes = writeTraffic(traffic);
  while (bytes.size() > most && !traffic.empty()) {
    traffic.pop_back();
    bytes = writeTraffic(traffic);
  }
  return bytes.empty() ? input.substr(0, most) : bytes;
}

} // namespace sojourn::fuzz
