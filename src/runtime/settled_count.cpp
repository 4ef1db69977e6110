#include "runtime/settled_count.hpp"

#include <algorithm>
#include <utility>

namespace dovetail::runtime {

std::string_view outcome_of(const storage::Settlement& settlement, const Message& message) {
  using Kind = storage::Settlement::Kind;
  const bool last = settlement.kind == Kind::fail ||
                    (settlement.kind == Kind::abandon &&
                     message.attempts + settlement.charge >= settlement.max_attempts);
  switch (settlement.kind) {
    case Kind::ack:
      return "done";
    case Kind::snooze:
      return settlement.delay ? "snoozed" : "released";
    case Kind::abandon:
    case Kind::fail:
      break;
  }
  if (!last) return "retry";
  const bool blocks = message.stream && settlement.on_stream_failure == StreamFailure::block;
  return blocks ? "blocked" : "dead_letter";
}

void count_settled(const QueueScope& scope, std::span<const Finished> finished, std::size_t settled,
                   MonoTime now) {
  auto lost = finished.size() - std::min(settled, finished.size());
  std::size_t expired = 0;
  if (lost > 0) {
    const auto all = std::ranges::count_if(
        finished, [now](const Finished& each) { return each.lease_end <= now; });
    expired = std::min(lost, static_cast<std::size_t>(all));
    lost -= expired;
  }
  // Messages of one topic often follow each other: they are counted with one call.
  const Finished* first = nullptr;
  std::uint64_t run = 0;
  for (const auto& each : finished) {
    if (expired > 0 && each.lease_end <= now) {
      --expired;
      continue;
    }
    if (lost > 0) {
      --lost;
      continue;
    }
    if (first != nullptr && (first->topic != each.topic || first->outcome != each.outcome)) {
      scope.count_settled(first->topic, first->outcome, std::exchange(run, 0));
      first = nullptr;
    }
    if (first == nullptr) first = &each;
    ++run;
  }
  if (first != nullptr) scope.count_settled(first->topic, first->outcome, run);
}

}  // namespace dovetail::runtime
