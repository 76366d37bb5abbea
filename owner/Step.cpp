// SPDX-License-Identifier: Apache-2.0
// The way of a step through the owner: program, bindings, labels, log, run, reply, commit.
#include "owner/Step.h"

#include "owner/Reply.h"
#include "runtime/Limits.h"

#include "llvm/ADT/StringExtras.h"

#include <cstring>
#include <set>

namespace sojourn::owner {

using llvm::Twine;
using runtime::ArgKind;
using runtime::Element;
using runtime::HostTensor;
using runtime::ResultKind;
using runtime::TensorType;

namespace {

std::string typeText(const TensorType &type) {
  std::string text;
  for (int64_t dim : type.dims) {
    text += std::to_string(dim) + "x";
  }
  return text + runtime::elementName(type.element).str();
}

template <class T>
size_t length(const flatbuffers::Vector<T> *vector) {
  return vector ? vector->size() : 0;
}

llvm::StringRef bytesOf(const flatbuffers::Vector<uint8_t> *vector) {
  return vector ? llvm::StringRef(reinterpret_cast<const char *>(vector->data()), vector->size()) : llvm::StringRef();
}

class Step {
public:
  Step(const StepContext &context, const wire::Step &request) : context(context), request(request) {}
  llvm::Expected<StepReply> run();

private:
  llvm::Expected<bool> findPlan();
  llvm::Error checkCounts();
  llvm::Error bindArguments();
  llvm::Error bindState(size_t index, size_t position);
  llvm::Error bindUpload(size_t index, size_t position);
  llvm::Error bindWord(size_t index, uint64_t bits);
  llvm::Error bindTable(size_t index, size_t position);
  llvm::Error checkResults();
  llvm::Error checkPublishes();
  llvm::Error checkReleases();
  void commit(std::vector<HostTensor> &values);

