// SPDX-License-Identifier: Apache-2.0
// What a step on private tables needs besides: its plan with noise, its price, its receipts.
#ifndef SOJOURN_OWNER_PRIVATESTEP_H
#define SOJOURN_OWNER_PRIVATESTEP_H

#include "owner/PrivatePlan.h"
#include "owner/Reply.h"
#include "owner/StepBindings.h"
#include "owner/OwnerBooks.h"
#include "owner/StepMachine.h"

#include <optional>
#include <set>

namespace sojourn::owner {

/// What an owner may set, and a step ask for.
llvm::Error checkDefaults(const PrivacyDefaults &defaults);

/// Of one step, in the session's turn.
class PrivateStep {
public:
  /// Nothing where no private table is bound. Refused where the program cannot be made private, or where a price of
  /// its own is missing. Takes the owner's mutex for moments. `follows`: another step of the message was staged and has
  /// not run, so the worker is not asked, and only a proof that is known will do.
  static llvm::Expected<std::optional<PrivateStep>> make(OwnerBooks &books, StepMachine &machine,
                                                         const wire::Step &request, const StepPart &part,
                                                         Session &session, const std::shared_ptr<const Plan> &plan,
                                                         const StepBindings &bound, bool follows);
  PrivateStep(PrivateStep &&) = default;
  PrivateStep &operator=(PrivateStep &&other) = default;
  /// A price that was paid and brought nothing stands: its key is burnt.
  ~PrivateStep();

  /// Private tables, and values that were computed from their rows and not released.
  bool isPrivate(unsigned argument) const { return sources[argument].has_value() || !terms.publicArguments[argument]; }
  size_t runBytes(unsigned threads) const { return verdict().runBytes(threads); }
  uint64_t operations() const { return verdict().operations; }
  bool isReleased(size_t result) const { return verdict().results[result].isReleased; }
  /// Labels of results, from those that follow from the arguments. What the noise releases has the labels of the public
  /// arguments that it depends on; anything else has those of the private tables that it holds rows of, or whose draw
  /// it depends on. Internal where data flow says that a result without such a label has private rows.
  llvm::Error label(std::vector<LabelPtr> &labels) const;

  /// The checks before the step is paid: traits of the engine, slots and ranges of the proof, and lists of row numbers
  /// at which a private table would be read, as far as they are known: none names a row twice.
  llvm::Error check(const BoundWords &bound, unsigned threads) const;
  /// Durable when it returns.
  llvm::Error pay();
  /// A step that was paid and did not begin: a step of a run is given back, the key of a release is burnt. Allocates
  /// nothing.
  void putBack() noexcept;
  /// Whether the steps after it may be proved, checked and paid before it has run: nothing of them rests on values that
  /// it writes, it has no release to seal, and it did not take the last step of a block, which could not be given back
  /// once the next one is begun.
  bool letsOthersFollow() const;
  bool sealsRelease() const;
  const CodeRef &code() const { return *noised->code; }
  /// The charges and the step that coins are for.
  const std::vector<uint64_t> &coinContext() const { return charged; }
  /// Of the results, once the step has run: those that arguments changed.
  void setErrors(llvm::ArrayRef<double> varying);
  /// For the log of programs.
  std::string logText() const;
  bool isTicketed() const { return ticket.has_value(); }
  /// Whether a budget was charged for this step.
  bool isCharged() const { return charged.size() > 2; }
  /// Keeps what leaves, and makes the receipts.
  llvm::Error seal(std::string_view bytes);
  PrivacyReport report() const;

private:
  PrivateStep(OwnerBooks &books, StepMachine &machine, const wire::Step &request, Session &session,
              std::shared_ptr<const Plan> plan)
      : books(&books), machine(&machine), request(&request), session(&session), plan(std::move(plan)) {}
  const runtime::Verdict &verdict() const { return noised->verdict; }
  llvm::Error setSources(const StepBindings &bound);
  void setTerms(const StepPart &part, const StepBindings &bound);
  llvm::Error setReleases();
  /// "private dataset 'a', 'b'", for errors.
  std::string datasets() const;
  llvm::Error setPlan(const StepBindings &bound);
  llvm::Error setKnownPlan();
  llvm::Expected<std::vector<std::optional<runtime::Extent>>> extentsOf(const StepBindings &bound) const;
  /// The plan for the terms as they are: a known one, or made.
  llvm::Error findPlan();
  std::vector<ledger::Item> items(bool beside) const;
  llvm::Error checkCharges() const;

  OwnerBooks *books;
  StepMachine *machine;
  const wire::Step *request;
  Session *session;
  std::shared_ptr<const Plan> plan;
  std::shared_ptr<const PrivatePlan> noised; ///< what runs instead of `plan`
  PrivateTerms terms;
  PrivacyDefaults defaults; ///< of the private tables; of several the most careful
  /// Per argument the dataset, where it is a private table.
  std::vector<std::optional<Source>> sources;
  std::vector<LabelPtr> argumentLabels;
  /// Private sources of the arguments that are not public.
  std::set<Source> unreleased;
  /// Per result the standard deviation of its noise, of the element that has most; NaN: not known.
  std::vector<double> errors;
  sojourn::wire::Spending spending;
  double delta = 0;
  bool isNew = false; ///< the plan was made for this step: its notes are told once
  /// By numbers of the ledger: runs with their steps, and the release.
  std::vector<uint64_t> charged;
  std::shared_ptr<RunAccount> paidBy;  ///< the run that paid the step, if one did
  std::vector<ledger::Item> paidByRun; ///< what it paid
  std::optional<ledger::Ticket> ticket;
  ledger::ReserveRequest paid; ///< what the ticket is for
  bool isSealed = false;
  std::string receipt, receiptText;
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_PRIVATESTEP_H
