// SPDX-License-Identifier: Apache-2.0
// Binding states, uploads, slots, seeds and tables to a program's arguments.
#include "owner/StepBindings.h"

#include "dialect/Signature.h"
#include "owner/MappedFile.h"
#include "owner/Peer.h"
#include "owner/OwnerBooks.h"
#include "owner/StepMachine.h"
#include "runtime/wire/Protocol.h"
#include "runtime/wire/Step.h"

#include <algorithm>

namespace sojourn::owner {

using llvm::Twine;
using runtime::Element;
using runtime::TensorType;

StepPart StepPart::first(const wire::Step &request) {
  return {request.states(),
          request.slots(),
          request.seeds(),
          sojourn::wire::HandleIds::results(request),
          sojourn::wire::HandleIds::releases(request),
          request.uploads(),
          request.tables()};
}

StepPart StepPart::next(const wire::Repetition &repetition) const {
  return {length(repetition.states()) ? repetition.states() : states,
          length(repetition.slots()) ? repetition.slots() : slots,
          repetition.seeds(),
          sojourn::wire::HandleIds::results(repetition),
          sojourn::wire::HandleIds::releases(repetition),
          length(repetition.uploads()) ? repetition.uploads() : uploads,
          tables};
}

static std::string typeText(const TensorType &type) {
  std::string text;
  for (int64_t dim : type.dims) {
    text += std::to_string(dim) + "x";
  }
  return text + std::string(runtime::elementName(type.element));
}

llvm::Error StepBindings::checkCounts() const {
  auto check = [](const char *what, size_t found, size_t expected) {
    return found == expected
               ? llvm::Error::success()
               : requestError(wire::ErrorCode_Malformed, "the request binds " + Twine(found) + " " + what +
                                                             ", the program has " + Twine(expected));
  };
  const runtime::ProgramFacts &facts = plan.facts;
  auto count = [&](StepArg kind, size_t own) {
    return facts.joint ? facts.joint->counts[static_cast<size_t>(kind)] : own;
  };
  llvm::Error error = check("states", length(part.states), count(StepArg::State, facts.states));
  error = error ? std::move(error) : check("uploads", length(part.uploads), count(StepArg::Upload, facts.uploads));
  error = error ? std::move(error) : check("slots", length(part.slots), count(StepArg::Slot, facts.slots));
  error = error ? std::move(error) : check("seeds", length(part.seeds), count(StepArg::Seed, facts.seeds));
  error = error ? std::move(error) : check("tables", length(part.tables), count(StepArg::Table, facts.tables));
  return error ? std::move(error)
               : check("kept results", part.results.size(), facts.joint ? facts.joint->keeps : facts.keeps);
}

llvm::Error StepBindings::bindOwn() {
  const auto &args = plan.facts.args;
  bound.words.resize(args.size());
  states.resize(args.size());
  tables.resize(args.size());
  labels.assign(args.size(), Label::client());
  size_t next[6] = {};
  for (size_t index = 0; index < args.size(); ++index) {
    size_t position = next[static_cast<size_t>(args[index].kind)]++;
    position = plan.facts.joint ? plan.facts.joint->positions[index] : position;
    auto at = static_cast<flatbuffers::uoffset_t>(position);
    llvm::Error error = llvm::Error::success();
    switch (args[index].kind) {
    case StepArg::State: error = bindState(index, position); break;
    case StepArg::Upload: error = bindUpload(index, position); break;
    case StepArg::Slot: error = bindWord(index, part.slots->Get(at)); break;
    case StepArg::Seed: error = bindWord(index, part.seeds->Get(at)); break;
    case StepArg::Table: labels[index] = nullptr; break; // until its table is bound
    case StepArg::Coin: break;                           // no program has them
    }
    if (error) {
      return error;
    }
  }
  return llvm::Error::success();
}

llvm::Error StepBindings::bindTables(Store &store) {
  const auto &args = plan.facts.args;
  for (size_t index = 0, position = 0; index < args.size(); ++index) {
    if (args[index].kind == StepArg::Table) {
      const size_t at = position++;
      if (llvm::Error error = bindTable(store, index, plan.facts.joint ? plan.facts.joint->positions[index] : at)) {
        return error;
      }
    }
  }
  return llvm::Error::success();
}

llvm::Error unreadableTable(OwnerBooks &books, const Environment &environment, const std::string &account,
                            llvm::Error reason) {
  std::string text = llvm::toString(std::move(reason));
  if (account == kLocalClient) {
    return requestError(wire::ErrorCode_Dataset, text);
  }
  if (environment.log) {
    for (const std::string &line : books.unreadable.add(account, text, environment.elapsedMs())) {
      environment.log(line);
    }
  }
  return requestError(wire::ErrorCode_Dataset, "the owner cannot read a table of this step; its log says why");
}

void StepBindings::admitTables(bool isReadable) const {
  for (const auto &table : loaded) {
    session.worker.admit(table->id, table->dataset, isReadable);
  }
}

llvm::Error StepBindings::checkFiles() const {
  for (const auto &table : loaded) {
    for (const Column &column : table->dataset->columns()) {
      if (isDamaged(column.data)) {
        return requestError(
            wire::ErrorCode_Dataset,
            "the file of dataset '" + table->dataset->name() +
                "' became shorter, or its disk failed, while the owner used it; the data owner restores "
                "the file and starts the owner again");
      }
    }
  }
  return llvm::Error::success();
}

llvm::Error StepBindings::bindState(size_t index, size_t position) {
  uint64_t id = part.states->Get(static_cast<flatbuffers::uoffset_t>(position));
  auto found = session.handles.find(id);
  if (found == session.handles.end() || found->second.isLeaving) {
    return requestError(wire::ErrorCode_Handle,
                        "state " + Twine(position) + ": this session has no handle " + Twine(id));
  }
  const TensorType &expected = plan.facts.args[index].type;
  if (!(found->second.value.type == expected)) {
    return requestError(wire::ErrorCode_Malformed, "state " + Twine(position) + ": handle " + Twine(id) + " is " +
                                                       typeText(found->second.value.type) + ", the program expects " +
                                                       typeText(expected));
  }
  states[index] = &found->second;
  bound.words[index] = found->second.value.id;
  labels[index] = found->second.label;
  return llvm::Error::success();
}

llvm::Error StepBindings::bindUpload(size_t index, size_t position) {
  auto *tensor = part.uploads->Get(static_cast<flatbuffers::uoffset_t>(position));
  const TensorType &expected = plan.facts.args[index].type;
  llvm::StringRef data = bytesOf(tensor->data());
  size_t size = data.size();
  const PartialUpload *ahead = nullptr;
  if (uint64_t number = tensor->sent_ahead()) {
    auto found = session.uploads.find(number);
    if (found == session.uploads.end() || found->second.received != found->second.size ||
        !taken.insert(number).second) {
      return requestError(wire::ErrorCode_Handle,
                          "upload " + Twine(position) + ": number " + Twine(number) +
                              " is incomplete, or is bound twice; send its missing parts first");
    }
    ahead = &found->second;
    size = ahead->size;
    sentAhead.push_back(number);
  }
  bool fits = tensor->element() == static_cast<uint8_t>(expected.element) &&
              length(tensor->dims()) == expected.dims.size() && size == expected.bytes();
  for (size_t dim = 0; fits && dim < expected.dims.size(); ++dim) {
    fits = tensor->dims()->Get(static_cast<flatbuffers::uoffset_t>(dim)) == expected.dims[dim];
  }
  if (!fits) {
    TensorType found{elementOfNumber(tensor->element()).value_or(Element::u8), {}};
    for (size_t dim = 0; dim < std::min<size_t>(length(tensor->dims()), 16); ++dim) {
      found.dims.push_back(tensor->dims()->Get(static_cast<flatbuffers::uoffset_t>(dim)));
    }
    return requestError(wire::ErrorCode_Malformed, "upload " + Twine(position) + " is " + typeText(found) +
                                                       " (element " + Twine(unsigned(tensor->element())) + ") in " +
                                                       Twine(size) + " bytes, the program expects " +
                                                       typeText(expected) + " in " + Twine(expected.bytes()) +
                                                       " bytes");
  }
  auto isBits = [&] {
    return ahead ? ahead->isBits : llvm::all_of(data, [](char byte) { return byte == 0 || byte == 1; });
  };
  if (expected.element == Element::i1 && !isBits()) {
    return requestError(wire::ErrorCode_Malformed, "upload " + Twine(position) + " has booleans other than 0 and 1");
  }
  if (ahead) {
    bound.words[index] = ahead->value;
    return llvm::Error::success();
  }
  std::shared_ptr<runtime::Buffer> buffer;
  if (reinterpret_cast<uintptr_t>(data.data()) % sojourn::wire::kUploadAlignment == 0) {
    buffer = runtime::Buffer::borrow(data.data(), data.size()); // the message outlives the step
  } else {
    // Uploads of a message may share their bytes: copies of them do not.
    copied += data.size();
    if (copied > messageBytes) {
      return requestError(wire::ErrorCode_Malformed,
                          "the uploads of the step have more bytes than its message, and are not aligned to " +
                              Twine(sojourn::wire::kUploadAlignment) + "; align them");
    }
    buffer = runtime::copyOf(data.data(), data.size());
    sojourn::wire::countCopied(data.size());
  }
  bound.words[index] = session.worker.newId();
  bound.uploads.push_back(bound.words[index]);
  bound.memory.push_back(std::move(buffer));
  return llvm::Error::success();
}

llvm::Error StepBindings::bindWord(size_t index, uint64_t bits) {
  if (plan.facts.args[index].type.element == Element::i1 && bits > 1) {
    return requestError(wire::ErrorCode_Malformed, "argument " + Twine(index) + " is a boolean slot, its bits are " +
                                                       Twine(bits) + ", expected 0 or 1");
  }
  bound.words[index] = bits;
  return llvm::Error::success();
}

llvm::Error StepBindings::bindTable(Store &store, size_t index, size_t position) {
  const auto *table = part.tables->Get(static_cast<flatbuffers::uoffset_t>(position));
  std::string name = table->name() ? table->name()->str() : "";
  llvm::StringRef version = table->version() ? table->version()->c_str() : "";
  auto found = store.find(name);
  if (!found) {
    return found.takeError();
  }
  const bool isThis = *found && version == (*found)->dataset->version();
  auto became = isThis ? llvm::Expected<std::string>("") : store.whatBecame(name, version.str(), session.account);
  if (!became || !became->empty()) {
    return became ? requestError(wire::ErrorCode_Dataset, *became) : became.takeError();
  }
  if (!*found) {
    return requestError(wire::ErrorCode_Dataset, "no dataset is named '" + name + "'");
  }
  const Dataset &dataset = *(*found)->dataset;
  if (!isThis) {
    return requestError(wire::ErrorCode_Dataset, "dataset '" + name + "' has version " + dataset.version() +
                                                     ", the step was made for version " + version +
                                                     "; get the table again and record the step with it");
  }
  const runtime::ArgSpec &expected = plan.facts.args[index];
  if (expected.rows && dataset.rows() != *expected.rows) {
    return requestError(wire::ErrorCode_Dataset, "dataset '" + name + "' has " + Twine(dataset.rows()) +
                                                     " rows, the program expects " + Twine(*expected.rows));
  }
  for (const std::vector<Side> &part : expected.parts) {
    if (rowsOfPart(dataset.rows(), part).rows == 0) {
      return requestError(wire::ErrorCode_Dataset, "dataset '" + name + "' has " + Twine(dataset.rows()) +
                                                       " rows, and " + describePart(part) +
                                                       " of them is empty: nothing can be drawn from it; take another "
                                                       "fraction");
    }
  }
  for (const runtime::TableColumn &wanted : expected.columns) {
    const Column *column = dataset.column(wanted.name);
    if (!column || column->element != wanted.element ||
        llvm::ArrayRef<int64_t>(column->dims) != llvm::ArrayRef<int64_t>(wanted.dims)) {
      auto entry = [](Element element, llvm::ArrayRef<int64_t> dims) {
        return typeText({element, {dims.begin(), dims.end()}});
      };
      return requestError(wire::ErrorCode_Dataset,
                          "dataset '" + name + "' has " +
                              (column ? "column '" + wanted.name + "' of type " + entry(column->element, column->dims)
                                      : "no column '" + wanted.name + "'") +
                              ", the program expects type " + entry(wanted.element, wanted.dims));
    }
  }
  bound.words[index] = (*found)->id;
  tables[index] = &dataset;
  labels[index] = (*found)->label;
  loaded.push_back(std::move(*found));
  return llvm::Error::success();
}

} // namespace sojourn::owner
