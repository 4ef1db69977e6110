#include "runtime/run_book.hpp"

#include <cstdlib>
#include <string_view>

#include "storage/row_hint.hpp"

namespace dovetail::runtime {
namespace {

using std::chrono::milliseconds;

/// A run of fewer messages does not pay for its row.
constexpr int least_messages = 64;
/// Younger messages are in no run, so that few messages are committed into an open run.
constexpr milliseconds min_age{100};
/// How long to lease messages one by one after a claim that found no run, and after slow handlers.
constexpr milliseconds pause_without_run{100};
constexpr milliseconds pause_of_slow_handlers{10'000};

}  // namespace

RunBook::Policy RunBook::policy_from_environment() {
  const char* text = std::getenv("DOVETAIL_TEST_RUNS");
  const std::string_view word = text != nullptr ? text : "";
  if (word == "always") return Policy::always;
  return word == "never" ? Policy::never : Policy::by_need;
}

std::optional<storage::RunOrder> RunBook::next_run(int batch_size, MonoTime now) {
  const std::lock_guard lock(mutex_);
  if (policy_ == Policy::never) return std::nullopt;
  if (policy_ == Policy::always) return storage::RunOrder{++last_run_, 1, milliseconds{0}};
  if (batch_size < least_messages || now < paused_until_) return std::nullopt;
  return storage::RunOrder{++last_run_, least_messages, min_age};
}

void RunBook::opened(std::int64_t run, std::span<const storage::ClaimedEntry> entries) {
  const std::lock_guard lock(mutex_);
  auto& claims = open_[run];
  claims.reserve(entries.size());
  for (const auto& entry : entries) claims.insert(entry.claimed.claim.id);
}

void RunBook::note_none(MonoTime now) {
  const std::lock_guard lock(mutex_);
  paused_until_ = std::max<MonoTime>(paused_until_, now + pause_without_run);
}

void RunBook::note_slow(MonoTime now) {
  const std::lock_guard lock(mutex_);
  paused_until_ = now + pause_of_slow_handlers;
}

void RunBook::end(const Claim& claim) {
  if (!storage::is_of_run(claim)) return;
  const std::lock_guard lock(mutex_);
  const auto run = open_.find(storage::run_of(claim));
  if (run != open_.end()) run->second.erase(claim.id);
}

std::vector<std::int64_t> RunBook::ended_with(std::span<const Claim> claims) const {
  const std::lock_guard lock(mutex_);
  std::map<std::int64_t, std::size_t> ending;  // by run
  for (const auto& claim : claims) {
    if (!storage::is_of_run(claim)) continue;
    const auto run = open_.find(storage::run_of(claim));
    if (run != open_.end() && run->second.contains(claim.id)) ++ending[run->first];
  }
  std::vector<std::int64_t> ended;
  for (const auto& [run, open] : open_) {
    const auto found = ending.find(run);
    if (open.size() == (found == ending.end() ? 0 : found->second)) ended.push_back(run);
  }
  return ended;
}

void RunBook::closed(std::span<const std::int64_t> runs) {
  const std::lock_guard lock(mutex_);
  for (const auto run : runs) open_.erase(run);
}

}  // namespace dovetail::runtime
