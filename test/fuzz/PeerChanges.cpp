// SPDX-License-Identifier: Apache-2.0
#include "test/fuzz/PeerChanges.h"

#include "owner/peers/FrameBytes.h"
#include "owner/peers/Masks.h"
#include "runtime/stream/Frame.h"

#include <algorithm>
#include <cstring>

namespace sojourn::fuzz {

using owner::PeerFrame;
using What = PeerChange::What;

namespace {

constexpr size_t kPastMost = 16;

std::string encode(const owner::GroupId &group, const PeerFrame &frame) {
  const owner::FrameFields fields = owner::fieldsOf(group, frame);
  const size_t terms = frame.terms ? frame.terms->size() : 0;
  stream::FrameHead head;
  head.kind = stream::FrameKind::peer;
  head.bytes = sizeof fields + terms;
  std::string bytes(sizeof head + sizeof fields + terms, '\0');
  std::memcpy(bytes.data(), &head, sizeof head);
  std::memcpy(bytes.data() + sizeof head, &fields, sizeof fields);
  if (terms > 0) {
    std::memcpy(bytes.data() + sizeof head + sizeof fields, frame.terms->data(), terms);
  }
  return bytes;
}

void changeBytes(const PeerChange &change, std::string &bytes) {
  if (bytes.empty()) {
    return;
  }
  const size_t most = change.what == What::head ? sizeof(stream::FrameHead) : bytes.size();
  const size_t at = change.place % std::min(most, bytes.size());
  if (change.what == What::cut) {
    bytes.resize(at);
  } else {
    bytes[at] = static_cast<char>(change.index % 2 ? change.value : bytes[at] ^ (1 << change.value % 8));
  }
}

std::shared_ptr<runtime::Buffer> changedTerms(const PeerChange &change, const runtime::Buffer &terms) {
  std::string bytes(static_cast<const char *>(terms.data()), terms.size());
  if (change.what == What::size) {
    const auto delta = static_cast<int8_t>(change.value);
    const bool isTooFew = delta < 0 && bytes.size() < static_cast<size_t>(-delta);
    bytes.resize(change.index % 4 == 3 || isTooFew ? 0 : bytes.size() + static_cast<size_t>(delta), 'x');
  } else if (!bytes.empty()) {
    bytes[change.place % bytes.size()] ^= static_cast<char>(1 << change.value % 8);
  }
  return runtime::copyOf(bytes.data(), bytes.size());
}

} // namespace

std::vector<PeerChange> readChanges(std::string_view input) {
  std::vector<PeerChange> changes(std::min(input.size() / sizeof(PeerChange), kPeerChangesMost));
  if (!changes.empty()) {
    std::memcpy(changes.data(), input.data(), changes.size() * sizeof(PeerChange));
  }
  return changes;
}

std::string writeChanges(const std::vector<PeerChange> &changes) {
  return {reinterpret_cast<const char *>(changes.data()), changes.size() * sizeof(PeerChange)};
}

void PeerScript::begin(std::vector<PeerChange> given, const owner::GroupId &other) {
  std::lock_guard lock(mutex);
  changes = std::move(given);
  honest = other;
}

void PeerScript::beginMessage(uint8_t number) {
  std::lock_guard lock(mutex);
  message = number;
  for (Member &member : members) {
    member.frames = 0;
    member.held.clear();
  }
}

bool PeerScript::isChanged() {
  std::lock_guard lock(mutex);
  return changed;
}

void PeerScript::forget() {
  std::lock_guard lock(mutex);
  changed = false;
}

std::vector<PeerChange> PeerScript::connections(uint8_t number) {
  std::lock_guard lock(mutex);
  std::vector<PeerChange> found;
  for (const PeerChange &change : changes) {
    if (change.what == What::connect && change.message == number) {
      found.push_back(change);
    }
  }
  return found;
}

owner::MessageDigest PeerScript::keyOf(const PeerChange &change, unsigned member) const {
  owner::MessageDigest noise;
  noise.fill(change.index);
  switch (change.value % 4) {
  case 0: return members[1 - member].key;
  case 1: return owner::MaskKeyPair().publicKey();
  case 2: return {};
  default: return noise;
  }
}

void PeerScript::changeField(const PeerChange &change, Sent &sent, unsigned member) {
  PeerFrame &frame = sent.frame;
  const auto delta = static_cast<int8_t>(change.value);
  switch (change.what) {
  case What::kind:
    frame.kind = static_cast<PeerFrame::Kind>(change.value % 6);
    frame.terms = change.index % 2 ? nullptr : std::move(frame.terms);
    break;
  case What::sequence: frame.point.sequence += static_cast<uint64_t>(int64_t{delta}); break;
  case What::attempt: frame.point.attempt += static_cast<uint64_t>(int64_t{delta}); break;
  case What::step: frame.point.step += static_cast<uint32_t>(int32_t{delta}); break;
  case What::exchange:
    (change.index % 2 ? frame.readyExchange : frame.exchange) += static_cast<uint32_t>(int32_t{delta});
    break;
  case What::digest: frame.digest[change.index % frame.digest.size()] ^= static_cast<uint8_t>(change.value | 1); break;
  case What::code: frame.code = change.value; break;
  case What::endedBy: frame.endedBy = change.value; break;
  case What::group: sent.group = change.value % 2 ? honest : owner::GroupId{change.value, change.index}; break;
  case What::key:
    if (frame.kind == PeerFrame::Kind::Key) {
      frame.digest = keyOf(change, member);
    }
    break;
  case What::size:
  case What::terms: frame.terms = frame.terms ? changedTerms(change, *frame.terms) : nullptr; break;
  default: break;
  }
}

/// Of a list that ends with the frame itself.
void PeerScript::changeOrder(const PeerChange &change, std::vector<Sent> &sent, unsigned member) {
  Member &own = members[member];
  const auto here = sent.end() - 1;
  switch (change.what) {
  case What::twice: sent.insert(here, Sent(*here)); break;
  case What::drop: sent.pop_back(); break;
  case What::later:
    own.held.push_back(*here);
    sent.pop_back();
    break;
  case What::earlier:
    if (!own.past.empty()) {
      sent.insert(here, own.past[change.index % own.past.size()]);
    }
    break;
  case What::insert: {
    Sent more = *here;
    PeerFrame &frame = more.frame;
    frame.kind = static_cast<PeerFrame::Kind>(change.value % 5);
    frame.terms = frame.kind == PeerFrame::Kind::Terms ? runtime::copyOf("", 0) : nullptr;
    frame.point.sequence += change.index % 5 == 1 ? 1 : change.index % 5 == 2 ? ~uint64_t{0} : 0;
    frame.point.attempt += change.index % 5 == 3 ? 1 : 0;
    frame.point.step += change.index % 5 == 4 ? 1 : 0;
    if (frame.kind == PeerFrame::Kind::Key) {
      frame.digest = keyOf(change, member);
    }
    sent.insert(here, more);
    break;
  }
  default: break;
  }
}

std::string PeerScript::bytesOf(unsigned member, const owner::GroupId &group, const PeerFrame &frame) {
  std::lock_guard lock(mutex);
  Member &own = members[member];
  const unsigned number = own.frames++;
  own.key = frame.kind == PeerFrame::Kind::Key ? frame.digest : own.key;
  std::vector<Sent> held = std::move(own.held), sent = {{group, frame}};
  own.held.clear();
  std::vector<PeerChange> ofBytes;
  for (const PeerChange &change : changes) {
    if (change.message != message || change.member % kMembers != member || change.frame != number || sent.empty()) {
      continue;
    }
    changed = true;
    if (change.what < What::twice) {
      changeField(change, sent.back(), member);
    } else if (change.what < What::head) {
      changeOrder(change, sent, member);
    } else if (change.what < What::connect) {
      ofBytes.push_back(change);
    }
  }
  sent.insert(sent.end(), held.begin(), held.end());
  own.past.push_front({group, frame});
  own.past.resize(std::min(own.past.size(), kPastMost));
  std::string bytes;
  for (const Sent &each : sent) {
    bytes += encode(each.group, each.frame);
  }
  for (const PeerChange &change : ofBytes) {
    changeBytes(change, bytes);
  }
  return bytes;
}

} // namespace sojourn::fuzz
