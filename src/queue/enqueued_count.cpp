#include "queue/enqueued_count.hpp"

#include <algorithm>

namespace dovetail::queue {

void EnqueuedCount::add(std::string_view topic, bool stored) {
  // The newest topic first: messages of one topic often follow each other.
  auto found = std::ranges::find(topics_.rbegin(), topics_.rend(), topic, &Topic::topic);
  if (found == topics_.rend()) {
    topics_.push_back({.topic = std::string{topic}});
    found = topics_.rbegin();
  }
  ++(stored ? found->stored : found->duplicates);
}

void EnqueuedCount::add(std::span<const storage::NewMessage> messages,
                        std::span<const Enqueued> answers) {
  for (std::size_t i = 0; i < answers.size(); ++i) add(messages[i].topic, answers[i].stored());
}

std::size_t EnqueuedCount::stored() const {
  std::size_t sum = 0;
  for (const auto& each : topics_) sum += each.stored;
  return sum;
}

std::size_t EnqueuedCount::duplicates() const {
  std::size_t sum = 0;
  for (const auto& each : topics_) sum += each.duplicates;
  return sum;
}

void EnqueuedCount::report(const Metrics& metrics, std::string_view store,
                           std::string_view queue) const {
  for (const auto& each : topics_) {
    metrics.count("dovetail_enqueued_total", each.stored,
                  {{"store", store}, {"queue", queue}, {"topic", each.topic}});
    metrics.count("dovetail_duplicates_total", each.duplicates,
                  {{"store", store}, {"queue", queue}, {"topic", each.topic}});
  }
}

}  // namespace dovetail::queue
