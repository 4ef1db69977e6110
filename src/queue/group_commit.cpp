#include "queue/group_commit.hpp"

#include <condition_variable>
#include <utility>

namespace dovetail::queue {
namespace {

/// A larger message is sent over a connection of its own, beside the groups.
constexpr std::size_t largest_message = std::size_t{64} << 10;

/// A larger group may be slow because of its messages, not because of the commit.
constexpr std::size_t small_group = 16;

std::size_t size_of(const storage::NewMessage& message) {
  return message.payload.size() + (message.headers ? message.headers->size() : 0);
}

}  // namespace

/// One call of store().
///
/// It waits for the commits of other threads, and measures them. Both are real time; see clock.hpp.
struct GroupCommit::Member {
  enum class State { waiting, leads, ended };

  explicit Member(const storage::NewMessage& given) : message(given) {}

  void set(State next) {
    // Under the lock: as soon as the caller sees the state, it returns and destroys the member.
    const std::lock_guard lock(mutex);
    state = next;
    changed.notify_one();
  }
  [[nodiscard]] bool has_turn() const { return state == State::leads || state == State::ended; }
  void await_turn() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return has_turn(); });
  }
  bool await_turn_for(std::chrono::microseconds time) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, time, [this] { return has_turn(); });
  }
  void end(Outcome result, Trouble reason) {
    outcome = result;
    trouble = std::move(reason);
    set(State::ended);
  }

  const storage::NewMessage& message;
  const std::chrono::steady_clock::time_point since = std::chrono::steady_clock::now();
  Outcome outcome = Outcome::not_stored;
  Trouble trouble;
  std::mutex mutex;
  std::condition_variable changed;
  State state = State::waiting;
};

GroupCommit::GroupCommit(storage::Database& database, storage::QueueProducer& producer,
                         std::string queue, Logger log, Metrics metrics)
    : database_(database),
      producer_(producer),
      queue_(std::move(queue)),
      options_(database.group_commit()),
      log_(std::move(log)),
      metrics_(std::move(metrics)) {}

bool GroupCommit::takes(const storage::NewMessage& message) const {
  return options_.transactions > 0 && message.fresh && !message.unique_key &&
         size_of(message) <= largest_message;
}

GroupCommit::Outcome GroupCommit::store(const storage::NewMessage& message) {
  process_.require();  // in a forked child, the lock may be held forever
  Member member(message);
  enter(member);
  if (member.state == Member::State::leads) lead(member);
  const bool late = std::chrono::steady_clock::now() - member.since >= options_.patience;
  if (member.outcome == Outcome::not_stored && member.trouble && late) {
    throw Error(*member.trouble);
  }
  return member.outcome;
}

void GroupCommit::enter(Member& member) {
  bool watches = false;
  {
    const std::lock_guard lock(mutex_);
    if (under_way_ < (is_slow_ ? options_.most_transactions : options_.transactions)) {
      ++under_way_;
      member.state = Member::State::leads;
      return;
    }
    watches = waiting_.empty();
    waiting_.push_back(&member);
  }
  // The first waiting caller leads when it has waited for too long.
  if (watches && (member.await_turn_for(options_.most_wait) || lead_out_of_turn(member))) return;
  member.await_turn();
}

bool GroupCommit::lead_out_of_turn(Member& member) {
  const std::lock_guard lock(mutex_);
  if (under_way_ >= options_.most_transactions || std::erase(waiting_, &member) == 0) return false;
  ++under_way_;
  member.state = Member::State::leads;
  return true;
}

void GroupCommit::lead(Member& leader) {
  Members group{&leader};
  auto outcome = Outcome::stored;
  Trouble trouble;
  const auto start = std::chrono::steady_clock::now();
  try {
    write(group);
  } catch (const Error& error) {
    note_failed(error, group.size());
    outcome = error.is_in_doubt() ? Outcome::in_doubt : Outcome::not_stored;
    if (error.is_in_doubt() || error.is_transient()) {
      trouble = std::make_shared<const Error>(error);
    }
  } catch (const std::exception&) {
    outcome = Outcome::not_stored;  // each caller gets its own failure when it stores alone
  }
  const bool slow = group.size() <= small_group &&
                    std::chrono::steady_clock::now() - start > 2 * options_.most_wait;
  pass_on(trouble, slow);
  for (auto* member : group) {
    if (member != &leader) member->end(outcome, trouble);
  }
  leader.outcome = outcome;
  leader.trouble = trouble;
  if (outcome == Outcome::stored) note_stored(group.size());
}

void GroupCommit::write(Members& group) {
  std::vector<storage::NewMessage> messages;
  database_.write({.single_statement = true, .repeatable = true, .once = true},
                  [&](storage::WriteSession& session) {
                    take_waiting(group);  // only now: messages gather until a connection is free
                    if (group.size() == 1) {
                      producer_.enqueue(session, group.front()->message);
                      return;
                    }
                    messages.reserve(group.size());
                    for (const auto* member : group) messages.push_back(member->message);
                    producer_.enqueue_many(session, messages, false);
                  });
}

void GroupCommit::take_waiting(Members& group) {
  auto bytes = size_of(group.front()->message);
  const std::lock_guard lock(mutex_);
  while (!waiting_.empty() && group.size() < options_.most_messages) {
    bytes += size_of(waiting_.front()->message);
    if (bytes > options_.most_bytes) return;
    group.push_back(waiting_.front());
    waiting_.pop_front();
  }
}

void GroupCommit::pass_on(const Trouble& trouble, bool slow) {
  std::deque<Member*> released;
  Member* next = nullptr;
  {
    const std::lock_guard lock(mutex_);
    is_slow_ = slow;
    if (trouble) released.swap(waiting_);
    if (waiting_.empty()) {
      --under_way_;
    } else {
      next = waiting_.front();
      waiting_.pop_front();
    }
  }
  if (next != nullptr) next->set(Member::State::leads);
  for (auto* member : released) member->end(Outcome::not_stored, trouble);
}

void GroupCommit::note_stored(std::size_t size) const {
  metrics_.count("dovetail_group_commits_total", 1,
                 {{"store", database_.name()}, {"queue", queue_}});
  metrics_.count("dovetail_group_commit_messages_total", size,
                 {{"store", database_.name()}, {"queue", queue_}});
}

void GroupCommit::note_failed(const Error& error, std::size_t size) const {
  if (error.kind() == ErrorKind::cancelled) return;
  metrics_.count("dovetail_group_commit_failed_total", 1,
                 {{"store", database_.name()}, {"queue", queue_}});
  log_.write(LogLevel::warn, queue_ + ".group_commit_failed",
             {{"store", database_.name()},
              {"kind", to_string(error.kind())},
              {"code", error.native_code()},
              {"statement", error.statement()},
              {"count", size}});
}

}  // namespace dovetail::queue
