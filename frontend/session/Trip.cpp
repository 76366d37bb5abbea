// SPDX-License-Identifier: Apache-2.0
// Holding steps back, and what becomes of them.
#include "frontend/session/Trip.h"

#include "frontend/session/Translated.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

namespace sojourn::frontend {

namespace {

constexpr const char *kReplyLost =
    "the owner committed the step, but the reply with this value was lost; publish it again";

/// Of what a message of several steps publishes: a reply that is not much larger is remembered by the owner, should it
/// be lost.
constexpr size_t kPublishedBytesMost = size_t{1} << 19;

const Reason &kStopped = constantReason("the steps were stopped before the step that computes it ran");

size_t bytesOf(const std::vector<wire::TensorView> &uploads) {
  size_t bytes = 0;
  for (const wire::TensorView &upload : uploads) {
    bytes += upload.data.size();
  }
  return bytes;
}

size_t bytesOf(const Publishes &publishes) {
  size_t bytes = 0;
  for (const auto &[storage, state] : publishes) {
    bytes += 256 + static_cast<size_t>(c10::multiply_integers(storage->sizes)) * c10::elementSize(storage->dtype);
  }
  return bytes;
}

bool sameTables(const std::vector<wire::TableBinding> &a, const std::vector<wire::TableBinding> &b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](auto &x, auto &y) { return x.name == y.name && x.version == y.version; });
}

bool sameTerms(const wire::Spending &a, const wire::Spending &b) {
  auto numbers = [](const wire::Spending &s) {
    return std::tuple(s.run, s.steps, s.noiseMultiplier, s.clip, s.perLayer, s.lossIsSum, s.metricShare);
  };
  // A price of its own is no part of a message of several steps.
  auto isSame = [](const wire::ReleaseTerms &x, const wire::ReleaseTerms &y) {
    auto isFree = [](const wire::ReleaseTerms &terms) { return terms.epsilon == 0 && terms.delta == 0; };
    return x.bound == y.bound && x.continues == y.continues && isFree(x) && isFree(y);
  };
  return numbers(a) == numbers(b) &&
         std::equal(a.releases.begin(), a.releases.end(), b.releases.begin(), b.releases.end(), isSame);
}

} // namespace

bool Following::operator()(uint64_t steps) {
  try {
    wantsStop = wantsStop || (ask && !ask(steps));
  } catch (...) {
    interruption = std::current_exception();
    wantsStop = true;
  }
  return !wantsStop;
}

std::string failedStep(size_t committed, size_t count) {
  return count == 1 ? ""
                    : "step " + std::to_string(committed + 1) + " of the " + std::to_string(count) +
                          " sent together failed, the steps before it are committed: ";
}

void Trip::raiseFailure() {
  if (failure) {
    isStopped = true;
    std::rethrow_exception(std::exchange(failure, nullptr));
  }
}

std::string fillPublished(const Publishes &publishes, const StepReply &reply, size_t first) {
  if (reply.kind == StepReply::Kind::Committed) {
    for (auto &[storage, state] : publishes) {
      state->fail(kReplyLost);
    }
    return {};
  }
  std::string problem;
  if (reply.published.size() != publishes.size() * reply.steps) {
    problem = "the owner's reply holds " + std::to_string(reply.published.size()) + " published values, expected " +
              std::to_string(publishes.size() * reply.steps);
  }
  for (size_t i = 0; i < publishes.size() && problem.empty(); ++i) {
    const Storage &storage = *publishes[i].first;
    const wire::TensorView &value = reply.published[first + i];
    at::ScalarType dtype = scalarTypeOf(static_cast<Element>(value.element));
    at::Tensor result = hostTensor(dtype, value.dims, value.data);
    if (!result.defined() || result.sizes() != c10::IntArrayRef(storage.sizes) || dtype != storage.dtype) {
      problem = "a published value arrived as " + std::string(c10::toString(dtype)) + " of " +
                std::to_string(value.data.size()) + " bytes, which differs from the recorded dtype and shape";
    } else {
      if (first + i < reply.releases.size()) {
        const StepReply::Release &release = reply.releases[first + i];
        publishes[i].second->error = release.error;
        publishes[i].second->receipt = release.receipt;
        publishes[i].second->receiptText = release.text;
      }
      publishes[i].second->fill(std::move(result));
    }
  }
  for (auto &[storage, state] : publishes) {
    if (!state->settled) {
      state->fail(problem);
    }
  }
  return problem;
}

bool HeldSteps::takes(const TraceCall &call) const {
  // Steps of one program publish alike.
  const size_t published = steps_.empty() ? 0 : publishedBytes_ / steps_.size();
  return publishedBytes_ + published <= kPublishedBytesMost && message_.hash == call.step.hash &&
         sameTables(message_.tables, call.step.tables) && sameTerms(message_.spending, call.step.spending) &&
         uploadBytes_ + bytesOf(call.step.uploads) <= kTripUploadBytes && !isFull();
}

