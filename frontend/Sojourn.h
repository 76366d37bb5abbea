// SPDX-License-Identifier: Apache-2.0
// Sojourn for C++ programs: connect to an owner, write ordinary libtorch code on its device, end
// each step with one round trip. Link `sojourn_frontend`; no Python is needed.
//
//   sojourn::Owner owner = sojourn::connect("ipc:///run/o.sock");
//   auto x = host.to(owner.device());
//   { sojourn::Step step; loss = train(x); step.end(); }
//   at::Tensor value = sojourn::publish(loss);
//
// Errors: sojourn::Error (a c10::Error) with a kind; shapes and arguments fail with torch's own.
#pragma once

#include "frontend/Error.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace sojourn {

namespace frontend {
class Session;
struct PublishedState;
} // namespace frontend

/// Registers device "owner" with torch. Linking the library does it; calling again does nothing.
void initialize();

struct Column {
  std::string name;
  at::ScalarType dtype;
  bool bounded = false;
  double lower = 0, upper = 0;
};

/// A dataset as the owner describes it; never a value.
struct Dataset {
  std::string name, policy, version;
  int64_t rows = 0;
  std::vector<Column> columns;
};

/// A connection to one owner. Copies share it.
class Owner {
public:
  explicit Owner(std::shared_ptr<frontend::Session> session) : session_(std::move(session)) {}
  /// Device "owner:N": `tensor.to(owner.device())` uploads a tensor of the caller's own.
  c10::Device device() const;
  std::vector<Dataset> datasets() const;
  /// Rows of a dataset as a remote tensor [indices.size(0), columns.size()]; indices: int64 [B],
  /// remote. An index outside the table gives a row of zeros.
  at::Tensor rows(const std::string &dataset, const std::vector<std::string> &columns, at::ScalarType dtype,
                  const at::Tensor &indices) const;
  /// int64 [size]: positions start..start+size of the epoch's random order of `rows` rows.
  at::Tensor sample(int64_t rows, int64_t size, int64_t seed, int64_t epoch, int64_t start) const;
  /// int64 [size]: start, start + 1, ...
  at::Tensor range(int64_t size, int64_t start) const;
  /// Sends what is recorded and not yet sent.
  void flush() const;
  void close() const;
  std::map<std::string, uint64_t> counters() const;
  const std::shared_ptr<frontend::Session> &session() const { return session_; }

private:
  std::shared_ptr<frontend::Session> session_;
};

/// Connects to `sojourn-owner serve`. Throws ConnectionLost if nobody answers within `timeoutMs`.
Owner connect(const std::string &url, int timeoutMs = 60000);
/// Any function from request bytes to reply bytes, such as an embedded owner's `handle`.
Owner connect(const std::string &name, std::function<std::string(std::string_view)> handle);

/// One round trip for everything recorded between construction and end(); destruction without
/// end() (an exception) drops what was recorded and returns to the committed values.
class Step {
public:
  Step();
  ~Step();
  Step(const Step &) = delete;
  Step &operator=(const Step &) = delete;
  void end();

private:
  bool open_ = true;
};

/// A published value: filled by the reply of the step it was published in.
class Published {
public:
  explicit Published(std::shared_ptr<frontend::PublishedState> state) : state_(std::move(state)) {}
  bool ready() const;
  /// CPU tensor. Throws ValueNeeded before the step has ended.
  at::Tensor value() const;

private:
  std::shared_ptr<frontend::PublishedState> state_;
};

/// Inside a step: the value arrives with the step's reply.
std::vector<Published> publishLater(const std::vector<at::Tensor> &tensors);
/// Ends the implicit step and returns the value as a CPU tensor.
at::Tensor publish(const at::Tensor &tensor);
/// Ends the implicit step; inside an explicit one it does nothing.
void flush();

} // namespace sojourn