  const StepContext &context;
  const wire::Step &request;
  Session *session = nullptr;
  runtime::ProgramHash hash{};
  std::shared_ptr<Plan> plan;
  std::vector<runtime::Binding> bindings;
  std::vector<Handle *> states;                             ///< per argument, null for the others
  std::vector<std::shared_ptr<const LoadedDataset>> tables; ///< keeps them loaded while they run
  std::vector<std::shared_ptr<const Label>> labels;         ///< per argument, null = the client's own
  const std::vector<std::shared_ptr<const Label>> *resultLabels = nullptr;
  std::vector<uint64_t> releases, sentAhead;
};

/// False: the owner does not hold this program.
llvm::Expected<bool> Step::findPlan() {
  llvm::StringRef given = bytesOf(request.program_hash());
  if (given.size() != hash.size()) {
    return requestError(wire::ErrorCode_Malformed,
                        "program_hash has " + Twine(given.size()) + " bytes, expected " + Twine(hash.size()));
  }
  std::memcpy(hash.data(), given.data(), hash.size());
  llvm::StringRef program = bytesOf(request.program()), debug = bytesOf(request.debug());
  if (program.empty()) {
    auto known = session->programs.find(hash);
    plan = known == session->programs.end() ? nullptr : context.plans.find(known->second);
    return plan != nullptr;
  }
  if (program.size() > runtime::limits::kProgramBytes || debug.size() > runtime::limits::kDebugBytes) {
    return requestError(wire::ErrorCode_Limit, "the program has " + Twine(program.size()) +
                                                   " bytes and its debug table " + Twine(debug.size()) +
                                                   ", this owner takes up to " + Twine(runtime::limits::kProgramBytes) +
                                                   " each");
  }
  PlanKey key{runtime::hashProgram(program), runtime::hashProgram(debug)};
  if (key.program != hash) {
    return requestError(wire::ErrorCode_Malformed, "the program's bytes have hash " + runtime::toHex(key.program) +
                                                       ", the request says " + runtime::toHex(hash));
  }
  if (!session->programs.count(hash) && session->programs.size() >= context.limits.programsPerSession) {
    session->programs.clear(); // the client learns by NeedProgram what to send again
  }
  plan = context.plans.find(key);
  if (!plan) {
    auto made = makePlan(program, debug);
    if (!made) {
      return made.takeError();
    }
    plan = std::move(*made);
    context.plans.insert(key, plan);
  }
  session->programs[hash] = key;
  return true;
}

llvm::Error Step::checkCounts() {
  auto check = [](const char *what, size_t found, size_t expected) {
    return found == expected
               ? llvm::Error::success()
               : requestError(wire::ErrorCode_Malformed, "the request binds " + Twine(found) + " " + what +
                                                             ", the program has " + Twine(expected));
  };
  llvm::Error error = check("states", length(request.states()), plan->states);
  error = error ? std::move(error) : check("uploads", length(request.uploads()), plan->uploads);
  error = error ? std::move(error) : check("slots", length(request.slots()), plan->slots);
  error = error ? std::move(error) : check("seeds", length(request.seeds()), plan->seeds);
  error = error ? std::move(error) : check("tables", length(request.tables()), plan->tables);
  return error ? std::move(error) : check("kept results", length(request.results()), plan->keeps);
}

llvm::Error Step::bindArguments() {
  auto args = plan->executable->args();
  bindings.resize(args.size());
  states.resize(args.size());
  labels.resize(args.size());
  size_t next[5] = {};
  for (size_t index = 0; index < args.size(); ++index) {
    size_t position = next[static_cast<size_t>(args[index].kind)]++;
    auto at = static_cast<flatbuffers::uoffset_t>(position);
    llvm::Error error = llvm::Error::success();
    switch (args[index].kind) {
    case ArgKind::state: error = bindState(index, position); break;
    case ArgKind::upload: error = bindUpload(index, position); break;
    case ArgKind::slot: error = bindWord(index, request.slots()->Get(at)); break;
    case ArgKind::seed: error = bindWord(index, request.seeds()->Get(at)); break;
    case ArgKind::table: error = bindTable(index, position); break;
    }
    if (error) {
      return error;
    }
  }
  return llvm::Error::success();
}

llvm::Error Step::bindState(size_t index, size_t position) {
  uint64_t id = request.states()->Get(static_cast<flatbuffers::uoffset_t>(position));
  auto found = session->handles.find(id);
  if (found == session->handles.end()) {
    return requestError(wire::ErrorCode_Handle,
                        "state " + Twine(position) + ": this session has no handle " + Twine(id));
  }
  const TensorType &expected = plan->executable->args()[index].type;
  if (!(found->second.tensor.type == expected)) {
    return requestError(wire::ErrorCode_Malformed, "state " + Twine(position) + ": handle " + Twine(id) + " is " +
                                                       typeText(found->second.tensor.type) + ", the program expects " +
                                                       typeText(expected));
  }
  states[index] = &found->second;
  bindings[index].tensor = found->second.tensor;
  labels[index] = found->second.label;
  return llvm::Error::success();
}

llvm::Error Step::bindUpload(size_t index, size_t position) {
  auto *tensor = request.uploads()->Get(static_cast<flatbuffers::uoffset_t>(position));
  const TensorType &expected = plan->executable->args()[index].type;
  llvm::StringRef data = bytesOf(tensor->data());
  std::shared_ptr<runtime::Buffer> buffer;
  if (uint64_t number = tensor->sent_ahead()) {
    auto found = session->uploads.find(number);
    if (found == session->uploads.end() || found->second.received != found->second.buffer->size() ||
        llvm::is_contained(sentAhead, number)) {
      return requestError(wire::ErrorCode_Handle,
                          "upload " + Twine(position) + ": number " + Twine(number) +
                              " was not sent ahead to its end, or is bound twice; send what is missing first");
    }
    buffer = found->second.buffer;
    data = llvm::StringRef(static_cast<const char *>(buffer->data()), buffer->size());
    sentAhead.push_back(number);
  }
  bool fits = tensor->element() == static_cast<uint8_t>(expected.element) &&
              length(tensor->dims()) == expected.dims.size() && data.size() == expected.bytes();
  for (size_t dim = 0; fits && dim < expected.dims.size(); ++dim) {
    fits = tensor->dims()->Get(static_cast<flatbuffers::uoffset_t>(dim)) == expected.dims[dim];
  }
  if (!fits) {
    TensorType found{tensor->element() < runtime::kElementCount ? static_cast<Element>(tensor->element()) : Element::u8,
                     {}};
    for (size_t dim = 0; dim < std::min<size_t>(length(tensor->dims()), 16); ++dim) {
      found.dims.push_back(tensor->dims()->Get(static_cast<flatbuffers::uoffset_t>(dim)));
    }
    return requestError(wire::ErrorCode_Malformed, "upload " + Twine(position) + " is " + typeText(found) +
                                                       " (element " + Twine(unsigned(tensor->element())) + ") in " +
                                                       Twine(data.size()) + " bytes, the program expects " +
                                                       typeText(expected) + " in " + Twine(expected.bytes()) +
                                                       " bytes");
  }
  if (expected.element == Element::i1 && !llvm::all_of(data, [](char byte) { return byte == 0 || byte == 1; })) {
    return requestError(wire::ErrorCode_Malformed, "upload " + Twine(position) + " has booleans other than 0 and 1");
  }
  if (!buffer) {
    buffer = runtime::BufferPool::global().allocate(data.size());
    if (!data.empty()) {
      std::memcpy(buffer->data(), data.data(), data.size());
    }
  }
  bindings[index].tensor = HostTensor{expected, std::move(buffer)};
  return llvm::Error::success();
}

llvm::Error Step::bindWord(size_t index, uint64_t bits) {
  if (plan->executable->args()[index].type.element == Element::i1 && bits > 1) {
    return requestError(wire::ErrorCode_Malformed, "argument " + Twine(index) + " is a boolean slot, its bits are " +
                                                       Twine(bits) + ", expected 0 or 1");
  }
  auto buffer = runtime::BufferPool::global().allocate(sizeof(bits));
  std::memcpy(buffer->data(), &bits, sizeof(bits));
  bindings[index].tensor = HostTensor{plan->executable->args()[index].type, std::move(buffer)};
  return llvm::Error::success();
}

llvm::Error Step::bindTable(size_t index, size_t position) {
  const auto *table = request.tables()->Get(static_cast<flatbuffers::uoffset_t>(position));
  std::string name = table->name() ? table->name()->str() : "";
  llvm::StringRef version = table->version() ? table->version()->c_str() : "";
  auto found = context.store.find(name);
  if (!found) {
    return found.takeError();
  }
  if (!*found) {
    return requestError(wire::ErrorCode_Dataset, "no dataset is named '" + name + "'");
  }
  const Dataset &dataset = *(*found)->dataset;
  if (version != dataset.version()) {
    return requestError(wire::ErrorCode_Dataset, "dataset '" + name + "' has version " + dataset.version() +
                                                     ", the step was made for version " + version +
                                                     "; get the table again and record the step with it");
  }
  const runtime::ArgSpec &expected = plan->executable->args()[index];
  if (dataset.rows() != expected.rows) {
    return requestError(wire::ErrorCode_Dataset, "dataset '" + name + "' has " + Twine(dataset.rows()) +
                                                     " rows, the program expects " + Twine(expected.rows));
  }
  for (const runtime::TableColumn &wanted : expected.columns) {
    const Column *column = dataset.column(wanted.name);
    if (!column || column->element != wanted.element || llvm::ArrayRef<int64_t>(column->dims) != wanted.dims) {
      auto entry = [](Element element, llvm::ArrayRef<int64_t> dims) {
        return typeText({element, {dims.begin(), dims.end()}});
      };
      return requestError(wire::ErrorCode_Dataset,
                          "dataset '" + name + "' has " +
                              (column ? "column '" + wanted.name + "' of " + entry(column->element, column->dims)
                                      : "no column '" + wanted.name + "'") +
                              ", the program expects it of " + entry(wanted.element, wanted.dims));
    }
  }
  bindings[index].table = &dataset;
  labels[index] = (*found)->label;
  tables.push_back(std::move(*found));
  return llvm::Error::success();
}

llvm::Error Step::checkResults() {
  std::set<uint64_t> fresh;
  for (size_t index = 0; index < length(request.results()); ++index) {
    uint64_t id = request.results()->Get(static_cast<flatbuffers::uoffset_t>(index));
    if (session->handles.count(id) || !fresh.insert(id).second) {
      return requestError(wire::ErrorCode_Malformed, "handle id " + Twine(id) + " for kept result " + Twine(index) +
                                                         " is in use, expected one that this session does not have");
    }
  }
  const Limits &limits = context.limits;
  // What was sent ahead is counted already, and gone when the step has committed.
  size_t held = context.sessions.handleBytes;
  for (uint64_t number : sentAhead) {
    held -= session->uploads.at(number).buffer->size();
  }
  if (session->handles.size() + plan->keeps > limits.handlesPerSession || held + plan->keepBytes > limits.handleBytes) {
    return requestError(wire::ErrorCode_Limit, "the step would keep " + Twine(plan->keeps) + " more values of " +
                                                   Twine(plan->keepBytes) + " bytes; this owner holds up to " +
                                                   Twine(limits.handlesPerSession) + " handles per session and " +
                                                   Twine(limits.handleBytes) +
                                                   " bytes in all; let go of tensors that are no longer needed");
  }
  if (plan->publishBytes > limits.replyBytes) {
    return requestError(wire::ErrorCode_Limit, "the step publishes " + Twine(plan->publishBytes) +
                                                   " bytes, this owner's replies hold up to " +
                                                   Twine(limits.replyBytes) + "; publish in several steps");
  }
  // A handle bound twice and committed would have two new values.
  std::set<const Handle *> committed;
  for (const runtime::ResultSpec &spec : plan->executable->results()) {
    if (spec.kind == ResultKind::commit && !committed.insert(states[spec.target]).second) {
      return requestError(wire::ErrorCode_Malformed, "one handle is bound to two states that are both committed");
    }
  }
  return llvm::Error::success();
}

llvm::Error Step::checkPublishes() {
  resultLabels = &plan->joinLabels(labels);
  auto results = plan->executable->results();
  for (size_t index = 0; index < results.size(); ++index) {
    const Label &label = *(*resultLabels)[index];
    if (results[index].kind != ResultKind::publish || label.releasable()) {
      continue;
    }
    return requestError(wire::ErrorCode_Refused,
                        "this value may not leave the owner: it is computed from private dataset " + label.blockers() +
                            ". Open data and your own uploads may be published, and what only they were computed "
                            "into. Keep the value here, compute it from open data, or ask the data owner to open "
                            "the dataset",
                        results[index].op, results[index].location);
  }
  return llvm::Error::success();
}

llvm::Error Step::checkReleases() {
  std::set<uint64_t> distinct;
  for (size_t index = 0; index < length(request.releases()); ++index) {
    uint64_t id = request.releases()->Get(static_cast<flatbuffers::uoffset_t>(index));
    if (!session->handles.count(id)) {
      return requestError(wire::ErrorCode_Handle,
                          "cannot release handle " + Twine(id) + ": this session has no such handle");
    }
    if (!distinct.insert(id).second) {
      return requestError(wire::ErrorCode_Malformed, "handle " + Twine(id) + " is released twice in one request");
    }
    releases.push_back(id);
  }
  return llvm::Error::success();
}

/// All allocation comes first; after it nothing can fail.
void Step::commit(std::vector<HostTensor> &values) {
  auto results = plan->executable->results();
  std::vector<uint64_t> inserted;
  inserted.reserve(plan->keeps);
  try {
    for (size_t index = 0; index < results.size(); ++index) {
      if (results[index].kind == ResultKind::keep) {
        uint64_t id = request.results()->Get(static_cast<flatbuffers::uoffset_t>(inserted.size()));
        session->handles.try_emplace(id, Handle{values[index], (*resultLabels)[index]});
        inserted.push_back(id);
      }
    }
  } catch (...) {
    for (uint64_t id : inserted) {
      session->handles.erase(id);
    }
    throw;
  }
  context.sessions.handleBytes += plan->keepBytes;
  for (size_t index = 0; index < results.size(); ++index) {
    if (results[index].kind == ResultKind::commit) {
      Handle &state = *states[results[index].target];
      state.tensor.buffer = std::move(values[index].buffer); // the type is the same
      state.label = (*resultLabels)[index];
    }
  }
  for (uint64_t number : sentAhead) {
    context.sessions.dropUpload(*session, number);
  }
  for (uint64_t id : releases) {
    auto found = session->handles.find(id);
    context.sessions.handleBytes -= found->second.tensor.type.bytes();
    session->handles.erase(found);
  }
}

llvm::Expected<StepReply> Step::run() {
  auto opened = context.sessions.find(request.session());
  if (!opened) {
    return opened.takeError();
  }
  session = *opened;
  auto known = findPlan();
  if (!known) {
    return known.takeError();
  }
  if (!*known) {
    return StepReply{needProgramReply(), false};
  }
  // Permission for every published value is settled before anything runs.
  for (auto check :
       {&Step::checkCounts, &Step::bindArguments, &Step::checkResults, &Step::checkReleases, &Step::checkPublishes}) {
    if (llvm::Error error = (this->*check)()) {
      return error;
    }
  }
  if (llvm::Error error = context.log.add(hash, session->client, *plan)) {
    return error;
  }
  runtime::RunOptions options;
  options.profile = context.profile;
  auto values = plan->executable->run(bindings, options);
  if (!values) {
    return values.takeError();
  }
  auto results = plan->executable->results();
  std::vector<const HostTensor *> published;
  for (size_t index = 0; index < results.size(); ++index) {
    if (values->size() != results.size() || !(*values)[index].buffer ||
        !((*values)[index].type == results[index].type)) {
      return requestError(wire::ErrorCode_Internal, "the plan returned other results than it said");
    }
    if (results[index].kind == ResultKind::publish) {
      published.push_back(&(*values)[index]);
    }
  }
  StepReply reply{doneReply(published), true};
  commit(*values);
  return reply;
}

} // namespace

llvm::Expected<StepReply> runStep(StepContext context, const wire::Step &request) {
  return Step(context, request).run();
}

} // namespace sojourn::owner
