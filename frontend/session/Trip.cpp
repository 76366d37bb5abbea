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
  const wire::Step &first = message_->step();
  return publishedBytes_ + published <= kPublishedBytesMost && first.hash == call.step.hash &&
         sameTables(first.tables, call.step.tables) && sameTerms(first.spending, call.step.spending) &&
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
  if (!message_) {
    compiled_ = call.compiled;
    message_.emplace(std::move(step));
  } else {
    message_->add({std::move(step.states), std::move(step.slots), std::move(step.seeds), std::move(step.results),
                   std::move(step.releases), std::move(step.uploads)});
  }
}

void HeldSteps::send(Connection &connection, Spending &spending, News &news) {
  // What died since the last step, but what that makes: it is there only then.
  std::vector<uint64_t> &last = message_->lastReleases();
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
    message_->cut(done, compiled_->program, compiled_->debug);
    steps_.erase(steps_.begin(), steps_.begin() + static_cast<std::ptrdiff_t>(done));
  }
  trip->isStopped = trip->isStopped || !steps_.empty();
}

size_t HeldSteps::sendOnce(Connection &connection, Spending &spending, News &news) {
  const uint64_t before = trip->committed;
  Sent sent;
  sent.reply.steps = 0;
  if (trip->deadline) {
    const auto left = *trip->deadline - std::chrono::steady_clock::now();
    trip->isStopped = left.count() <= 0;
    message_->setDeadline(static_cast<uint64_t>(std::chrono::ceil<std::chrono::milliseconds>(left).count()));
  }
  if (!trip->isStopped) {
    sent = message_->send(connection, spending, news,
                          [&](uint64_t steps) { return !trip->follow || trip->follow(before + steps); });
    trip->isStopped = sent.isStopped;
    trip->failure = sent.interruption ? sent.interruption : sent.failure;
  }
  const StepReply &reply = sent.reply;
  for (size_t at = 0; at < reply.steps; ++at) {
    std::string problem = fillPublished(steps_[at].publishes, reply, at * steps_[at].publishes.size());
    if (!problem.empty() && !trip->failure) {
      try {
        raise(ErrorKind::OwnerError, problem + "; the step is committed, but its published values are lost");
      } catch (...) {
        trip->failure = std::current_exception();
      }
    }
  }
  trip->committed += reply.steps;
  if (trip->isOver()) {
    takeBack(connection.device(), reply.steps,
             sent.isUnknown  ? kUnknownOutcome
             : trip->failure ? kNotRun
                             : kStopped,
             sent.isUnknown);
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
