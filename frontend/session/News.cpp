// SPDX-License-Identifier: Apache-2.0
#include "frontend/session/News.h"

#include <atomic>
#include <iterator>
#include <utility>

namespace sojourn::frontend {

static std::atomic<bool> anyNews{false};

bool News::takeAny() { return anyNews.load() && anyNews.exchange(false); }

void News::add(const std::vector<std::string> &notes) {
  if (!notes.empty()) {
    std::lock_guard lock(mutex_);
    notes_.insert(notes_.end(), notes.begin(), notes.end());
    anyNews = true;
  }
}

void News::add(std::vector<Explanation> &&explanations) {
  if (!explanations.empty()) {
    std::lock_guard lock(mutex_);
    std::move(explanations.begin(), explanations.end(), std::back_inserter(explanations_));
    while (explanations_.size() > kExplanations) {
      explanations_.pop_front();
    }
    anyNews = true;
  }
}

void News::add(DefaultStep &&step) {
  std::lock_guard lock(mutex_);
  defaultSteps_.push_back(std::move(step));
  anyNews = true;
}

std::vector<std::string> News::takeNotes() {
  if (process_.isForked()) {
    return {};
  }
  std::lock_guard lock(mutex_);
  return std::exchange(notes_, {});
}

std::vector<Explanation> News::takeExplanations() {
  if (process_.isForked()) {
    return {};
  }
  std::lock_guard lock(mutex_);
  std::vector<Explanation> all(std::move_iterator(explanations_.begin()), std::move_iterator(explanations_.end()));
  explanations_.clear();
  return all;
}

std::vector<DefaultStep> News::takeDefaultSteps() {
  if (process_.isForked()) {
    return {};
  }
  std::lock_guard lock(mutex_);
  return std::exchange(defaultSteps_, {});
}

} // namespace sojourn::frontend