void HeldSteps::add(TraceCall &call, Recording &recording) {
  wire::Step &step = call.step;
  Held &held = steps_.emplace_back();
  held.results = step.results;
  held.releases = step.releases;
  for (Word id : call.kept) {
    if (Storage *storage = recording.storages[static_cast<size_t>(id)]) {
      held.kept.push_back(storage->weak());
    }
  }
  held.publishes = std::move(recording.publishes);
  publishedBytes_ += bytesOf(held.publishes);
  uploadBytes_ += bytesOf(step.uploads);
  uploads_.insert(uploads_.end(), call.uploads.begin(), call.uploads.end());
  if (steps_.size() == 1) {
    compiled_ = call.compiled;
    states_ = step.states;
    slots_ = step.slots;
    message_ = std::move(step);
    return;
  }
  wire::Repetition &next = message_.repetitions.emplace_back();
  if (step.states != states_) {
    next.states = states_ = std::move(step.states);
  }
  if (step.slots != slots_) {
    next.slots = slots_ = std::move(step.slots);
  }
  next.uploads = std::move(step.uploads);
  next.seeds = std::move(step.seeds);
  next.results = std::move(step.results);
  next.releases = std::move(step.releases);
}

void HeldSteps::cut(size_t done) {
  std::vector<wire::Repetition> rest;
  for (size_t at = 0; at < message_.repetitions.size(); ++at) {
    wire::Repetition &next = message_.repetitions[at];
    if (at < done) {
      message_.begin(std::move(next));
    } else {
      rest.push_back(std::move(next));
    }
  }
  message_.repetitions = std::move(rest);
  message_.program = compiled_->program;
  message_.debug = compiled_->debug;
  steps_.erase(steps_.begin(), steps_.begin() + static_cast<std::ptrdiff_t>(done));
}

void HeldSteps::send(Connection &connection, Spending &spending, News &news) {
  // What died since the last step, but what that makes: it is there only then.
  std::vector<uint64_t> &last = message_.repetitions.empty() ? message_.releases : message_.repetitions.back().releases;
  const std::vector<uint64_t> &made = steps_.back().results;
  std::vector<uint64_t> later;
  for (uint64_t handle : connection.device().takeReleases()) {
    const bool isMade = std::find(made.begin(), made.end(), handle) != made.end();
    (isMade ? later : last).push_back(handle);
  }
  connection.device().handles().releaseUncounted(later);
  steps_.back().releases = last;
  // An owner that ran fewer took its time; the rest is sent anew.
  while (!steps_.empty() && !trip->isOver()) {
    const size_t done = sendOnce(connection, spending, news);
    if (done < steps_.size() && (trip->isOver() || done == 0)) {
      break;
    }
    cut(done);
  }
  trip->isStopped = trip->isStopped || !steps_.empty();
}

size_t HeldSteps::sendOnce(Connection &connection, Spending &spending, News &news) {
  const uint64_t before = trip->committed;
  StepReply reply;
  reply.steps = 0;
  bool unknown = false;
  Following following{[&](uint64_t steps) { return !trip->follow || trip->follow(before + steps); }};
  const StepFollower follow = std::ref(following);
  try {
    if (trip->deadline) {
      auto left = *trip->deadline - std::chrono::steady_clock::now();
      trip->isStopped = left.count() <= 0;
      message_.deadlineMs = static_cast<uint64_t>(std::chrono::ceil<std::chrono::milliseconds>(left).count());
    }
    if (!trip->isStopped) {
      reply = connection.send(message_, unknown, &follow);
      unknown = reply.isOpen;
      trip->isStopped = following.wantsStop;
    }
    if (reply.failure) {
      throw Error(reply.failure->kind, failedStep(reply.steps, message_.count()) + reply.failure->text);
    }
  } catch (...) {
    trip->failure = translatedFailure();
  }
  for (size_t at = 0; at < reply.steps; ++at) {
    std::string problem = fillPublished(steps_[at].publishes, reply, at * steps_[at].publishes.size());
    if (!problem.empty() && !trip->failure) {
      try {
        raise(ErrorKind::OwnerError, problem + "; the step is committed, but its published values are lost");
      } catch (...) {
        trip->failure = std::current_exception();
      }
    }
    spending.note(message_, connection.client());
  }
  trip->failure = following.interruption ? following.interruption : trip->failure;
  trip->committed += reply.steps;
  connection.device().countSteps(reply.steps);
  news.add(reply.notes);
  if (trip->isOver()) {
    takeBack(connection.device(), reply.steps, unknown ? kUnknownOutcome : trip->failure ? kNotRun : kStopped, unknown);
  }
  return reply.steps;
}

void HeldSteps::takeBack(RemoteDevice &device, size_t first, const Reason &reason, bool unknown) {
  std::set<uint64_t> never;
  uint64_t named = 0;
  DeviceLock lock(device.mutex());
  for (size_t at = first; at < steps_.size(); ++at) {
    Held &step = steps_[at];
    never.insert(step.results.begin(), step.results.end());
    ++device.counts().steps_dropped;
    for (auto &weak : step.kept) {
      if (auto storage = weak.lock()) {
        storage->handle = 0;
        storage->lost = storage->pack ? nullptr : reason;
        ++named;
      }
    }
    for (auto &[storage, state] : step.publishes) {
      state->fail(*reason);
    }
    if (!unknown) {
      device.handles().releaseUncounted(step.releases);
    }
  }
  device.handles().withdraw(never, named);
}

} // namespace sojourn::frontend
